"""Algorithmic problems: the answers are right, the lengths as wanted, and the draws decided by seed
and epoch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ut_tf.data.pipeline import eval_batches
from ut_tf.errors import UserError
from ut_tf.problems.algorithmic.problem import Algorithmic

DATA_DIR = Path("nowhere")


def small(operation: Any, base: int = 10, **arguments: Any) -> Algorithmic:
    return Algorithmic(operation, base, **{"train_examples": 300, "test_examples": 50, **arguments})


def pairs(problem: Algorithmic, **options: Any) -> list[tuple[list[int], list[int]]]:
    """The ids of each training example, without padding."""
    table = problem.examples("train", DATA_DIR, **options)
    features = table.batch(np.arange(len(table.lengths)))
    inputs, targets = (
        [row[row > 0].tolist() for row in features[name].numpy()] for name in ("inputs", "targets")
    )
    return list(zip(inputs, targets, strict=True))


def number(symbols: list[int], base: int) -> int:
    """The value of little-endian ids."""
    assert all(2 <= symbol < base + 2 for symbol in symbols)
    assert len(symbols) == 1 or symbols[-1] != 2, "leading zero"
    return sum((symbol - 2) * base**place for place, symbol in enumerate(symbols))


def assert_sum(inputs: list[int], targets: list[int], base: int) -> None:
    assert inputs[-1] == targets[-1] == 1
    cut = inputs.index(base + 2)
    first, second = number(inputs[:cut], base), number(inputs[cut + 1 : -1], base)
    assert number(targets[:-1], base) == first + second


@pytest.mark.parametrize("base", [2, 10])
def test_copy_and_reverse_by_definition(base: int) -> None:
    for inputs, targets in pairs(small("copy", base), seed=1):
        assert targets == inputs
        assert inputs[-1] == 1 and all(2 <= symbol < base + 2 for symbol in inputs[:-1])
    for inputs, targets in pairs(small("reverse", base), seed=1):
        assert targets == [*inputs[-2::-1], 1]


@settings(max_examples=4, deadline=None)
@given(
    st.integers(0, 2**31), st.sampled_from([2, 3, 10]), st.sampled_from([None, 3, 4, 17, 40, 130])
)
def test_sums_are_right(seed: int, base: int, length: int | None) -> None:
    problem = small("addition", base, train_examples=40)
    for inputs, targets in pairs(problem, seed=seed, length=length):
        assert_sum(inputs, targets, base)
        assert length is None or len(inputs) == length + 1


@pytest.mark.parametrize("operation", ["copy"])
def test_training_lengths_are_uniform_from_1_to_40(operation: Any) -> None:
    lengths = (
        small(operation, train_examples=40_000).examples("train", DATA_DIR, seed=1).lengths - 1
    )
    counts = np.bincount(lengths, minlength=41)
    assert counts[0] == 0 and len(counts) == 41
    # 1000 of each are expected, with a deviation of 31.
    assert counts[1:].min() > 840 and counts[1:].max() < 1160


def test_summands_have_1_to_20_digits_and_as_many_as_fit() -> None:
    examples = pairs(small("addition", train_examples=3000), seed=1)
    firsts = [inputs.index(12) for inputs, _ in examples]
    seconds = [len(inputs) - 2 - first for (inputs, _), first in zip(examples, firsts, strict=True)]
    assert (min(firsts), max(firsts)) == (1, 20)
    assert (min(seconds), max(seconds)) == (1, 38)
    assert max(first + 1 + second for first, second in zip(firsts, seconds, strict=True)) == 40


@pytest.mark.parametrize("operation", ["reverse", pytest.param("addition", marks=pytest.mark.slow)])
def test_a_graph_is_traced_once_for_each_length(
    operation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    block, traced = Algorithmic._block, []

    def counted(self: Algorithmic, seed: Any, length: int | None) -> Any:
        traced.append(length)
        return block(self, seed, length)

    monkeypatch.setattr(Algorithmic, "_block", counted)
    problem = small(operation)
    made = {}
    for length in (None, 5):
        for epoch in range(2):
            made[length, epoch] = pairs(problem, seed=1, epoch=epoch, length=length)
    assert traced == [None, 5]
    # Another problem, whose graph has seen no other epoch, makes the same.
    for length in (None, 5):
        assert pairs(small(operation), seed=1, epoch=1, length=length) == made[length, 1]


def test_a_longer_epoch_begins_like_a_shorter_one() -> None:
    longer = pairs(small("copy", train_examples=1100))
    assert longer[:300] == pairs(small("copy", train_examples=300))


def test_sets_are_judged_at_the_lengths_asked_for() -> None:
    problem = small("reverse", test_examples=50, long_test_examples=7)
    sets = problem.evaluation_sets()
    assert [(item.name, item.length, item.max_examples, item.method) for item in sets] == [
        ("length_40", 40, 50, "greedy"),
        ("length_400", 400, 7, "greedy"),
    ]
    assert [item.length for item in problem.evaluation_sets((20, 60))] == [20, 60]
    batch = next(iter(eval_batches(problem, sets[1], DATA_DIR, batch_examples=100)))
    assert batch["inputs"].shape == (7, 401)


def test_as_many_are_made_as_are_to_be_judged() -> None:
    problem = small(
        "copy",
        max_length=3,
        validation_length=4,
        validation_examples=45,
        test_examples=5,
        long_test_examples=9,
    )
    for wanted, evaluation_set in (
        (45, problem.validation_sets()[1]),
        (9, problem.evaluation_sets((4,))[0]),
    ):
        batches = eval_batches(problem, evaluation_set, DATA_DIR, batch_examples=100)
        assert sum(len(batch["weight"]) for batch in batches) == wanted


def test_validation_chooses_by_a_set_that_it_judges() -> None:
    problem = small("copy", validation_length=60)
    sets = {item.name: item for item in problem.validation_sets()}
    name, _, metric = problem.selection_metric[0].partition("/")
    assert (metric, problem.selection_metric[1]) == ("char_acc", "max")
    assert (sets[name].method, sets[name].length) == ("greedy", 60)
    assert sets[""].method == "teacher_forced"
    lengths = problem.examples("validation", DATA_DIR).lengths
    assert lengths.max() <= 41


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(UserError, match="expected one of copy"):
        Algorithmic("subtraction")  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"`length`=2: expected at least 3"):
        small("addition").dataset("test", DATA_DIR, length=2)
    with pytest.raises(UserError, match="no split 'dev'"):
        small("copy").dataset("dev", DATA_DIR)
