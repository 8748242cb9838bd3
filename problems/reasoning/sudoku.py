"""Sudoku with 4 or 6 digits: a grid with blank cells in, the solved grid out, an answer at every
cell.

Ids: 2 is a blank cell, digit d is d + 2; there is no end. Every puzzle has one solution.

How it works: puzzles are made once, with the patterns of ``sudoku_grids.py`` divided among the
splits, so that no solution of a test puzzle is that of a training puzzle with other digits. In
every epoch the digits of each training puzzle are exchanged anew, as (seed, epoch) decide.
"""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from ut_tf.data.arguments import at_least
from ut_tf.data.arrays import open_arrays
from ut_tf.data.example_table import ExampleTable, example_order
from ut_tf.data.prepared import PreparedFolder
from ut_tf.data.problem import Problem
from ut_tf.errors import UserError
from ut_tf.problem_spec import ProblemSpec
from ut_tf.problems.reasoning.codec import SudokuCodec, aligned_spec
from ut_tf.problems.reasoning.rounds import hardest, rounds_of_singles, units
from ut_tf.problems.reasoning.sudoku_grids import SudokuSize, dig, patterns
from ut_tf.symbols import FIRST_SYMBOL_ID

PUZZLES_FILE = "puzzles.npz"
BLANK_ID = FIRST_SYMBOL_ID
SIZES = {4: SudokuSize(2, 2), 6: SudokuSize(2, 3)}
# The most blank cells of a puzzle: with fewer than 4 clues of 16 cells, or 8 of 36, none has only
# one solution.
MOST_BLANKS = {4: 12, 6: 28}
# Patterns that each of the splits but "train" has: one in so many.
_HELD_OUT = 6
_SPLITS = ("train", "validation", "test")

Puzzles = tuple[npt.NDArray[Any], npt.NDArray[Any]]


class Sudoku(Problem):
    """Sudoku puzzles, made without a download.

    Args:
      digits: 4 (boxes of 2 x 2 cells) or 6 (2 x 3).
      min_blanks: the fewest blank cells of a puzzle; their number is drawn uniformly.
      max_blanks: the most of them, fewer where a puzzle cannot have as many; 0: the most that any
        puzzle with one solution has, 12 of 16 and 28 of 36.
      train_puzzles: puzzles in one epoch.
      validation_puzzles: how many validate.
      test_puzzles: how many test.
      seed: of the puzzles, and of which patterns belong to which split.
      name: the problem's name, for messages.
    """

    method = "aligned"
    group_by = "blanks"

    def __init__(
        self,
        digits: Literal[4, 6] = 4,
        min_blanks: int = 1,
        max_blanks: int = 0,
        train_puzzles: int = 40_000,
        validation_puzzles: int = 500,
        test_puzzles: int = 1000,
        seed: int = 0,
        name: str = "",
    ) -> None:
        if digits not in SIZES:
            raise UserError(f"`digits`={digits}: expected one of {', '.join(map(str, SIZES))}.")
        self.size = SIZES[digits]
        most = max_blanks or MOST_BLANKS[digits]
        if not 1 <= min_blanks <= most <= MOST_BLANKS[digits]:
            raise UserError(
                f"`min_blanks`={min_blanks}, `max_blanks`={max_blanks}: expected 1 to"
                f" {MOST_BLANKS[digits]} blank cells, the first no more than the second."
            )
        self.blanks = (min_blanks, most)
        self.counts = {
            "train": at_least(1, "train_puzzles", train_puzzles),
            "validation": at_least(1, "validation_puzzles", validation_puzzles),
            "test": at_least(1, "test_puzzles", test_puzzles),
        }
        self.seed = seed
        self.name = name or f"sudoku_{digits}x{digits}"
        self.selection_metric = ("seq_accuracy", "max")
        self._loaded: dict[tuple[Path, str], Puzzles] = {}

    def prepare(self, data_dir: Path, tmp_dir: Path) -> None:
        """Makes the puzzles of all splits."""
        folder = self._folder(data_dir)
        folder.make_once(lambda: self._make(folder))

    def spec(self, data_dir: Path) -> ProblemSpec:
        """Tokens with aligned targets over one vocabulary: padding, end, blank, the digits."""
        return aligned_spec(1 + self.size.digits)

    def solves(self, features: Mapping[str, Any], answers: Any) -> Any:
        """Whether all clues are kept, and no digit stands twice in a row, a column or a box."""
        clues = tf.cast(features["inputs"], answers.dtype)
        kept = tf.reduce_all((clues == BLANK_ID) | (clues == answers), 1)
        first, second, _ = zip(*self.size.pairs, strict=True)
        differ = tf.gather(answers, first, axis=1) != tf.gather(answers, second, axis=1)
        digits = tf.reduce_all((answers > BLANK_ID) & (answers <= BLANK_ID + self.size.digits), 1)
        return kept & digits & tf.reduce_all(differ, 1)

    def is_prepared(self, data_dir: Path) -> bool:
        """Whether the puzzles are in `data_dir`."""
        return self._folder(data_dir).is_complete()

    def examples(
        self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None
    ) -> ExampleTable:
        """{"inputs": [cells], "targets": [cells], "blanks": []}, int32; (seed, epoch) decide the
        order and the digits of "train" alone; `length` has no effect. The other splits have the
        rounds of singles as well: {"position_difficulty": [cells], "difficulty": []}.
        """
        self.check_split(split)
        solutions, clues = self._load(data_dir, split)
        if split == "train":
            draws = np.random.default_rng([seed % 2**63, epoch])
            solutions = _exchanged(solutions, self.size.digits, draws)
        order = example_order(split, len(solutions), seed, epoch)
        targets = solutions[order].astype(np.int32) + BLANK_ID + 1
        columns = {
            "inputs": np.where(clues[order], targets, BLANK_ID),
            "targets": targets,
            "blanks": (~clues[order]).sum(1, dtype=np.int32),
        }
        if split != "train":
            rounds = rounds_of_singles(units(self.size), solutions[order], clues[order])
            columns |= {"difficulty": hardest(rounds), "position_difficulty": rounds}
        tensors = {name: tf.constant(column) for name, column in columns.items()}

        def batch(numbers: Any) -> dict[str, Any]:
            return {name: tf.gather(rows, numbers) for name, rows in tensors.items()}

        return ExampleTable(np.full(len(order), self.size.cells, np.int32), batch)

    def text_codec(self, vocab_dir: Path) -> SudokuCodec:
        """The codec of grids, which needs no file."""
        return SudokuCodec(self.size)

    def split_patterns(self, split: str) -> npt.NDArray[np.int8]:
        """The patterns that the solutions of a split are made of, int8 [patterns, cells]."""
        every = patterns(self.size)
        order = np.random.default_rng([self.seed, 0]).permutation(len(every))
        share = len(every) // _HELD_OUT
        numbers = {
            "train": order[2 * share :],
            "validation": order[:share],
            "test": order[share : 2 * share],
        }
        return every[numbers[split]]

    def _folder(self, data_dir: Path) -> PreparedFolder:
        sizes = "_".join(str(self.counts[split]) for split in _SPLITS)
        least, most = self.blanks
        name = f"sudoku{self.size.digits}_b{least}-{most}_n{sizes}_s{self.seed}"
        return PreparedFolder(data_dir / name, needed=[PUZZLES_FILE], fields={"puzzles": dict})

    def _make(self, folder: PreparedFolder) -> None:
        folder.path.mkdir(parents=True, exist_ok=True)
        arrays: dict[str, Any] = {}
        for split in _SPLITS:
            solutions, clues = self._puzzles(split)
            arrays |= {f"{split}_solutions": solutions, f"{split}_clues": clues}
        np.savez_compressed(folder.path / PUZZLES_FILE, **arrays)
        folder.finish({"puzzles": self.counts, "sha256": folder.digests([PUZZLES_FILE])})

    def _puzzles(self, split: str) -> Puzzles:
        """(Solutions int8 [puzzles, cells], digits from 0; clues bool of the same shape)."""
        of_split = self.split_patterns(split)
        draws = random.Random(f"{self.seed}/{split}")
        numbers = [draws.randrange(len(of_split)) for _ in range(self.counts[split])]
        clues = [
            dig(self.size, of_split[number].tolist(), draws.randint(*self.blanks), draws)
            for number in numbers
        ]
        exchange = np.random.default_rng([self.seed, 1 + _SPLITS.index(split)])
        return _exchanged(of_split[numbers], self.size.digits, exchange), np.array(clues)

    def _load(self, data_dir: Path, split: str) -> Puzzles:
        key = (data_dir, split)
        if key not in self._loaded:
            folder = self._folder(data_dir)
            folder.require(self, data_dir)
            path = folder.verified(PUZZLES_FILE)
            with folder.reading(), open_arrays(path) as arrays:
                self._loaded[key] = arrays[f"{split}_solutions"], arrays[f"{split}_clues"]
        return self._loaded[key]


def _exchanged(
    solutions: npt.NDArray[Any], digits: int, draws: np.random.Generator
) -> npt.NDArray[Any]:
    """The solutions [puzzles, cells] with the digits of each one exchanged at random."""
    orders = draws.permuted(np.tile(np.arange(digits, dtype=np.int8), (len(solutions), 1)), axis=1)
    return np.take_along_axis(orders, solutions.astype(np.intp), axis=1)
