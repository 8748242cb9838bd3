"""Splits that share no example.

::

    are_trained_on = belong(rows, "train")      # bool [examples]: four fifths of all inputs
    judged = exclude_trained(judged, train, key=same_text)
    train, held_out = separate_lines(train, held_out)

The content of a generated input decides its split, whatever the seed and the epoch. Of texts that
are given, those that stand in two splits are left out of one of them.
"""

import functools
import unicodedata
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ut_tf.errors import UserError

# Of ten shares one tests and one validates.
_SHARES = 10
_NUMBERS = {"test": 0, "validation": 1}
_MIXER = np.uint64(0xFF51AFD7ED558CCD)
_HALF = np.uint64(33)
# A line that stands more often in a text is a part of its language ("}", "* * *").
_COMMON = 10
T = TypeVar("T")


class EmptySplitError(UserError):
    """No input of a length, or of the shortest ones, belongs to a split."""


def belong(rows: npt.NDArray[Any], split: str) -> npt.NDArray[np.bool_]:
    """Whether each input is of a split: "train", "validation" or "test".

    Args:
      rows: int [examples, length]: ids of the inputs, padded with 0 at their ends.
      split: its name.
    """
    numbers = _checksums(rows) % np.uint64(_SHARES)
    if split == "train":
        return np.asarray(numbers >= len(_NUMBERS))
    return np.asarray(numbers == _NUMBERS[split])


def _checksums(rows: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """A number for each row, which its padding does not change."""
    factors = np.random.default_rng(0).integers(2**63, size=rows.shape[1], dtype=np.uint64)
    sums = (rows.astype(np.uint64) * (2 * factors + 1)).sum(axis=1, dtype=np.uint64)
    # The low digits of a sum are those of its terms alone.
    mixed = (sums ^ (sums >> _HALF)) * _MIXER
    return np.asarray(mixed ^ (mixed >> _HALF))


def first_of_each(rows: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The numbers of the rows that are like none before them, ascending."""
    _, numbers = np.unique(rows, axis=0, return_index=True)
    return np.sort(numbers)


nfc = functools.partial(unicodedata.normalize, "NFC")


def same_text(text: str) -> str:
    """The text as subwords see it: equal for texts that differ in their blanks alone, or in how
    their characters are composed.
    """
    return " ".join(unicodedata.normalize("NFC", text).split())


def exclude_trained(
    judged: Iterable[T], train: Iterable[T], key: Callable[[T], Hashable]
) -> list[T]:
    """The examples for validation or test without those whose key a training example has."""
    seen = {key(example) for example in train}
    return [example for example in judged if key(example) not in seen]


def separate_lines(
    train: Sequence[str], held_out: Sequence[str], key: Callable[[str], str] = same_text
) -> tuple[list[str], list[str]]:
    """The lines for training and those held out without the lines that both have: what is common in
    training is left out of what is held out, and what is rare of training. No lines in the place of
    one of them where it has no others.
    """
    judged = {key(line) for line in held_out}
    counts = Counter(same for line in train if (same := key(line)) in judged)
    common = {line for line, count in counts.items() if count > _COMMON}
    rare = counts.keys() - common
    return (
        [line for line in train if key(line) not in rare],
        [line for line in held_out if key(line) not in common],
    )
