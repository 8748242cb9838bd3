"""Futoshiki: a Latin square with blank cells and signs between neighbours that say which is less;
the filled square out.

The board has 11 x 11 symbols for 6 digits: cells in even rows and columns, and between them "<",
">", "^" (the upper one is less), "v" or "-", where nothing is said. The answer repeats the signs.
Difficulty is the number of rounds of singles, as of Sudoku, in which a cell also leaves out the
digits that those left beside its signs forbid.

How it works: to a square with blank cells signs are added in random order until the rounds fill it,
so that its solution is the only one. A square decides its split, together with all that are turned
or mirrored, or have their digits in the opposite order.
"""

import functools
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from ut_tf.data.arguments import at_least
from ut_tf.data.problem import EvaluationSet
from ut_tf.data.split_of import belong
from ut_tf.errors import UserError
from ut_tf.problems.reasoning.codec import BLANK, BoardCodec
from ut_tf.problems.reasoning.rounds import Members, fill_singles, rows_and_columns
from ut_tf.problems.reasoning.strings import Solved, Strings, StringTask
from ut_tf.problems.reasoning.sudoku_grids import turned_sums
from ut_tf.symbols import FIRST_SYMBOL_ID

# Across: the left one is less, the right one is. Down: the upper one, the lower one.
_SIGNS = "<>^v"
_NO_SIGN = "-"
_DIGITS = (4, 5, 6)
# Signs that are added at once to the squares that the rounds do not fill.
_ADDED = 10

Grids = npt.NDArray[Any]


class Futoshiki(StringTask):
    """Puzzles with one solution, generated without end.

    Args:
      digits: 4, 5 or 6, which are also the cells in a row.
      max_size: the most blank cells of training, some of which the only solution may need as clues;
        their number is uniform from a third of it. 0: all.
      train_examples, validation_examples, test_examples, name: as of ``StringTask``.
    """

    size_word = "blanks"
    unit = "blank cell"

    def __init__(
        self,
        digits: int = 6,
        max_size: int = 0,
        train_examples: int = 10_000,
        validation_examples: int = 500,
        test_examples: int = 1000,
        name: str = "",
    ) -> None:
        if digits not in _DIGITS:
            raise UserError(f"`digits`={digits}: expected one of 4, 5 and 6.")
        self.digits = digits
        self.side = 2 * digits - 1
        self.symbols = f"{BLANK}{''.join(map(str, range(1, digits + 1)))}{_SIGNS}{_NO_SIGN}"
        super().__init__(
            self._at_most("max_size", at_least(0, "max_size", max_size) or digits**2),
            name or f"futoshiki_{digits}x{digits}",
            train_examples=train_examples,
            validation_examples=validation_examples,
            test_examples=test_examples,
        )
        self.selection_metric = ("seq_accuracy", "max")

    def sizes(self, draws: np.random.Generator, count: int) -> Strings:
        """Puzzles with few blank cells need no signs."""
        return draws.integers(max(1, self.max_size // 3), self.max_size + 1, count)

    def draw(self, draws: np.random.Generator, sizes: Strings, width: int, split: str) -> Strings:
        self._at_most("length", width)
        solutions = self._squares(draws, len(sizes), split)
        order = draws.permuted(np.tile(np.arange(self.digits**2), [len(sizes), 1]), axis=1)
        blank = np.argsort(order, 1) < sizes[:, None]
        given = np.where(blank, -1, solutions)
        least = _lesser(solutions.reshape(-1, self.digits, self.digits))
        pairs = 2 * self.digits * (self.digits - 1)
        ranks = np.argsort(draws.random([len(sizes), pairs]), 1)
        counts, lacking = draws.integers(0, pairs // 3, len(sizes)), np.arange(len(sizes))
        while len(lacking):
            shown = np.where(ranks[lacking] < counts[lacking, None], least[lacking], 0)
            filled, _ = self._filled(given[lacking], shown)
            lacks = (filled < 0).any(1)
            filled, lacking = filled[lacks], lacking[lacks]
            # No sign is left that could help: a cell is given instead, of those that are not found.
            has_all = counts[lacking] >= pairs
            stuck = lacking[has_all]
            places = np.where(filled[has_all] < 0, order[stuck], -1).argmax(1)
            given[stuck, places] = solutions[stuck, places]
            counts[lacking] += _ADDED
        return self._boards(given, np.where(ranks < counts[:, None], least, 0))

    def belong(self, strings: Strings, split: str) -> npt.NDArray[np.bool_]:
        """All that is drawn for a split is of it."""
        return np.ones(len(strings), bool)

    def solve(self, strings: Strings) -> Solved:
        boards = strings.reshape(-1, self.side, self.side)
        given = boards[:, ::2, ::2].reshape(len(boards), -1) - 1
        across, down = boards[:, ::2, 1::2], boards[:, 1::2, ::2]
        signs = np.concatenate([part.reshape(len(boards), -1) for part in (across, down)], 1)
        first = self.digits + 1
        least = np.select([signs == first + k for k in range(4)], [1, -1, 1, -1], 0)
        filled, found = self._filled(given, least)
        rounds = np.zeros(boards.shape, np.int64)
        rounds[:, ::2, ::2] = found.reshape(-1, self.digits, self.digits)
        targets = boards.copy()
        targets[:, ::2, ::2] = (filled + 1).reshape(-1, self.digits, self.digits)
        return Solved(targets.reshape(strings.shape), rounds.reshape(strings.shape))

    def solves(self, features: Mapping[str, Any], answers: Any) -> Any:
        """Whether all givens are kept, no digit repeats in a row or column, and the signs hold."""
        shape = [-1, self.side, self.side]
        inputs = tf.reshape(tf.cast(features["inputs"], answers.dtype), shape) - FIRST_SYMBOL_ID
        filled = tf.reshape(answers, shape) - FIRST_SYMBOL_ID
        digits, first = filled[:, ::2, ::2], self.digits + 1
        every = tf.range(1, self.digits + 1, dtype=answers.dtype)
        rows, columns = tf.sort(digits, 2) == every, tf.sort(digits, 1) == every[:, None]
        steps = (
            (inputs[:, ::2, 1::2] - first, digits[:, :, 1:] - digits[:, :, :-1]),
            (inputs[:, 1::2, ::2] - first - 2, digits[:, 1:] - digits[:, :-1]),
        )
        holds = [((sign != 0) | (step > 0)) & ((sign != 1) | (step < 0)) for sign, step in steps]
        parts = [(inputs == 0) | (inputs == filled), rows, columns, *holds]
        return tf.reduce_all([tf.reduce_all(part, [1, 2]) for part in parts], 0)

    def evaluation_sets(self, lengths: tuple[int, ...] = ()) -> list[EvaluationSet]:
        """The test puzzles, or one set for each number of blank cells."""
        if lengths:
            return super().evaluation_sets(lengths)
        return [EvaluationSet("", "test", self.method, group_by=self.group_by)]

    def validation_sets(self) -> list[EvaluationSet]:
        """Puzzles as those of training."""
        return [EvaluationSet("", "validation", self.method)]

    def text_codec(self, vocab_dir: Path) -> BoardCodec:
        """The codec of boards, which needs no file."""
        size = np.array([self.max_size])
        board = self.draw(np.random.default_rng(0), size, self.max_size, "test")[0]
        return BoardCodec(self.symbols, self.side, "".join(self.symbols[n] for n in board))

    def _at_most(self, argument: str, size: int) -> int:
        if size > self.digits**2:
            raise UserError(f"`{argument}`={size}: a board has {self.digits**2} cells.")
        return size

    def _squares(self, draws: np.random.Generator, count: int, split: str) -> Strings:
        """Latin squares of a split, [count, cells], digits from 0: row by row a random order that
        goes with those above, which there always is.
        """
        orders = np.array(list(itertools.permutations(range(self.digits))))
        goes_with = (orders[:, None] != orders).all(-1)
        made = np.zeros([0, self.digits**2], np.int64)
        while len(made) < count:
            allowed = np.ones([count, len(orders)], bool)
            rows = []
            for _ in range(self.digits):
                chosen = (draws.random(allowed.shape, np.float32) + 1) * allowed
                rows.append(chosen.argmax(1))
                allowed &= goes_with[rows[-1]]
            squares = orders[np.stack(rows, 1)].reshape(count, -1)
            sums = turned_sums(self.digits, squares)
            # The digits in the opposite order are the largest one minus these.
            whole = turned_sums(self.digits, np.full([1, self.digits**2], self.digits - 1))
            keys = np.minimum(sums, whole - sums).min(1, keepdims=True)
            made = np.concatenate([made, squares[belong(keys, split)]])
        return made[:count]

    def _filled(self, given: Grids, least: Grids) -> tuple[Grids, Grids]:
        """The digits and rounds of ``fill_singles``, with signs [boards, pairs]: 1 where the first
        cell is less, -1 where the second one is, 0 where there is none.
        """
        members: Members = rows_and_columns(self.digits)
        return fill_singles(members, given, functools.partial(_between, least))

    def _boards(self, given: Grids, least: Grids) -> Strings:
        """The strings of boards."""
        boards = np.full([len(given), self.side, self.side], self.symbols.index(_NO_SIGN))
        boards[:, ::2, ::2] = (given + 1).reshape(-1, self.digits, self.digits)
        across, down = _parts(least, self.digits)
        first = self.digits + 1
        for part, signs, number in (
            (boards[:, ::2, 1::2], across, first),
            (boards[:, 1::2, ::2], down, first + 2),
        ):
            part[signs > 0], part[signs < 0] = number, number + 1
        return boards.reshape(len(given), -1)


def _parts(least: Grids, digits: int) -> tuple[Grids, Grids]:
    """Signs [boards, pairs] as those across, [boards, digits, digits - 1], and down, [boards,
    digits - 1, digits].
    """
    half = digits * (digits - 1)
    return (
        least[:, :half].reshape(-1, digits, digits - 1),
        least[:, half:].reshape(-1, digits - 1, digits),
    )


def _lesser(squares: Grids) -> Grids:
    """The signs between all neighbours of squares [boards, digits, digits]."""
    across, down = np.diff(squares, axis=2), np.diff(squares, axis=1)
    parts = [part.reshape(len(squares), -1) for part in (across, down)]
    signs: Grids = np.sign(np.concatenate(parts, 1))
    return signs


def _between(least: Grids, left: Grids, rows: Grids) -> Grids:
    """Which digits the signs of the boards `rows` leave, bool [rows, digits, cells], where `left`
    are left so far.
    """
    digits = left.shape[1]
    lowest = left.argmax(1).reshape(-1, digits, digits)
    highest = digits - 1 - left[:, ::-1].argmax(1).reshape(-1, digits, digits)
    above, below = np.full_like(lowest, -1), np.full_like(lowest, digits)
    across, down = _parts(least[rows], digits)
    every, first, second = slice(None), slice(-1), slice(1, None)
    for sign, one, other in (
        (across, (every, every, first), (every, every, second)),
        (down, (every, first), (every, second)),
    ):
        for lesser, greater, holds in ((one, other, sign > 0), (other, one, sign < 0)):
            limit = np.where(holds, highest[greater], digits)
            below[lesser] = np.minimum(below[lesser], limit)
            above[greater] = np.maximum(above[greater], np.where(holds, lowest[lesser], -1))
    numbers = np.arange(digits)[:, None]
    above, below = (part.reshape(len(rows), 1, -1) for part in (above, below))
    between: Grids = (numbers > above) & (numbers < below)
    return between
