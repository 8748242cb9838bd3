"""Futoshiki against a search for all solutions, and rounds against the plainest solver."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from ut_tf.errors import UserError
from ut_tf.problems.reasoning.futoshiki import Futoshiki

NOWHERE = Path("nowhere")
SMALL = Futoshiki(4, 0, 60, 30, 30)
LARGE = Futoshiki(6, 0, 4, 10, 10)
Cell = tuple[int, int]
Puzzle = tuple[dict[Cell, int], list[tuple[Cell, Cell]]]


def puzzles(task: Futoshiki, split: str, blanks: int | None = None) -> list[tuple[str, str, list]]:
    """(The board, the answer, the rounds of its cells) of each example."""
    table = task.examples(split, NOWHERE, length=blanks)
    batch = {name: value.numpy() for name, value in table.batch(range(len(table))).items()}
    written = np.array([*"__", *task.symbols])
    side = task.side
    return [
        (
            "".join(written[batch["inputs"][number]]),
            "".join(written[batch["targets"][number]]),
            batch["position_difficulty"][number].reshape(side, side)[::2, ::2].tolist(),
        )
        for number in range(len(table))
    ]


def read(board: str, digits: int) -> Puzzle:
    """(The cells that are given, the pairs of cells of which the first is less)."""
    side = 2 * digits - 1
    given, pairs = {}, []
    for place, symbol in enumerate(board):
        row, column = divmod(place, side)
        if symbol.isdigit():
            given[row // 2, column // 2] = int(symbol)
        if symbol in "<>":
            pair = ((row // 2, column // 2), (row // 2, column // 2 + 1))
            pairs.append(pair if symbol == "<" else pair[::-1])
        if symbol in "^v":
            pair = ((row // 2, column // 2), (row // 2 + 1, column // 2))
            pairs.append(pair if symbol == "^" else pair[::-1])
    return given, pairs


def solutions(puzzle: Puzzle, digits: int) -> list[dict[Cell, int]]:
    """At most two of them, cell by cell."""
    given, pairs = puzzle
    cells = [divmod(number, digits) for number in range(digits**2)]
    found: list[dict[Cell, int]] = []

    def allows(grid: dict[Cell, int], cell: Cell, digit: int) -> bool:
        if given.get(cell, digit) != digit:
            return False
        if any(grid.get((cell[0], k)) == digit for k in range(digits)):
            return False
        if any(grid.get((k, cell[1])) == digit for k in range(digits)):
            return False
        grid = {**given, **grid, cell: digit}
        return all(grid[a] < grid[b] for a, b in pairs if a in grid and b in grid)

    def search(grid: dict[Cell, int]) -> None:
        if len(grid) == len(cells):
            found.append(grid)
            return
        for digit in range(1, digits + 1):
            cell = cells[len(grid)]
            if len(found) < 2 and allows(grid, cell, digit):
                search({**grid, cell: digit})

    search({})
    return found


def plain_rounds(puzzle: Puzzle, digits: int) -> dict[Cell, int]:
    given, pairs = puzzle
    cells = [divmod(number, digits) for number in range(digits**2)]
    units = [[c for c in cells if c[axis] == k] for axis in range(2) for k in range(digits)]
    left = {cell: {given[cell]} if cell in given else {*range(1, digits + 1)} for cell in cells}
    grid, rounds, number = dict(given), dict.fromkeys(given, 0), 0
    while True:
        number += 1
        now = {cell: {*some} for cell, some in left.items()}
        for cell in cells:
            if cell not in grid:
                now[cell] -= {grid[o] for unit in units if cell in unit for o in unit if o in grid}
        for a, b in pairs:
            now[a] = {digit for digit in now[a] if digit < max(left[b])}
            now[b] = {digit for digit in now[b] if digit > min(left[a])}
        found = {c: min(now[c]) for c in cells if c not in grid and len(now[c]) == 1}
        for unit in units:
            for digit in range(1, digits + 1):
                places = [cell for cell in unit if digit in now[cell]]
                if len(places) == 1 and places[0] not in grid:
                    found[places[0]] = digit
        if not found and now == left:
            return {cell: rounds.get(cell, -1) for cell in cells}
        grid |= found
        rounds |= dict.fromkeys(found, number)
        left = {cell: {grid[cell]} if cell in grid else some for cell, some in now.items()}


@pytest.mark.parametrize("task", [SMALL, LARGE], ids=["4", "6"])
def test_a_search_finds_the_answer_alone_and_the_plainest_solver_the_rounds(
    task: Futoshiki,
) -> None:
    for board, answer, rounds in puzzles(task, "train"):
        puzzle = read(board, task.digits)
        (solution,) = solutions(puzzle, task.digits)
        given, _ = read(answer, task.digits)
        assert given == solution
        for symbol, answered in zip(board, answer, strict=True):
            assert symbol == answered or symbol == "."
        expected = plain_rounds(puzzle, task.digits)
        assert {
            cell: rounds[cell[0]][cell[1]] for cell in solution
        } == expected and -1 not in expected.values()


def test_few_clues_are_left_where_all_cells_may_be_blank() -> None:
    blanks = [board.count(".") for board, *_ in puzzles(SMALL, "test", 16)]
    assert max(blanks) == 16 and np.mean(blanks) > 12
    assert {board.count(".") for board, *_ in puzzles(SMALL, "test", 3)} == {3}


def test_the_rules_check_clues_lines_and_signs() -> None:
    table = LARGE.examples("test", NOWHERE, length=20)
    batch = table.batch(range(len(table)))
    targets = batch["targets"].numpy()
    assert LARGE.solves(batch, tf.constant(targets)).numpy().all()
    # Two digits exchanged everywhere keep rows and columns, and break clues or signs.
    exchanged = np.where(targets == 3, 4, np.where(targets == 4, 3, targets))
    assert not LARGE.solves(batch, tf.constant(exchanged)).numpy().any()
    nothing_given = {"inputs": tf.where(batch["inputs"] < 9, 2, batch["inputs"])}
    by_signs = LARGE.solves(nothing_given, tf.constant(exchanged)).numpy()
    for number, holds in enumerate(by_signs):
        board = "".join(np.array([*"__", *LARGE.symbols])[exchanged[number]])
        digits, pairs = read(board, 6)
        assert holds == all(digits[a] < digits[b] for a, b in pairs)
    twice = targets.copy()
    twice[:, 0] = twice[:, 2]
    assert not LARGE.solves(nothing_given, tf.constant(twice)).numpy().any()


def test_squares_that_are_the_same_are_of_one_split() -> None:
    squares = {}
    for split in ("train", "validation", "test"):
        draws = np.random.default_rng(0)
        squares[split] = {
            min(
                "".join(map(str, each.ravel()))
                for grid in (square.reshape(4, 4), 3 - square.reshape(4, 4))
                for turned in (np.rot90(grid, turns) for turns in range(4))
                for each in (turned, turned.T)
            )
            for square in SMALL._squares(draws, 100, split)
        }
    assert len(squares["train"]) > 20
    assert not squares["train"] & squares["test"] and not squares["train"] & squares["validation"]


def test_more_blanks_than_cells_are_refused() -> None:
    with pytest.raises(UserError, match=r"`length`=17: a board has 16 cells"):
        SMALL.examples("test", NOWHERE, length=17)
    with pytest.raises(UserError, match=r"`digits`=9"):
        Futoshiki(9)


def test_a_zero_for_a_blank_cell_is_told_of_the_point() -> None:
    codec = SMALL.text_codec(Path())
    zeros = codec.sample.replace(".", "0")
    told, other = (text.decode() for text in codec.errors(tf.constant([zeros, "x"])).numpy())
    assert told.endswith(", a point for a blank cell") and "point" not in other
