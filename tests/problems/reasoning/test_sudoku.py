"""Sudoku: every puzzle has one solution, the splits share none, and text and ids stand for each
other.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ut_tf.errors import UserError
from ut_tf.problems.reasoning.futoshiki import Futoshiki
from ut_tf.problems.reasoning.sudoku import BLANK_ID, Sudoku
from ut_tf.problems.reasoning.sudoku_grids import SudokuSize, count_solutions, dig, patterns

SIZES = [SudokuSize(2, 2), SudokuSize(2, 3)]
FEW: dict[str, Any] = {"train_puzzles": 60, "validation_puzzles": 20, "test_puzzles": 20}


@pytest.fixture(scope="module", params=[pytest.param(4, marks=pytest.mark.slow), 6])
def prepared(request: Any, tmp_path_factory: Any) -> tuple[Sudoku, Path]:
    """A problem with few puzzles, and its data directory."""
    data_dir = tmp_path_factory.mktemp("sudoku")
    problem = Sudoku(request.param, **FEW)
    problem.prepare(data_dir, data_dir)
    return problem, data_dir


def rows_of(problem: Sudoku, data_dir: Path, split: str, **draws: int) -> list[dict[str, Any]]:
    return list(problem.dataset(split, data_dir, **draws).as_numpy_iterator())


def is_grid(size: SudokuSize, cells: Any) -> bool:
    """Whether no row, column or box has a digit twice, written without the solver's tables."""
    n, grid = size.digits, np.reshape(cells, (size.digits, size.digits))
    boxes = grid.reshape(n // size.box_rows, size.box_rows, n // size.box_columns, -1)
    units = [*grid, *grid.T, *boxes.transpose(0, 2, 1, 3).reshape(n, n)]
    return all(len({*unit.tolist()}) == n for unit in units)


@pytest.mark.parametrize("size", SIZES)
def test_there_are_as_many_grids_as_known(size: SudokuSize) -> None:
    every = patterns(size)
    assert len(every) == {4: 288 // 24, 6: 28_200_960 // 720}[size.digits]
    assert len({row.tobytes() for row in every}) == len(every)
    assert all(is_grid(size, row) for row in every[:: max(1, len(every) // 50)])


def test_solutions_are_counted() -> None:
    size = SIZES[0]
    assert count_solutions(size, [-1] * 16, most=1000) == 288
    assert count_solutions(size, [-1] * 16, most=2) == 2
    assert count_solutions(size, [0, 0, *[-1] * 14]) == 0
    grid = patterns(size)[3].tolist()
    assert count_solutions(size, grid) == 1


@pytest.mark.parametrize("size", SIZES)
def test_as_many_cells_are_left_out_as_can_be(size: SudokuSize) -> None:
    solution = patterns(size)[5].tolist()
    assert dig(size, solution, 3, random.Random(0)).sum() == size.cells - 3
    clues = dig(size, solution, size.cells, random.Random(0))
    for cell in np.flatnonzero(clues):
        fewer = np.where(clues & (np.arange(size.cells) != cell), solution, -1)
        assert count_solutions(size, fewer.tolist()) == 2


def test_every_puzzle_has_its_target_as_only_solution(prepared: tuple[Sudoku, Path]) -> None:
    problem, data_dir = prepared
    for split in ("train", "validation", "test"):
        for row in rows_of(problem, data_dir, split, seed=3, epoch=1):
            is_blank = row["inputs"] == BLANK_ID
            assert row["blanks"] == is_blank.sum() > 0
            assert is_grid(problem.size, row["targets"])
            np.testing.assert_array_equal(row["inputs"][~is_blank], row["targets"][~is_blank])
            cells = np.where(is_blank, -1, row["inputs"] - BLANK_ID - 1).tolist()
            assert count_solutions(problem.size, cells) == 1
            # Training goes without the rounds.
            assert ("difficulty" in row) == ("position_difficulty" in row) == (split != "train")
            if split != "train":
                rounds = row["position_difficulty"]
                assert row["difficulty"] == (-1 if rounds.min() < 0 else rounds.max()) != 0


def _pattern(targets: Any) -> bytes:
    """The solution with its digits numbered in the order in which they appear."""
    numbers: dict[int, int] = {}
    return bytes(numbers.setdefault(int(digit), len(numbers)) for digit in targets)


def test_no_split_has_another_s_solutions_whatever_the_digits(
    prepared: tuple[Sudoku, Path],
) -> None:
    problem, data_dir = prepared
    seen = {
        split: {
            _pattern(row["targets"])
            for epoch in range(2 if split == "train" else 1)
            for row in rows_of(problem, data_dir, split, epoch=epoch)
        }
        for split in ("train", "validation", "test")
    }
    assert not seen["train"] & seen["validation"]
    assert not (seen["train"] | seen["validation"]) & seen["test"]
    parts = [problem.split_patterns(split) for split in seen]
    assert sum(map(len, parts)) == len(patterns(problem.size))
    assert len(np.unique(np.concatenate(parts), axis=0)) == len(patterns(problem.size))


def test_text_and_ids_stand_for_each_other(prepared: tuple[Sudoku, Path]) -> None:
    problem, data_dir = prepared
    codec = problem.text_codec(data_dir)
    assert codec.vocab_sizes == (3 + problem.size.digits,) * 2
    for row in rows_of(problem, data_dir, "test")[:3]:
        text = codec.decode(tf.constant(row["inputs"][None])).numpy()[0].decode()
        assert len(text.split()) == problem.size.digits
        assert [(text,)] == list(codec.read([text], "puzzles"))
        for spelling in (text, text.replace(" ", ""), text.replace(".", "0")):
            ids = codec.encode(tf.constant([spelling]))["inputs"]
            np.testing.assert_array_equal(ids[0], row["inputs"])
        assert codec.tokens({"inputs": ids}).numpy()[0, 0].decode() == text[0]


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="`digits`=9: expected one of 4, 6"):
        Sudoku(9)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="expected 1 to 12 blank cells"):
        Sudoku(4, min_blanks=5, max_blanks=4)
    with pytest.raises(UserError, match="`test_puzzles`=0"):
        Sudoku(4, test_puzzles=0)
    with pytest.raises(UserError, match="is not prepared"):
        Sudoku(4).examples("test", tmp_path)


def test_answers_are_checked_by_the_rules_alone(prepared: tuple[Sudoku, Path]) -> None:
    problem, data_dir = prepared
    row = rows_of(problem, data_dir, "test")[0]
    right = row["targets"]
    n = problem.size.digits
    blank = int(np.flatnonzero(row["inputs"] == BLANK_ID)[0])
    clue = int(np.flatnonzero(row["inputs"] != BLANK_ID)[0])
    wrong = right.copy()
    wrong[blank] = right[blank] % (n + 2) + 1 if right[blank] == n + 2 else right[blank] + 1
    exchanged = np.where(right == right[clue], -1, right)
    other = 3 if right[clue] != 3 else 4
    exchanged = np.where(exchanged == other, right[clue], exchanged)
    exchanged = np.where(exchanged == -1, other, exchanged)
    unfinished = right.copy()
    unfinished[blank] = BLANK_ID
    answers = np.stack([right, wrong, exchanged, unfinished])
    inputs = np.repeat(row["inputs"][None], 4, 0)
    assert is_grid(problem.size, exchanged)
    found = problem.solves({"inputs": tf.constant(inputs)}, tf.constant(answers))
    assert found.numpy().tolist() == [True, False, False, False]


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
