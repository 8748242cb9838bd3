"""Buckets, batch sizes and plans, from lengths alone."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ut_tf.config.training import TrainingConfig
from ut_tf.data.batch_plan import batch_sizes, bucket_bounds, evenly_spaced, plan_batches


@given(st.integers(1, 30), st.floats(1.01, 2.0), st.integers(1, 300))
def test_bucket_bounds_ascend_to_the_largest_length(least: int, step: float, most: int) -> None:
    bounds = bucket_bounds(least, step, most)
    assert bounds == sorted({*bounds})
    assert bounds[-1] == most
    assert bounds[0] == min(least, most)


def test_bucket_bounds_by_hand() -> None:
    assert bucket_bounds(8, 1.1, 14) == [8, 9, 10, 11, 12, 13, 14]
    assert bucket_bounds(8, 1.5, 40) == [8, 12, 18, 27, 40]


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


def test_plan_gives_whole_batches_in_the_order_in_which_they_fill_up() -> None:
    plan = plan_batches(np.array([1, 9, 1, 9, 9, 1, 1, 5]), bounds=[1, 9], sizes=[3, 2])
    assert [batch.tolist() for batch in plan] == [[1, 3], [0, 2, 5], [4, 7], [6]]


def test_evenly_spaced_numbers_by_hand() -> None:
    assert evenly_spaced(10, 4).tolist() == [0, 2, 5, 7]
    assert evenly_spaced(3, 0).tolist() == evenly_spaced(3, 5).tolist() == [0, 1, 2]
