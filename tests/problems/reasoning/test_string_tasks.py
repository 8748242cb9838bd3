"""Tasks on strings against the plainest way to solve each of them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ut_tf.problems.reasoning.dyck import Dyck
from ut_tf.problems.reasoning.facts import PAIRS, RELATIONS, Facts
from ut_tf.problems.reasoning.groups import GroupProducts, elements
from ut_tf.problems.reasoning.p_hop import PHop
from ut_tf.problems.reasoning.prefix_sums import Parity, PrefixSums
from ut_tf.problems.reasoning.strings import StringTask

NOWHERE = Path("nowhere")
FEW: dict[str, Any] = {"train_examples": 300, "validation_examples": 50, "test_examples": 60}
TASKS: list[StringTask] = [
    PrefixSums(12, **FEW),
    Parity(12, **FEW),
    GroupProducts("s5", 8, **FEW),
    GroupProducts("a5", 8, **FEW),
    PHop(**FEW),
    Facts(**FEW),
    Dyck(**FEW),
]


def rows(task: StringTask, split: str, **arguments: Any) -> list[tuple[str, str, dict[str, Any]]]:
    """(The string, its answers with a blank where there is none, the row), of each example."""
    written = [*"__", *task.symbols]
    found = []
    table = task.examples(split, NOWHERE, **arguments)
    batch = {name: value.numpy() for name, value in table.batch(range(len(table))).items()}
    for number, length in enumerate(table.lengths):
        row = {name: value[number] for name, value in batch.items()}
        assert not row["inputs"][length:].any() and row["inputs"][:length].all()
        text = "".join(written[i] for i in row["inputs"][:length])
        answers = "".join(" " if i == 0 else written[i] for i in row["targets"][:length])
        found.append((text, answers, row))
    return found


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_a_task_is_the_same_again_and_its_splits_share_no_string(task: StringTask) -> None:
    train = [text for text, *_ in rows(task, "train", seed=3, epoch=1)]
    assert train == [text for text, *_ in rows(task, "train", seed=3, epoch=1)]
    assert train != [text for text, *_ in rows(task, "train", seed=3, epoch=2)]
    assert train != [text for text, *_ in rows(task, "train", seed=4, epoch=1)]
    judged = {text for text, *_ in rows(task, "test", length=task.max_size)}
    validated = {text for text, *_ in rows(task, "validation")}
    assert not judged & {*train} and not judged & validated and not validated & {*train}
    own = set(task.answers or task.symbols)
    for text, answers, row in rows(task, "train"):
        assert len(text) == len(answers) and {*answers} <= own | {" "}
        steps = row["position_difficulty"][: len(text)]
        assert steps[[a == " " for a in answers]].sum() == 0
        assert row["difficulty"] == steps.max()


def test_parity_is_asked_for_at_the_end() -> None:
    for text, answers, row in rows(TASKS[1], "train"):
        assert answers == " " * (len(text) - 1) + str(text.count("1") % 2)
        assert row["difficulty"] == len(text)


@pytest.mark.parametrize(("group", "order"), [("s5", 120), ("a5", 60)])
def test_products_are_those_of_permutation_matrices(group: Any, order: int) -> None:
    every = elements(group)
    assert len(every) == order and every[0] == (0, 1, 2, 3, 4)
    letters = GroupProducts(group).symbols
    matrices = {a: np.eye(5)[:, one] for a, one in zip(letters, every, strict=True)}
    for text, answers, row in rows(GroupProducts(group, 8, **FEW), "test"):
        product = np.eye(5)
        for symbol, answer in zip(text, answers, strict=True):
            product = product @ matrices[symbol]
            np.testing.assert_array_equal(product, matrices[answer])
        assert row["difficulty"] == len(text)


def test_hops_are_followed_letter_by_letter() -> None:
    for text, answers, row in rows(TASKS[4], "test", length=8):
        letters = text.rstrip(">")
        at = len(letters) - 1
        for hop, mark in enumerate(range(len(letters), len(text)), 1):
            at = letters.rindex(letters[at], 0, at) + 1
            assert answers[mark] == letters[at] and row["position_difficulty"][mark] == hop
        assert len(text) == 64 + 8 and row["difficulty"] == 8


def test_facts_are_looked_up() -> None:
    task = TASKS[5]
    seen = set()
    for split in ("train", "test", PAIRS):
        length = None if split == "train" else 5
        for text, answers, row in rows(task, split, length=length):
            facts, question = text.split(":")
            table = {facts[i : i + 2]: facts[i + 2] for i in range(0, len(facts), 3)}
            assert len(table) == 24
            at = question[0]
            for relation, answer in zip(question[1:], answers[-len(question) + 1 :], strict=True):
                at = table[at + relation]
                assert answer == at
            assert row["difficulty"] == len(question) - 1
            held = ["".join(pair) in "pqrsp" for pair in itertools.pairwise(question[1:])]
            assert any(held) if split == PAIRS else not any(held)
            seen |= {"".join(pair) for pair in itertools.pairwise(question[1:])}
    assert len(seen) == len(RELATIONS) ** 2


def test_brackets_are_closed_by_a_stack() -> None:
    task = TASKS[6]
    deepest = 0
    for text, answers, row in rows(task, "test", length=40):
        stack: list[str] = []
        for place, (symbol, answer) in enumerate(zip(text, answers, strict=True)):
            if symbol in "([":
                stack.append(")" if symbol == "(" else "]")
            else:
                assert stack.pop() == symbol
            assert answer == (stack[-1] if stack else ".")
            assert row["position_difficulty"][place] == len(stack) + 1
            deepest = max(deepest, len(stack))
    assert deepest == 8
