"""Prefix sums of bits modulo 2 (the parity of all bits so far), an answer at every position
(arXiv 2106.04537).

Trained on strings of up to 32 bits and judged beyond. Ids: bit + 2; there is no end.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from ut_tf.data.arguments import at_least
from ut_tf.data.example_table import ExampleTable
from ut_tf.data.problem import EvaluationSet, Problem
from ut_tf.data.split_of import EmptySplitError, belong, first_of_each
from ut_tf.errors import counted
from ut_tf.problem_spec import ProblemSpec
from ut_tf.problems.reasoning.codec import BITS, BitsCodec, aligned_spec
from ut_tf.symbols import FIRST_SYMBOL_ID

MIDDLE = "middle"
# Of as many strings as a split has: within so many draws those of a tenth of all strings are found,
# or every one where there are no more of them.
_MOST_DRAWS = 100
# First component of the seed of each split, so that no two splits share their draws.
_SPLIT_SEEDS = {"train": 0, "validation": 1, "test": 2}


class PrefixSums(Problem):
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
        self.max_length = at_least(1, "max_length", max_length)
        self.disjoint_splits = disjoint_splits
        self.validation_length = at_least(1, "validation_length", validation_length)
        self.counts = {
            "train": at_least(1, "train_examples", train_examples),
            "validation": at_least(1, "validation_examples", validation_examples),
            "test": at_least(1, "test_examples", test_examples),
        }
        self.name = name or f"prefix_sums_{max_length}"
        self.selection_metric = (f"{MIDDLE}/accuracy", "max")

    def prepare(self, data_dir: Path, tmp_dir: Path) -> None:
        """Does nothing: the examples are made when they are read."""
        del data_dir, tmp_dir

    def spec(self, data_dir: Path) -> ProblemSpec:
        """Tokens with aligned targets over one vocabulary: padding, end and the two bits."""
        del data_dir
        return aligned_spec(len(BITS))

    def examples(
        self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None
    ) -> ExampleTable:
        """{"inputs": [length], "targets": [length]}, int32; (seed, epoch) decide "train" only.

        Without `length` the examples have the lengths of training.
        """
        del data_dir
        self.check_split(split)
        if length is not None:
            at_least(1, "length", length)
        own = [seed % 2**63, epoch] if split == "train" else []
        draws = np.random.default_rng([_SPLIT_SEEDS[split], *own])
        bits, is_there = self._drawn(split, draws, length)
        sizes = is_there.sum(axis=1)
        inputs, targets = (
            tf.constant(np.where(is_there, values + FIRST_SYMBOL_ID, 0), tf.int32)
            for values in (bits, np.cumsum(bits, 1) % 2)
        )

        def batch(numbers: Any) -> dict[str, Any]:
            return {"inputs": tf.gather(inputs, numbers), "targets": tf.gather(targets, numbers)}

        return ExampleTable(sizes.astype(np.int32), batch)

    def _drawn(
        self, split: str, draws: np.random.Generator, length: int | None
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Bits, and which of them count, [examples, longest], of as many examples as the split has.

        Raises:
          EmptySplitError: no string of so few bits belongs to the split.
        """
        width, count = length or self.max_length, self.counts[split]
        # Longer ones are not trained on.
        divided = self.disjoint_splits and width <= self.max_length
        # The same string judged twice is no second example.
        once = self.disjoint_splits and length is not None and split != "train"
        made = np.zeros([0, width], np.int64)
        for _ in range(_MOST_DRAWS if divided or once else 1):
            sizes = (
                draws.integers(1, width + 1, count) if length is None else np.full(count, length)
            )
            bits = draws.integers(0, 2, [count, width])
            # A place that does not count has -1.
            strings = np.where(np.arange(width) < sizes[:, None], bits, -1)
            strings = strings[belong(strings + 1, split)] if divided else strings
            made = np.concatenate([made, strings])
            made = made[first_of_each(made)] if once else made
            if len(made) >= count:
                break
        every = made[:count]
        if not len(every):
            raise EmptySplitError(
                f"{self.name} has no strings of {counted(width, 'bit')}"
                f"{'' if length else ' or less'} that belong to its {split} split: set a larger"
                " length."
            )
        return np.maximum(every, 0), every >= 0

    def evaluation_sets(self, lengths: tuple[int, ...] = ()) -> list[EvaluationSet]:
        """One set for each length, by default the longest of training and four times that."""
        return [
            EvaluationSet(name=f"length_{length}", split="test", method="aligned", length=length)
            for length in lengths or (self.max_length, 4 * self.max_length)
        ]

    def validation_sets(self) -> list[EvaluationSet]:
        """The lengths of training, and a length between training and test."""
        return [
            EvaluationSet(name="", split="validation", method="aligned"),
            EvaluationSet(
                name=MIDDLE, split="validation", method="aligned", length=self.validation_length
            ),
        ]

    def text_codec(self, vocab_dir: Path) -> BitsCodec:
        """The codec of bits, which needs no file."""
        del vocab_dir
        return BitsCodec()
