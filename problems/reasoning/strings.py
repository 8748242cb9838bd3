"""Tasks on strings that are generated without end, with an answer at some or all positions, whose
needed depth is known.

How it is used: a task says how strings are drawn, and what they ask for::

    class Parity(StringTask):
        symbols = "01"

        def solve(self, strings):
            ...
            return Solved(targets, position_difficulty)

Trained on sizes up to ``max_size`` and judged beyond. A size is a length, or what else makes the
task harder. Ids: symbol + 2; there is no end.

Difficulty is the number of steps that a named algorithm takes, of each position and, as the largest
of them, of the example.
"""

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypedDict, Unpack

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from ut_tf.data.arguments import at_least
from ut_tf.data.example_table import ExampleTable
from ut_tf.data.problem import EvaluationSet, Problem
from ut_tf.data.split_of import EmptySplitError, belong, first_of_each
from ut_tf.errors import check_arguments, counted
from ut_tf.problem_spec import ProblemSpec
from ut_tf.problems.reasoning.codec import AlignedCodec, Places, aligned_spec
from ut_tf.symbols import FIRST_SYMBOL_ID

MIDDLE = "middle"
NOTHING = -1
"""Stands for padding in strings, and for no answer in targets."""
# Of as many strings as a split has: within so many draws those of a tenth of all strings are found,
# or every one where there are no more of them.
_MOST_DRAWS = 100

Strings = npt.NDArray[np.int64]


class Solved(NamedTuple):
    """The answers of strings.

    Fields:
      targets: [examples, length], symbols by their numbers from 0, NOTHING where none is asked for.
      position_difficulty: [examples, length], steps of the algorithm until the answer is known: 0
        where it is given, -1 where the algorithm does not find it.
    """

    targets: Strings
    position_difficulty: Strings


class StringSizes(TypedDict, total=False):
    """The arguments that the tasks share.

    Args:
      train_examples: examples in one epoch.
      validation_size: size of the validation examples that choose the checkpoint.
      validation_examples: how many of those there are.
      test_examples: examples judged at each size; of small sizes each string of the split once.
      disjoint_splits: whether an input's content decides its split, so that none is both trained on
        and judged; otherwise short ones are.
    """

    train_examples: int
    validation_size: int
    validation_examples: int
    test_examples: int
    disjoint_splits: bool


class StringTask(Problem):
    """Base class of the tasks.

    Args:
      max_size: the largest size of training.
      name: the problem's name, for messages.
      **sizes: see ``StringSizes``.

    Attributes:
      argument_defaults: those of `sizes`.
      symbols: characters of inputs and targets, by their numbers from 0.
      answers: those of them that targets consist of; empty: all.
      size_word: what a size is, in the names of evaluation sets.
      unit: what a size counts.
      min_size: the smallest size.
      beyond: the size of the last evaluation set, in sizes of training.
    """

    method = "aligned"
    symbols: str
    answers: str = ""
    size_word: ClassVar[str] = "length"
    unit: ClassVar[str] = "symbol"
    min_size: ClassVar[int] = 1
    beyond: ClassVar[int] = 4
    group_by: ClassVar[str | None] = "difficulty"
    argument_defaults: ClassVar[StringSizes] = {
        "train_examples": 100_000,
        "validation_size": 0,
        "validation_examples": 200,
        "test_examples": 500,
        "disjoint_splits": True,
    }

    def __init__(self, max_size: int, name: str = "", **sizes: Unpack[StringSizes]) -> None:
        check_arguments(type(self).__name__, sizes, self.argument_defaults)
        given: StringSizes = {**self.argument_defaults, **sizes}
        self.max_size = at_least(self.min_size, "max_size", max_size)
        self.disjoint_splits = given["disjoint_splits"]
        validation_size = at_least(0, "validation_size", given["validation_size"])
        self.validation_size = validation_size or 2 * max_size
        self.counts = {
            "train": at_least(1, "train_examples", given["train_examples"]),
            "validation": at_least(1, "validation_examples", given["validation_examples"]),
            "test": at_least(1, "test_examples", given["test_examples"]),
        }
        self.name = name
        self.selection_metric = (f"{MIDDLE}/seq_accuracy", "max")

    def sizes(self, draws: np.random.Generator, count: int) -> Strings:
        """Draws the sizes of so many examples of training; default: each equally often."""
        return draws.integers(self.min_size, self.max_size + 1, count)

    def belong(self, strings: Strings, split: str) -> npt.NDArray[np.bool_]:
        """Whether strings [examples, length] are of a split; default: by what they consist of."""
        return belong(strings + 1, split)

    def draw(self, draws: np.random.Generator, sizes: Strings, width: int, split: str) -> Strings:
        """Draws strings [examples, length] of `sizes` [examples] up to `width`, with NOTHING behind
        their ends; default: of that length, each symbol equally often.
        """
        symbols = draws.integers(0, len(self.symbols), [len(sizes), width])
        return np.where(np.arange(width) < sizes[:, None], symbols, NOTHING)

    @abstractmethod
    def solve(self, strings: Strings) -> Solved:
        """Returns the answers of strings [examples, length]."""

    def prepare(self, data_dir: Path, tmp_dir: Path) -> None:
        """Does nothing: the examples are made when they are read."""

    def spec(self, data_dir: Path) -> ProblemSpec:
        """Tokens with aligned targets over one vocabulary: padding, end and the symbols."""
        return aligned_spec(len(self.symbols))

    def examples(
        self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None
    ) -> ExampleTable:
        """{"inputs", "targets", "position_difficulty": [length], "difficulty": []}, int32; (seed,
        epoch) decide "train" only. `length` is a size; without it they are those of training.
        """
        self.check_split(split)
        if length is not None:
            at_least(self.min_size, "length", length)
        own = [seed % 2**63, epoch] if split == "train" else []
        # No two splits share their draws.
        draws = np.random.default_rng([self.splits.index(split), *own])
        strings = self._drawn(split, draws, length)
        solved = self.solve(strings)
        columns = {
            "inputs": np.where(strings >= 0, strings + FIRST_SYMBOL_ID, 0),
            "targets": np.where(solved.targets >= 0, solved.targets + FIRST_SYMBOL_ID, 0),
            **self.difficulties(solved),
        }
        tensors = {name: tf.constant(column, tf.int32) for name, column in columns.items()}

        def batch(numbers: Any) -> dict[str, Any]:
            return {name: tf.gather(rows, numbers) for name, rows in tensors.items()}

        lengths = (strings >= 0).sum(1).astype(np.int32)
        return ExampleTable(lengths, batch, is_aligned=True)

    def difficulties(self, solved: Solved) -> Mapping[str, Strings]:
        """Returns the features of difficulty; -1 where the algorithm does not find all answers."""
        steps = np.where(solved.targets >= 0, solved.position_difficulty, 0)
        most = np.where((steps < 0).any(1), -1, steps.max(1))
        return {"difficulty": most, "position_difficulty": steps}

    def _drawn(self, split: str, draws: np.random.Generator, length: int | None) -> Strings:
        """The strings of a split, [examples, longest].

        Raises:
          EmptySplitError: no string of so small a size belongs to the split.
        """
        size, count = length or self.max_size, self.counts[split]
        # Larger ones are not trained on.
        divided = self.disjoint_splits and size <= self.max_size and split in Problem.splits
        # The same string judged twice is no second example.
        once = self.disjoint_splits and length is not None and split != "train"
        made: Strings | None = None
        for _ in range(_MOST_DRAWS if divided or once else 1):
            sizes = self.sizes(draws, count) if length is None else np.full(count, length)
            strings = self.draw(draws, sizes, size, split)
            strings = strings[self.belong(strings, split)] if divided else strings
            made = strings if made is None else np.concatenate([made, strings])
            made = made[first_of_each(made)] if once else made
            if len(made) >= count:
                break
        assert made is not None
        if not len(made):
            raise EmptySplitError(
                f"{self.name} has no strings of {counted(size, self.unit)}"
                f"{'' if length else ' or less'} that belong to its {split} split: set a larger"
                " length."
            )
        return made[:count]

    def evaluation_sets(self, lengths: tuple[int, ...] = ()) -> list[EvaluationSet]:
        """One set for each size, by default the largest of training and ``beyond`` times that."""
        return [
            EvaluationSet(
                name=f"{self.size_word}_{length}",
                split="test",
                method=self.method,
                length=length,
                group_by=self.group_by,
            )
            for length in lengths or (self.max_size, self.beyond * self.max_size)
        ]

    def validation_sets(self) -> list[EvaluationSet]:
        """The sizes of training, and a size between training and test."""
        return [
            EvaluationSet(name="", split="validation", method=self.method),
            EvaluationSet(
                name=MIDDLE, split="validation", method=self.method, length=self.validation_size
            ),
        ]

    def text_codec(self, vocab_dir: Path) -> AlignedCodec:
        """The codec of the symbols, which needs no file."""
        return AlignedCodec(self.symbols, self.answers or self.symbols, places=self.places())

    def places(self) -> Places | None:
        """The positions that have answers; None, which is the default: all."""
        return None
