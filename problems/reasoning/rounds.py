"""How many rounds of singles a Sudoku or another Latin square needs: a parallel algorithm that
finds all cells which can be found at once, in each of its rounds.

::

    rounds_of_singles(units(size), solutions, clues)   # int32 [boards, cells]

A round looks at the digits that are left at each open cell. It fills every cell that has one left
(naked single), and every cell that is the only one of its row, column or box to have a digit left
(hidden single); then the digits of all these cells are struck from the others of their units.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from ut_tf.problems.reasoning.grids import SudokuSize

Members = npt.NDArray[np.float32]
Rounds = npt.NDArray[np.int32]


def units(size: SudokuSize) -> Members:
    """Rows, columns and boxes with their cells: 1 where a cell is in a unit, [units, cells]."""
    rows, columns = np.divmod(np.arange(size.cells), size.digits)
    boxes = [size.box(*divmod(cell, size.digits)) for cell in range(size.cells)]
    numbers = np.stack([rows, columns, boxes])[:, None]
    members = numbers == np.arange(size.digits)[:, None]
    return np.asarray(members.reshape(-1, size.cells), np.float32)


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
    digits = np.arange(round(members.sum(1).max()))
    # Of each cell its digit alone.
    right = solutions[..., None] == digits
    rounds = np.where(clues, 0, -1).astype(np.int32)
    for number in itertools.count(1):
        known = (rounds >= 0)[..., None]
        in_units = np.matmul(members, (right & known).astype(np.float32))
        left = (np.matmul(members.T, in_units) == 0) & ~known
        only = np.matmul(members, left.astype(np.float32)) == 1
        hidden = left & (np.matmul(members.T, only.astype(np.float32)) > 0)
        found = (left.sum(-1) == 1) | hidden.any(-1)
        if not found.any():
            break
        rounds[found] = number
    return rounds


def hardest(rounds: Rounds) -> Rounds:
    """Returns the last round of each board, int32 [boards]; -1 where cells are not found."""
    return np.where((rounds < 0).any(1), -1, rounds.max(1)).astype(np.int32)
