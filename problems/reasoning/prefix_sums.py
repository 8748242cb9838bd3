"""Prefix sums of bits modulo 2 (the parity of all bits so far), an answer at every position
(arXiv 2106.04537); and parity, with an answer at the last one.

Trained on strings of up to 32 or 40 bits and judged beyond. Difficulty is the number of bits that a
sum is of, which are added one after the other.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from ut_tf.data.arguments import at_least
from ut_tf.problems.reasoning.codec import BITS, BitsCodec, Places
from ut_tf.problems.reasoning.strings import MIDDLE, NOTHING, Solved, Strings, StringTask
from ut_tf.symbols import PADDING_ID


class PrefixSums(StringTask):
    """Strings of bits and their prefix sums modulo 2, generated without end.

    Args:
      max_length: the longest training example; lengths are uniform from 1.
      train_examples: examples in one epoch.
      validation_length: length of the validation examples that choose the checkpoint.
      validation_examples: how many of those there are.
      test_examples: examples judged at each length; of short lengths each string of the split once.
      disjoint_splits: whether an input's content decides its split, so that none is both trained on
        and judged; otherwise short ones are.
      name: the problem's name, for messages.
    """

    symbols = BITS
    unit = "bit"
    group_by = None
    earlier_arguments: ClassVar[Mapping[str, Any]] = {"disjoint_splits": False}

    def __init__(
        self,
        max_length: int = 32,
        train_examples: int = 100_000,
        validation_length: int = 64,
        validation_examples: int = 100,
        test_examples: int = 200,
        disjoint_splits: bool = True,
        name: str = "",
    ) -> None:
        at_least(1, "max_length", max_length)
        at_least(1, "validation_length", validation_length)
        super().__init__(
            max_length,
            name or f"prefix_sums_{max_length}",
            train_examples=train_examples,
            validation_size=validation_length,
            validation_examples=validation_examples,
            test_examples=test_examples,
            disjoint_splits=disjoint_splits,
        )
        self.max_length = max_length
        self.selection_metric = (f"{MIDDLE}/accuracy", "max")

    def solve(self, strings: Strings) -> Solved:
        sums = np.cumsum(np.maximum(strings, 0), 1) % 2
        numbers = np.broadcast_to(np.arange(1, strings.shape[1] + 1), strings.shape)
        return Solved(np.where(strings >= 0, sums, NOTHING), numbers)

    def text_codec(self, vocab_dir: Path) -> BitsCodec:
        """The codec of bits, which needs no file."""
        return BitsCodec(self.places())


class Parity(PrefixSums):
    """Strings of bits and, at their last position, their sum modulo 2; arguments as of
    ``PrefixSums``.
    """

    def solve(self, strings: Strings) -> Solved:
        sums, numbers = super().solve(strings)
        is_last = np.arange(strings.shape[1]) == (strings >= 0).sum(1)[:, None] - 1
        return Solved(np.where(is_last, sums, NOTHING), numbers)

    def places(self) -> Places:
        """The last bit."""
        return Places(_is_last, "a bit")


def _is_last(inputs: Any) -> Any:
    """Whether each of inputs int32 [batch, length] is the last symbol, bool [batch, length]."""
    behind = tf.pad(inputs[:, 1:], [[0, 0], [0, 1]])
    return tf.not_equal(inputs, PADDING_ID) & tf.equal(behind, PADDING_ID)
