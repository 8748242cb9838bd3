"""Training pairs held out for validation, where there is no text for it."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from ut_tf.data.corpus.encoding import Filters, Pair
from ut_tf.errors import UserError, counted

_HELD_OUT_SHARE, _HELD_OUT_MOST = 0.02, 2000
# Symbols of one side that is judged whole: attention weights grow with the square of it, to some
# hundred megabytes here.
LONGEST_JUDGED = 2000


class HeldOut:
    """Training pairs set apart for validation, chosen by a fixed seed, and the pairs that remain.

    Args:
      train: all training pairs.
      total: their number.
      filters: pairs that these leave out are not held out, nor those with a side of more bytes than
        symbols may be judged.
      key: equal for sides that are the same.
    """

    def __init__(
        self, train: Iterable[Pair], total: int, filters: Filters, key: Callable[[str], str] = str
    ) -> None:
        self._key = key
        size = min(_HELD_OUT_MOST, int(np.ceil(_HELD_OUT_SHARE * total)))
        chosen = {*np.random.default_rng(0).choice(total, size, replace=False).tolist()}
        held_out = {
            number: pair
            for number, pair in enumerate(train)
            if number in chosen and _may_be_judged(pair, filters)
        }
        if not held_out or size == total:
            raise UserError(
                f"{counted(total, 'training pair')} leave none to hold out for validation: give"
                " more, or files for validation (`dev_source_files`)."
            )
        self._numbers = held_out.keys()
        self.pairs = list(held_out.values())
        self._sources = {key(source) for source, _ in self.pairs}
        self._targets = {key(target) for _, target in self.pairs}
        self.alike = 0
        """Pairs left out by the last pass of ``training_pairs`` because their source or their
        target was held out as well.
        """

    def training_pairs(self, train: Iterable[Pair]) -> Iterator[Pair]:
        """Yields the pairs that are not held out and neither side of which is: the reverse problem
        is judged on them too.
        """
        self.alike = 0
        for number, pair in enumerate(train):
            if number in self._numbers:
                continue
            source, target = map(self._key, pair)
            if source in self._sources or target in self._targets:
                self.alike += 1
            else:
                yield pair


def _may_be_judged(pair: Pair, filters: Filters) -> bool:
    # A blank is three bytes for sentencepiece, but one symbol; no vocabulary exists yet that would
    # tell the exact number.
    return not filters.of_text(*pair) and max(len(text.encode()) for text in pair) < LONGEST_JUDGED
