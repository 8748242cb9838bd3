"""The tasks of the Chomsky hierarchy against the plainest way to answer each, and by hand."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.problems.reasoning.test_string_tasks import NOWHERE
from ut_tf.data.pipeline import eval_batches
from ut_tf.errors import UserError
from ut_tf.problems.reasoning.chomsky import Chomsky
from ut_tf.problems.reasoning.chomsky_tasks import TASKS
from ut_tf.problems.reasoning.mazes import LOOPS, SYMBOLS, Mazes

FEW: dict[str, Any] = {"train_examples": 60, "validation_examples": 20, "test_examples": 20}


def pairs(text: str) -> str:
    return str(int(sum(a != b for a, b in itertools.pairwise(text)) % 2 == 0))


def walk(text: str) -> str:
    place = 0
    for move in text:
        place = {"=": place, "+": place + 1, "-": place + 4}[move] % 5
    return str(place)


def arithmetic(text: str) -> str:
    return str(eval(text) % 5)


def stack(text: str) -> str:
    content: list[str] = []
    for symbol in text:
        if symbol == "p":
            content = content[:-1]
        else:
            content.append({"a": "0", "b": "1"}.get(symbol, symbol))
    return "".join(reversed(content)) + "."


def equation(text: str) -> str:
    left, right = text.split("=")
    (one,) = [x for x in "01234" if eval(left.replace("x", x)) % 5 == int(right)]
    return one


def missing(text: str) -> str:
    filled = [text.replace("?", bit) for bit in "01"]
    (one,) = [k for k, whole in enumerate(filled) if whole == 2 * whole[: len(whole) // 2]]
    return str(one)


def of_bits(text: str) -> int:
    return sum(2**k for k, bit in enumerate(text) if bit == "1")


def as_bits(value: int) -> str:
    bits = ""
    while value or not bits:
        bits, value = bits + str(value % 2), value // 2
    return bits + "."


def total(text: str) -> str:
    return as_bits(sum(of_bits(part) for part in text.split("+")))


def product(text: str) -> str:
    first, *others = (of_bits(part) for part in text.split("*"))
    return as_bits(first * others[0] if others else first)


def root(text: str) -> str:
    value = of_bits(text[::-1])
    largest = max(k for k in range(value + 1) if k * k <= value)
    return as_bits(largest)[:-1].ljust((len(text) + 1) // 2, "0")[::-1]


PLAIN: dict[str, Callable[[str], str]] = {
    "even_pairs": pairs,
    "modular_arithmetic_simple": arithmetic,
    "parity_check": lambda text: str(sum(map(int, text)) % 2),
    "cycle_navigation": walk,
    "stack_manipulation": stack,
    "reverse_string": lambda text: "".join(text[-1 - k] for k in range(len(text))),
    "modular_arithmetic": arithmetic,
    "solve_equation": equation,
    "duplicate_string": lambda text: "".join(text[k % len(text)] for k in range(2 * len(text))),
    "missing_duplicate": missing,
    "odds_first": lambda text: "".join(
        symbol for odd in (1, 0) for k, symbol in enumerate(text, 1) if k % 2 == odd
    ),
    "binary_addition": total,
    "binary_multiplication": product,
    "compute_sqrt": root,
    "bucket_sort": lambda text: "".join(d * text.count(d) for d in "01234"),
}
BY_HAND = {
    "even_pairs": ("0110", "1"),
    "modular_arithmetic_simple": ("1+2*3", "2"),
    "parity_check": ("0111", "1"),
    "cycle_navigation": ("++-=--", "4"),
    "stack_manipulation": ("0110bpp", "110."),
    "reverse_string": ("0010", "0100"),
    "modular_arithmetic": ("((1-3)--2)", "0"),
    "solve_equation": ("(2-(x+1))=3", "3"),
    "duplicate_string": ("011", "011011"),
    "missing_duplicate": ("01100?10", "1"),
    "odds_first": ("00110101", "01000111"),
    "binary_addition": ("01001+011", "00011."),
    "binary_multiplication": ("01*11", "011."),
    "compute_sqrt": ("100101", "110"),
    "bucket_sort": ("42041", "01244"),
}


@pytest.mark.parametrize("name", TASKS)
def test_answers_are_those_of_the_plainest_way(name: str) -> None:
    task, draws = TASKS[name], random.Random(0)
    text, answer = BY_HAND[name]
    assert task.answer(text) == answer == PLAIN[name](text)
    seen = set()
    # The plainest root tries all numbers.
    for length in [*range(1, 20), *([40] if name != "compute_sqrt" else [])]:
        for _ in range(8):
            text = task.draw(draws, length)
            answer = task.answer(text)
            assert answer == PLAIN[name](text)
            assert {*text} <= {*task.symbols} and {*answer} <= {*task.answers}
            assert len(answer) <= task.places(len(text))
            assert length - 1 <= len(text) <= max(length, 3)
            seen |= {*text}
    assert seen == {*task.symbols}


def test_strings_of_500_symbols_are_drawn_and_answered() -> None:
    for task in TASKS.values():
        text = task.draw(random.Random(1), 500)
        assert 499 <= len(text) <= 500 and len(task.answer(text)) <= task.places(len(text))


def test_batches_keep_the_places_behind_the_end_of_all_answers() -> None:
    problem = Chomsky("stack_manipulation", 12, **FEW)
    (judged,) = problem.evaluation_sets((12,))
    for batch in eval_batches(problem, judged, NOWHERE, batch_examples=2):
        assert batch["targets"].shape == batch["inputs"].shape
    for example in problem.dataset("test", NOWHERE):
        assert example["targets"].shape == example["inputs"].shape
        assert example["inputs"].numpy().all()


MAZES = Mazes(7, train_examples=200, validation_examples=40, test_examples=40)
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
    assert good == "" and "needs one S and one G" in no_goal and "of 49 characters" in short
