"""Halting against hand-computed values, against the paper's listing, and its invariants."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.close import assert_close
from ut_tf.layers.recurrence_details import RecurrenceDetails
from ut_tf.models.universal_transformer.halting.adaptive_computation_time import Accumulated, Basic
from ut_tf.models.universal_transformer.halting.base import halting_step, start_halting

THRESHOLD = 0.99


def run(probabilities: list[float], max_steps: int) -> tuple[list[float], float, float]:
    """Returns (weights, remainder, ponder time) of one position with these halting
    probabilities.
    """
    state, weights = start_halting(tf.ones([1, 1])), []
    for probability in probabilities[:max_steps]:
        if float(state.halting_sum[0, 0]) >= THRESHOLD:
            break
        state, weight, _ = halting_step(state, tf.constant([[probability]]), THRESHOLD)
        weights.append(float(weight[0, 0]))
    return weights, float(state.remainders[0, 0]), float(state.ponder_times[0, 0])


def listing(probabilities: list[float], max_steps: int) -> tuple[float, float, float]:
    """The paper's listing for one position, in float64: (halting sum, remainder, number of
    updates).
    """
    halting = remainder = updates = 0.0
    for probability in probabilities[:max_steps]:
        if not halting < THRESHOLD:
            break
        still = float(halting < 1.0)
        new = float(halting + probability * still > THRESHOLD) * still
        still = float(halting + probability * still <= THRESHOLD) * still
        halting += probability * still
        remainder += new * (1.0 - halting)
        halting += new * remainder
        updates += still + new
    return halting, remainder, updates


def test_three_steps_by_hand() -> None:
    weights, remainder, ponder_time = run([0.3, 0.4, 0.5, 0.9], max_steps=6)
    assert_close(weights, [0.3, 0.4, 0.3], 1e-6)
    assert (remainder, ponder_time) == (pytest.approx(0.3, abs=1e-6), 3.0)


def test_the_first_step_halts_a_sure_position() -> None:
    assert run([0.995], max_steps=6) == ([1.0], 1.0, 1.0)


def test_max_steps_leave_no_remainder() -> None:
    weights, remainder, ponder_time = run([0.1, 0.1, 0.1], max_steps=2)
    assert_close(weights, [0.1, 0.1], 1e-6)
    assert (remainder, ponder_time) == (0.0, 2.0)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0.0625, 0.96875, width=32), min_size=8, max_size=8))
def test_agrees_with_the_paper_listing_and_weights_sum_to_one(probabilities: list[float]) -> None:
    sums = np.cumsum(probabilities)
    if np.abs(sums - THRESHOLD).min() < 1e-5:
        return  # float32 and float64 may halt at different steps
    weights, remainder, ponder_time = run(probabilities, max_steps=8)
    _, expected_remainder, expected_updates = listing(probabilities, max_steps=8)
    assert ponder_time == expected_updates
    assert remainder == pytest.approx(expected_remainder, abs=1e-5)
    if remainder:
        assert sum(weights) == pytest.approx(1.0, abs=1e-5)


def test_padding_neither_ponders_nor_weighs() -> None:
    state, weight, running = halting_step(
        start_halting(tf.constant([[1.0, 0.0]])), tf.constant([[0.4, 0.4]]), THRESHOLD
    )
    assert weight.numpy().tolist() == [[pytest.approx(0.4), 0.0]]
    assert state.ponder_times.numpy().tolist() == [[1.0, 0.0]]
    assert running.numpy().tolist() == [[True, False]]


def test_basic_interpolates_and_accumulated_adds() -> None:
    state, output, weight = tf.constant([[[2.0]]]), tf.constant([[[10.0]]]), tf.constant([[0.25]])
    assert float(Basic().combine(state, output, weight)[0, 0, 0]) == pytest.approx(
        0.25 * 2 + 0.75 * 10
    )
    assert float(Accumulated().combine(state, output, weight)[0, 0, 0]) == pytest.approx(
        10 + 0.25 * 2
    )


def test_ponder_cost_is_the_mean_over_counted_positions() -> None:
    details = RecurrenceDetails(
        tf.constant([[2.0, 4.0, 9.0]]),
        tf.constant([[0.5, 0.1, 0.9]]),
        tf.constant([[1.0, 1.0, 0.0]]),
    )
    assert float(details.ponder_cost()) == pytest.approx((2.5 + 4.1) / 2)
