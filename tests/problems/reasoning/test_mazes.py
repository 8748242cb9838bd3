"""Mazes against a search for all ways through them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ut_tf.errors import UserError
from ut_tf.problems.reasoning.mazes import LOOPS, SYMBOLS, Mazes

NOWHERE = Path("nowhere")
MAZES = Mazes(7, 200, 0, 40, 40)
Cell = tuple[int, int]


def boards(split: str, side: int | None = None) -> list[dict[str, Any]]:
    """The examples, their boards as characters [side, side]."""
    table = MAZES.examples(split, NOWHERE, length=side)
    batch = {name: value.numpy() for name, value in table.batch(range(len(table))).items()}
    width = int(table.lengths[0] ** 0.5)
    written = np.array([*"__", *SYMBOLS])
    return [
        {
            "given": written[batch["inputs"][number]].reshape(width, width),
            "answer": written[batch["targets"][number]].reshape(width, width),
            "rounds": batch["position_difficulty"][number].reshape(width, width),
            "difficulty": batch["difficulty"][number],
        }
        for number in range(len(table))
    ]


def beside(cell: Cell) -> list[Cell]:
    row, column = cell
    return [(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)]


def ways(board: np.ndarray) -> list[list[Cell]]:
    """All paths from start to goal, ends included."""
    (start,) = [tuple(map(int, cell)) for cell in np.argwhere(board == "S")]
    paths, found = [[start]], []
    while paths:
        path = paths.pop()
        if board[path[-1]] == "G":
            found.append(path)
            continue
        paths += [
            [*path, cell] for cell in beside(path[-1]) if board[cell] != "#" and cell not in path
        ]
    return found


def marked(board: np.ndarray) -> list[Cell]:
    return [(int(row), int(column)) for row, column in np.argwhere(board == "o")]


@pytest.mark.parametrize(("split", "side"), [("train", None), ("test", 7), ("test", 11)])
def test_the_answer_is_the_only_way(split: str, side: int | None) -> None:
    for one in boards(split, side)[:40]:
        (path,) = ways(one["given"])
        assert sorted(path[1:-1]) == marked(one["answer"])
        unmarked = np.where(one["answer"] == "o", ".", one["answer"])
        assert (unmarked == one["given"]).all()


def test_rounds_fill_dead_ends_one_after_the_other() -> None:
    for one in boards("test", 7)[:20]:
        left = {tuple(map(int, cell)) for cell in np.argwhere(one["given"] != "#")}
        expected, number = np.zeros([7, 7], int), 0
        while True:
            dead = [
                cell
                for cell in left
                if one["given"][cell] == "." and sum(other in left for other in beside(cell)) <= 1
            ]
            if not dead:
                break
            number += 1
            for cell in dead:
                expected[cell] = number
            left -= {*dead}
        for cell in marked(one["answer"]):
            expected[cell] = max(number, 1)
        np.testing.assert_array_equal(one["rounds"], expected)
        assert one["difficulty"] == expected.max()


def test_mazes_with_loops_have_several_ways_and_the_answer_is_a_shortest_one() -> None:
    several = 0
    for one in boards(LOOPS):
        paths = ways(one["given"])
        several += len(paths) > 1
        assert len(marked(one["answer"])) == min(map(len, paths)) - 2
        open_ = np.where(one["answer"] == ".", "#", np.where(one["answer"] == "o", ".", "S"))
        open_ = np.where(np.isin(one["given"], ["S", "G", "#"]), one["given"], open_)
        assert len(ways(open_)) == 1
        assert (one["difficulty"] < 0) == (one["rounds"] < 0).any()
    assert several > 20


def test_every_shortest_way_is_valid_and_nothing_else() -> None:
    rows = ["#######", "#S....#", "#.###.#", "#.#.#.#", "#.#.#.#", "#....G#", "#######"]
    given = "".join(rows)
    right = "".join(["#######", "#Soooo#", "#.###o#", "#.#.#o#", "#.#.#o#", "#....G#", "#######"])
    other = "".join(["#######", "#S....#", "#o###.#", "#o#.#.#", "#o#.#.#", "#ooooG#", "#######"])
    wrong = [
        given,
        right[:11] + "." + right[12:],
        right[:24] + "o" + right[25:],
        right.replace("S", "o"),
        right.replace("#S", ".S"),
        "".join(["#######", "#Soooo#", "#o###o#", "#o#.#o#", "#o#.#o#", "#ooooG#", "#######"]),
    ]
    ids = [[SYMBOLS.index(symbol) + 2 for symbol in board] for board in [right, other, *wrong]]
    inputs = [[SYMBOLS.index(symbol) + 2 for symbol in given]] * len(ids)
    solved = MAZES.solves({"inputs": tf.constant(inputs)}, tf.constant(ids)).numpy()
    assert solved.tolist() == [True, True, *[False] * len(wrong)]


def test_a_board_is_of_one_split_however_it_is_turned() -> None:
    draws = np.random.default_rng(0)
    mazes = MAZES.draw(draws, np.full(50, 7), 7, "train")
    test = MAZES.belong(mazes, "test")
    assert 0 < test.sum() < len(test)
    turned = np.rot90(mazes.reshape(-1, 7, 7), axes=(1, 2))
    for same in (turned, turned.transpose(0, 2, 1), mazes.reshape(-1, 7, 7)[:, ::-1]):
        np.testing.assert_array_equal(MAZES.belong(same.reshape(50, -1), "test"), test)


def test_an_even_side_is_refused_and_so_is_a_board_without_a_goal() -> None:
    with pytest.raises(UserError, match=r"`max_size`=8: the side .* is an odd number"):
        Mazes(8)
    with pytest.raises(UserError, match=r"`max_size`=5: .*one split has all of them; set 7"):
        Mazes(5)
    assert Mazes(5, disjoint_splits=False).text_codec(NOWHERE).board == (5, 5, None, None)
    with pytest.raises(UserError, match=r"`length`=12: the side"):
        MAZES.examples("test", NOWHERE, length=12)
    codec = MAZES.text_codec(NOWHERE)
    texts = tf.constant([codec.sample, codec.sample.replace("G", "."), "##S..G"])
    good, no_goal, short = [error.decode() for error in codec.errors(texts).numpy()]
    assert good == "" and "needs one S and one G" in no_goal and "expected 49" in short
