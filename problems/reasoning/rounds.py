"""How many rounds of singles a Sudoku or another Latin square needs: a parallel algorithm that
finds all cells which can be found at once, in each of its rounds.

::

    rounds_of_singles(units(size), solutions, clues)   # int32 [boards, cells]

A round looks at the digits that are left at each open cell. It fills every cell that has one left
(naked single), and every cell that is the only one of its row, column or box to have a digit left
(hidden single); then the digits of all these cells are struck from the others of their units.
"""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ut_tf.problems.reasoning.sudoku_grids import SudokuSize

Members = npt.NDArray[np.float32]
Rounds = npt.NDArray[np.int32]
Narrow = Callable[[npt.NDArray[np.bool_], npt.NDArray[Any]], npt.NDArray[np.bool_]]


def units(size: SudokuSize) -> Members:
    """Rows, columns and boxes with their cells: 1 where a cell is in a unit, [units, cells]."""
    boxes = np.array([size.box(*divmod(cell, size.digits)) for cell in range(size.cells)])
    members = [rows_and_columns(size.digits), boxes == np.arange(size.digits)[:, None]]
    return np.concatenate(members).astype(np.float32)


def rows_and_columns(digits: int) -> Members:
    """The rows and columns of a Latin square with their cells, as of ``units``."""
    numbers = np.stack(np.divmod(np.arange(digits**2), digits))[:, None]
    members = numbers == np.arange(digits)[:, None]
    return np.asarray(members.reshape(-1, digits**2), np.float32)


def rounds_of_singles(
    members: Members, solutions: npt.NDArray[Any], clues: npt.NDArray[np.bool_]
) -> Rounds:
    """Returns the round in which each cell is filled, int32 [boards, cells]: 0 where it is given,
    -1 where singles do not find it.

    Args:
      members: ``units`` of the board.
      solutions: [boards, cells], digits from 0: the only ones that the clues allow.
      clues: [boards, cells], the cells that are given.
    """
    return fill_singles(members, np.where(clues, solutions, -1))[1]


def fill_singles(
    members: Members, given: npt.NDArray[Any], narrow: Narrow | None = None
) -> tuple[Rounds, Rounds]:
    """Returns (digits, rounds), int32 [boards, cells] both: the digits that singles find, -1 where
    they find none, and the rounds as of ``rounds_of_singles``.

    Args:
      members: ``units`` of the board.
      given: [boards, cells], digits from 0, of boards with one solution; -1 where none is given.
      narrow: further rules: bool [rows, digits, cells], the digits that they leave, of those that
        are left so far, of that shape, and the numbers of these boards, [rows]. A round that only
        narrows counts.
    """
    digits = np.arange(round(members.sum(1).max()))[:, None]
    found, rounds = np.array(given, np.int32), np.where(given < 0, -1, 0).astype(np.int32)
    lefts = (given[:, None] < 0) | (given[:, None] == digits)
    rows = np.arange(len(given))
    for number in itertools.count(1):
        if not len(rows):
            break
        before, known = lefts[rows], found[rows, None] == digits
        left = before & ((_sums(_sums(known, members.T), members) == 0) | known)
        if narrow is not None:
            left &= narrow(before, rows)
        hidden = left & (_sums(_sums(left, members.T) == 1, members) > 0)
        single = (left.sum(1) == 1)[:, None]
        filled = np.where(single, left, hidden) & (found[rows, None] < 0)
        board, cell = np.nonzero(filled.any(1))
        found[rows[board], cell] = filled.argmax(1)[board, cell]
        rounds[rows[board], cell] = number
        lefts[rows] = left & (filled | ~filled.any(1)[:, None])
        rows = rows[filled.any((1, 2)) | (before != left).any((1, 2))]
    return found, rounds


def _sums(values: npt.NDArray[Any], factors: Members) -> npt.NDArray[np.float32]:
    """Returns the product [..., columns] of values [..., rows] with factors [rows, columns]."""
    # One large product takes much less time than one for each board.
    product = values.reshape(-1, len(factors)).astype(np.float32) @ factors
    return product.reshape(*values.shape[:-1], -1)


def hardest(rounds: Rounds) -> Rounds:
    """Returns the last round of each board, int32 [boards]; -1 where cells are not found."""
    return np.where((rounds < 0).any(1), -1, rounds.max(1)).astype(np.int32)
