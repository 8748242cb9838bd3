"""Sudoku grids of n digits, and puzzles that have them as their only solution.

How it is used::

    size = SudokuSize(2, 2)                     # boxes of 2 x 2 cells: digits 0..3, 16 cells
    patterns(size)                              # [12, 16]: all grids whose first row is 0 1 2 3
    dig(size, solution, blanks=9, draws=random.Random(0))     # bool [16], True on the clues

A pattern with its digits in another order is a grid, and every grid is one of them: the 288 grids
of 4 digits have 12 patterns, the 28,200,960 of 6 digits 39,168.
"""

import functools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Grid = npt.NDArray[np.int8]
Clues = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class SudokuSize:
    """The size of a Sudoku whose boxes have `box_rows` rows and `box_columns` columns."""

    box_rows: int
    box_columns: int

    @property
    def digits(self) -> int:
        """n: digits, and rows and columns of the grid."""
        return self.box_rows * self.box_columns

    @property
    def cells(self) -> int:
        """n²."""
        return self.digits**2

    def box(self, row: int, column: int) -> int:
        """The number of the box of a cell."""
        return row // self.box_rows * self.box_rows + column // self.box_columns

    @property
    def pairs(self) -> list[tuple[int, int, str]]:
        """The pairs of cells that a solution has different digits in, the second behind the first,
        and the unit that they share: row, column or box. In the order of the second cells.
        """
        cells = [divmod(cell, self.digits) for cell in range(self.cells)]
        numbers = {
            "row": [row for row, _ in cells],
            "column": [column for _, column in cells],
            "box": [self.box(row, column) for row, column in cells],
        }
        return [
            (first, second, unit)
            for second in range(self.cells)
            for unit, of_cells in numbers.items()
            for first in range(second)
            if of_cells[first] == of_cells[second]
        ]

    @functools.cached_property
    def peers(self) -> tuple[tuple[int, ...], ...]:
        """For each cell the other cells of its row, its column and its box."""
        places = [divmod(cell, self.digits) for cell in range(self.cells)]
        units = [(("row", r), ("column", c), ("box", self.box(r, c))) for r, c in places]
        return tuple(
            tuple(
                other
                for other in range(self.cells)
                if other != cell and {*units[other]} & {*units[cell]}
            )
            for cell in range(self.cells)
        )


@functools.cache
def patterns(size: SudokuSize) -> Grid:
    """All grids whose first row is 0 1 2 ..., in ascending order: int8 [patterns, cells]."""
    first = [*range(size.digits), *[-1] * (size.cells - size.digits)]
    grids = np.array(list(_filled(size, first, size.digits)), np.int8)
    grids.setflags(write=False)
    return grids


def _filled(size: SudokuSize, cells: list[int], cell: int) -> Iterator[list[int]]:
    """Yields the ways to fill `cells` from `cell` on."""
    if cell == size.cells:
        yield cells.copy()
        return
    taken = {cells[peer] for peer in size.peers[cell]}
    for digit in range(size.digits):
        if digit not in taken:
            cells[cell] = digit
            yield from _filled(size, cells, cell + 1)
    cells[cell] = -1


def count_solutions(size: SudokuSize, cells: Sequence[int], most: int = 2) -> int:
    """The number of ways to fill the blank cells (-1), counted up to `most`."""
    candidates = [(1 << size.digits) - 1] * size.cells
    state = [-1] * size.cells
    for cell, digit in enumerate(cells):
        if digit >= 0:
            if not candidates[cell] >> digit & 1:
                return 0
            _set(size, state, candidates, cell, digit)
    return _count(size, state, candidates, most)


def _set(size: SudokuSize, state: list[int], candidates: list[int], cell: int, digit: int) -> None:
    state[cell] = digit
    others = ~(1 << digit)
    for peer in size.peers[cell]:
        candidates[peer] &= others


def _count(size: SudokuSize, state: list[int], candidates: list[int], most: int) -> int:
    blanks = [cell for cell, digit in enumerate(state) if digit < 0]
    if not blanks:
        return 1
    cell = min(blanks, key=lambda blank: candidates[blank].bit_count())
    total = 0
    for digit in range(size.digits):
        if candidates[cell] >> digit & 1:
            deeper_state, deeper = state.copy(), candidates.copy()
            _set(size, deeper_state, deeper, cell, digit)
            total += _count(size, deeper_state, deeper, most - total)
            if total >= most:
                break
    return total


def dig(size: SudokuSize, solution: Sequence[int], blanks: int, draws: random.Random) -> Clues:
    """The clues of a puzzle with one solution: cells are left out in random order, as long as the
    solution stays the only one, until `blanks` are blank or no more can be.
    """
    cells = list(solution)
    order = list(range(size.cells))
    draws.shuffle(order)
    left_out = 0
    for cell in order:
        if left_out == blanks:
            break
        digit, cells[cell] = cells[cell], -1
        if _has_another(size, cells, cell, digit):
            cells[cell] = digit
        else:
            left_out += 1
    return np.array(cells) >= 0


def _has_another(size: SudokuSize, cells: list[int], cell: int, digit: int) -> bool:
    """Whether the blank `cell` can hold another digit than `digit` in some solution."""
    taken = {cells[peer] for peer in size.peers[cell]}
    for other in range(size.digits):
        if other != digit and other not in taken:
            cells[cell] = other
            solutions = count_solutions(size, cells, most=1)
            cells[cell] = -1
            if solutions:
                return True
    return False


def turned_sums(side: int, cells: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Returns a sum over each square board and the seven that it is turned and mirrored, int64
    [boards, 8] in some order; boards [boards, side * side] differ in it, as far as chance goes.
    """
    # The sums are exact in float64.
    factors = np.random.default_rng(0).integers(2**40, size=[side, side]).astype(float)
    turned = [np.rot90(factors, turns) for turns in range(4)]
    same = np.stack([each.ravel() for one in turned for each in (one, one.T)], 1)
    sums: npt.NDArray[np.int64] = (cells.astype(float) @ same).astype(np.int64)
    return sums
