"""Rounds of singles against the plainest solver, by hand, and in the shares that are known."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from ut_tf.problems.reasoning.rounds import hardest, rounds_of_singles, units
from ut_tf.problems.reasoning.sudoku_grids import SudokuSize, dig, patterns

SIZES = [SudokuSize(2, 2), SudokuSize(2, 3)]


def boards(size: SudokuSize, count: int, blanks: int) -> tuple[Any, Any]:
    draws = random.Random(1)
    solutions = [draws.choice(patterns(size)).tolist() for _ in range(count)]
    clues = [dig(size, one, blanks, draws) for one in solutions]
    return np.array(solutions), np.array(clues)


def plain_rounds(size: SudokuSize, solution: list[int], clues: list[bool]) -> list[int]:
    """Cell by cell, with sets, and with digits that are deduced instead of looked up."""
    n = size.digits
    cells = [divmod(cell, n) for cell in range(n * n)]
    parts = [
        *([(k, c) for c in range(n)] for k in range(n)),
        *([(r, k) for r in range(n)] for k in range(n)),
        *([(r, c) for r, c in cells if size.box(r, c) == k] for k in range(n)),
    ]
    grid = {cell: solution[k] for k, cell in enumerate(cells) if clues[k]}
    rounds = dict.fromkeys(grid, 0)
    number = 0
    while True:
        number += 1
        left = {
            cell: {*range(n)}
            - {grid[o] for part in parts if cell in part for o in part if o in grid}
            for cell in cells
            if cell not in grid
        }
        found = {cell: min(digits) for cell, digits in left.items() if len(digits) == 1}
        for part in parts:
            for digit in range(n):
                places = [cell for cell in part if digit in left.get(cell, ())]
                if len(places) == 1:
                    found[places[0]] = digit
        if not found:
            return [rounds.get(cell, -1) for cell in cells]
        grid |= found
        rounds |= dict.fromkeys(found, number)


@pytest.mark.parametrize("size", SIZES)
def test_rounds_are_those_of_the_plainest_solver(size: SudokuSize) -> None:
    solutions, clues = boards(size, 40, size.cells)
    found = rounds_of_singles(units(size), solutions, clues)
    for solution, given, rounds in zip(solutions, clues, found, strict=True):
        assert rounds.tolist() == plain_rounds(size, solution.tolist(), given.tolist())
        np.testing.assert_array_equal(rounds == 0, given)


def test_a_board_by_hand() -> None:
    size = SIZES[0]
    solution = np.array([[0, 1, 2, 3, 2, 3, 0, 1, 1, 0, 3, 2, 3, 2, 1, 0]])
    clues = np.ones([1, 16], bool)
    assert hardest(rounds_of_singles(units(size), solution, clues)).tolist() == [0]
    # Of two blank rows each column lacks two digits: nothing is found.
    clues[0, 8:] = False
    rounds = rounds_of_singles(units(size), solution, clues)
    assert hardest(rounds).tolist() == [-1]
    np.testing.assert_array_equal(rounds[0], [0] * 8 + [-1] * 8)
    # A clue leaves one digit in its column, and its own digit one place in the other row: two
    # columns are found.
    clues[0, 8] = True
    rounds = rounds_of_singles(units(size), solution, clues)
    np.testing.assert_array_equal(rounds[0, 8:], [0, -1, 1, -1, 1, -1, 1, -1])


def test_singles_find_all_boards_of_4_digits_and_nearly_all_of_6() -> None:
    four, six = (hardest(rounds_of_singles(units(s), *boards(s, 150, s.cells))) for s in SIZES)
    assert four.min() >= 1 and four.max() <= 3
    # Puzzles without a clue too many, of 100,000 of which .64 and .30 took 2 and 3 rounds.
    assert 0.5 < (four == 2).mean() < 0.78
    assert 0.85 < (six > 0).mean() < 1
    assert 4 < six[six > 0].mean() < 5.5
