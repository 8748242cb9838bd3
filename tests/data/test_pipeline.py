"""The pipeline: what a batch holds, in which order, for which replica and worker."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ut_tf.config.training import TrainingConfig
from ut_tf.data.batch_plan import batch_sizes, bucket_bounds, evenly_spaced, plan_batches
from ut_tf.data.example_table import ExampleTable
from ut_tf.data.pipeline import eval_batches, train_batches, worker_share
from ut_tf.data.problem import EvaluationSet, Problem
from ut_tf.errors import UserError
from ut_tf.problem_spec import ProblemSpec

DATA_DIR = Path("nowhere")
EXAMPLES = 300


class Ramps(Problem):
    """Example i counts from 2 up to 1 + length, with its number as "number"; as a table, or from a
    dataset.
    """

    name = "ramps"

    def __init__(self, lengths: list[int] | None = None, table: bool = True) -> None:
        self._lengths = lengths
        self._table = table

    def prepare(self, data_dir: Path, tmp_dir: Path) -> None:
        del data_dir, tmp_dir

    def spec(self, data_dir: Path) -> ProblemSpec:
        del data_dir
        return ProblemSpec("tokens", "tokens", 64, 64)

    def evaluation_sets(self, lengths: tuple[int, ...] = ()) -> list[EvaluationSet]:
        del lengths
        return [EvaluationSet("", "test", "teacher_forced")]

    def examples(
        self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None
    ) -> ExampleTable:
        del split, data_dir, length
        table = self._made(seed, epoch)
        return table if self._table else ExampleTable.from_dataset(table.dataset())

    def _made(self, seed: int, epoch: int) -> ExampleTable:
        draws = np.random.default_rng([seed, epoch])
        lengths = (
            draws.integers(1, 41, EXAMPLES) if self._lengths is None else np.array(self._lengths)
        )
        known = tf.constant(lengths, tf.int32)

        def batch(numbers: Any) -> dict[str, Any]:
            sizes = tf.gather(known, numbers)[:, tf.newaxis]
            columns = tf.range(50)[tf.newaxis, :]
            ramps = tf.where(columns < sizes, columns + 2, 0)
            return {"inputs": ramps, "targets": ramps[:, ::-1][:, -40:][:, ::-1], "number": numbers}

        return ExampleTable(lengths.astype(np.int32), batch)


def read(batches: Any) -> list[dict[str, Any]]:
    return [{name: value.numpy() for name, value in batch.items()} for batch in batches]


def same(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> bool:
    return len(first) == len(second) and all(
        a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)
        for a, b in zip(first, second, strict=True)
    )


def numbers(batches: list[dict[str, Any]]) -> Counter[int]:
    """The numbers of the real examples."""
    return Counter(
        int(number)
        for batch in batches
        for number, weight in zip(batch["number"], batch["weight"], strict=True)
        if weight
    )


@pytest.mark.parametrize("table", [True, False])
@pytest.mark.parametrize(
    ("num_replicas", "jit_compile"),
    [
        (1, False),
        (3, True),
        pytest.param(1, True, marks=pytest.mark.slow),
        pytest.param(2, False, marks=pytest.mark.slow),
        pytest.param(2, True, marks=pytest.mark.slow),
        pytest.param(3, False, marks=pytest.mark.slow),
    ],
)
def test_no_example_is_lost_and_no_batch_exceeds_its_tokens(
    table: bool, num_replicas: int, jit_compile: bool
) -> None:
    training = TrainingConfig(batch_size=128, max_length=30, jit_compile=jit_compile)
    problem = Ramps(table=table)
    batches = read(train_batches(problem, DATA_DIR, training, num_replicas, seed=3, epoch=0))
    fitting = [number for number, length in enumerate(problem._made(3, 0).lengths) if length <= 30]
    assert numbers(batches) == Counter(fitting)
    bounds = bucket_bounds(8, 1.1, 30)
    for batch in batches:
        assert batch["inputs"].size <= 128
        assert batch["weight"].dtype == np.float32
        assert not batch["inputs"][batch["weight"] == 0].any()
        assert batch["inputs"].shape[1] in bounds or not jit_compile


@pytest.mark.parametrize("table", [True, False])
def test_padding_ends_at_the_longest_example_and_examples_are_whole(table: bool) -> None:
    problem = Ramps(table=table)
    lengths = problem._made(1, 0).lengths
    for batch in read(
        train_batches(problem, DATA_DIR, TrainingConfig(batch_size=100), 1, seed=1, epoch=0)
    ):
        sizes = lengths[batch["number"]]
        assert batch["inputs"].shape[1] == sizes.max()
        for row, size in zip(batch["inputs"], sizes, strict=True):
            assert row.tolist() == [*range(2, 2 + size), *[0] * (len(row) - size)]


def test_compiled_training_sees_one_shape_for_each_bucket() -> None:
    training = TrainingConfig(batch_size=128, max_length=40, jit_compile=True)
    shapes = {
        batch["inputs"].shape
        for batch in train_batches(Ramps(), DATA_DIR, training, 2, seed=3, epoch=0)
    }
    bounds = bucket_bounds(8, 1.1, 40)
    assert {tuple(shape) for shape in shapes} <= {(max(1, 128 // bound), bound) for bound in bounds}


@pytest.mark.parametrize(("table", "num_replicas"), [(True, 3), (False, 2)])
def test_replicas_get_consecutive_parts_of_equal_shape(table: bool, num_replicas: int) -> None:
    training = TrainingConfig(batch_size=64)
    parts = read(
        train_batches(Ramps(table=table), DATA_DIR, training, num_replicas, seed=1, epoch=0)
    )
    assert len(parts) % num_replicas == 0
    for start in range(0, len(parts), num_replicas):
        assert len({part["inputs"].shape for part in parts[start : start + num_replicas]}) == 1
        assert sum(part["weight"].sum() for part in parts[start : start + num_replicas]) > 0


def test_fewer_examples_than_replicas_leave_padding_examples_of_weight_zero() -> None:
    parts = read(
        train_batches(
            Ramps(lengths=[4, 4, 4]), DATA_DIR, TrainingConfig(batch_size=64), 4, seed=1, epoch=0
        )
    )
    assert [part["weight"].tolist() for part in parts] == [[1.0], [1.0], [1.0], [0.0]]
    assert not parts[3]["inputs"].any()


@pytest.mark.parametrize("num_replicas", [1, 2])
def test_deep_supervision_sees_batches_of_one_size(num_replicas: int) -> None:
    problem = Ramps(lengths=[4] * 21)
    sizes = {"batch_size": 8 // num_replicas, "batch_unit": "examples", "supervision": "deep"}
    given = (DATA_DIR, TrainingConfig(**sizes), num_replicas, 1, 0)  # type: ignore[arg-type]
    batches = read(train_batches(problem, *given))
    assert [len(batch["weight"]) for batch in batches] == [8 // num_replicas] * 3 * num_replicas
    assert numbers(batches) == Counter(range(21))


@pytest.mark.parametrize("num_workers", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_workers_shares_together_are_the_global_batches(num_workers: int) -> None:
    training = TrainingConfig(batch_size=64)
    everything = read(train_batches(Ramps(), DATA_DIR, training, 4, seed=1, epoch=0))
    shares = [
        read(
            worker_share(
                train_batches(Ramps(), DATA_DIR, training, 4, seed=1, epoch=0),
                4,
                worker,
                num_workers,
            )
        )
        for worker in range(num_workers)
    ]
    share = 4 // num_workers
    joined = [
        part
        for start in range(0, len(everything) // num_workers, share)
        for worker in shares
        for part in worker[start : start + share]
    ]
    assert same(joined, everything)


@pytest.mark.parametrize("table", [True, False])
def test_evaluation_in_examples_keeps_the_order(table: bool) -> None:
    batches = read(
        eval_batches(
            Ramps(table=table),
            EvaluationSet("", "test", "greedy", max_examples=25),
            DATA_DIR,
            batch_examples=10,
        )
    )
    numbers = [number for batch in batches for number in batch["number"].tolist()]
    assert [len(batch["number"]) for batch in batches] == [10, 10, 5]
    assert numbers == [EXAMPLES * number // 25 for number in range(25)]


@pytest.mark.parametrize("table", [True, False])
def test_evaluation_in_tokens_leaves_nothing_out(table: bool) -> None:
    batches = read(
        eval_batches(
            Ramps(table=table), EvaluationSet("", "test", "greedy"), DATA_DIR, batch_tokens=30
        )
    )
    assert numbers(batches) == Counter(range(EXAMPLES))
    assert all(batch["inputs"].size <= 30 or len(batch["inputs"]) == 1 for batch in batches)


@pytest.mark.parametrize("table", [True, False])
def test_an_empty_split_is_an_error_that_names_it(table: bool) -> None:
    problem = Ramps(lengths=[], table=table)
    with pytest.raises(UserError, match=r"train split of ramps in nowhere is empty"):
        train_batches(problem, DATA_DIR, TrainingConfig(), 1, seed=0, epoch=0)
    with pytest.raises(UserError, match=r"test split of ramps in nowhere is empty"):
        eval_batches(problem, EvaluationSet("", "test", "greedy"), DATA_DIR, batch_examples=2)


@pytest.mark.parametrize("table", [True, False])
def test_only_too_long_examples_are_an_error_that_names_the_bound(table: bool) -> None:
    with pytest.raises(UserError, match=r"train split of ramps in nowhere .* `max_length`=20"):
        train_batches(
            Ramps(lengths=[21, 22], table=table),
            DATA_DIR,
            TrainingConfig(max_length=20),
            1,
            seed=0,
            epoch=0,
        )


def test_examples_that_are_left_out_are_counted_once(capsys: pytest.CaptureFixture[str]) -> None:
    problem = Ramps(lengths=[5, 17, 18])
    problem.name = "partly long"
    for epoch in (0, 1):
        train_batches(problem, DATA_DIR, TrainingConfig(max_length=16), 1, seed=0, epoch=epoch)
    told = (
        "2 of 3 training examples of partly long are longer than `max_length`=16, and are left"
        " out\n"
    )
    assert capsys.readouterr().err == told


@given(st.integers(1, 30), st.floats(1.01, 2.0), st.integers(1, 300))
def test_bucket_bounds_ascend_to_the_largest_length(least: int, step: float, most: int) -> None:
    bounds = bucket_bounds(least, step, most)
    assert bounds == sorted({*bounds})
    assert bounds[-1] == most
    assert bounds[0] == min(least, most)


def test_batch_sizes_by_hand() -> None:
    tokens = TrainingConfig(batch_size=100, batch_unit="tokens")
    assert batch_sizes([8, 30, 60, 200], tokens, num_replicas=2) == [24, 6, 2, 2]
    assert batch_sizes(
        [8, 200], TrainingConfig(batch_size=5, batch_unit="examples"), num_replicas=3
    ) == [15, 15]


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(1, 60), max_size=80), st.lists(st.integers(1, 7), min_size=3, max_size=3)
)
def test_plan_holds_each_fitting_example_once_in_a_batch_that_is_not_too_large(
    lengths: list[int], sizes: list[int]
) -> None:
    bounds = [10, 20, 40]
    plan = plan_batches(np.array(lengths, np.int32), bounds, sizes)
    planned = [int(number) for batch in plan for number in batch]
    assert sorted(planned) == [number for number, length in enumerate(lengths) if length <= 40]
    for batch in plan:
        longest = max(lengths[number] for number in batch)
        assert 1 <= len(batch) <= sizes[int(np.searchsorted(bounds, longest))]


def test_evenly_spaced_numbers_by_hand() -> None:
    assert evenly_spaced(10, 4).tolist() == [0, 2, 5, 7]
    assert evenly_spaced(3, 0).tolist() == evenly_spaced(3, 5).tolist() == [0, 1, 2]
