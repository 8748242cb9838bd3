"""The loss against sums written out by hand."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.training.toy import ToyDetails
from ut_tf.layers.recurrence_details import RecurrenceDetails
from ut_tf.metrics import losses


def test_cross_entropy_of_one_target_by_hand() -> None:
    logits = tf.math.log([[0.7, 0.2, 0.1]])
    assert float(losses.smoothed_cross_entropy(logits, [0])[0]) == pytest.approx(-np.log(0.7))
    # Smoothing .1 over three symbols: .9 for the right one, .05 for each of the others.
    expected = -(0.9 * np.log(0.7) + 0.05 * np.log(0.2) + 0.05 * np.log(0.1))
    assert float(losses.smoothed_cross_entropy(logits, [0], 0.1)[0]) == pytest.approx(expected)


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 6), st.floats(0.0, 0.9), st.integers(0, 1000))
def test_smoothed_cross_entropy_is_that_against_the_smoothed_distribution(
    vocabulary: int, smoothing: float, seed: int
) -> None:
    logits = np.random.default_rng(seed).normal(size=[3, vocabulary]).astype(np.float32) * 3
    targets = np.arange(3) % vocabulary
    smoothed = np.full([3, vocabulary], smoothing / (vocabulary - 1))
    smoothed[np.arange(3), targets] = 1.0 - smoothing
    log_probabilities = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    found = losses.smoothed_cross_entropy(tf.constant(logits), targets, smoothing)
    np.testing.assert_allclose(found, -(smoothed * log_probabilities).sum(-1), rtol=1e-4, atol=1e-5)


def test_the_loss_is_float32_whatever_the_logits_are() -> None:
    logits = tf.cast([[300.0, 301.0]], tf.bfloat16)
    found = losses.smoothed_cross_entropy(logits, [0], 0.1)
    assert found.dtype == tf.float32


def test_padding_and_filling_examples_weigh_nothing() -> None:
    features = {
        "targets": tf.constant([[3, 1, 0], [4, 0, 0], [5, 5, 1]]),
        "weight": tf.constant([1.0, 1.0, 0.0]),
    }
    assert losses.target_weights(features).numpy().tolist() == [[1, 1, 0], [1, 0, 0], [0, 0, 0]]
    classes = {"targets": tf.constant([0, 3, 0]), "weight": tf.constant([1.0, 1.0, 0.0])}
    assert losses.target_weights(classes).numpy().tolist() == [1, 1, 0]


def test_ponder_sums_count_masked_positions_of_real_examples() -> None:
    times, remainders = (
        tf.constant([[2.0, 3.0, 5.0], [1.0, 1.0, 1.0]]),
        tf.constant([[0.5, 0.25, 9.0], [7.0, 7.0, 7.0]]),
    )
    part = RecurrenceDetails(
        times, remainders, tf.constant([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]), times[tf.newaxis]
    )
    costs, positions, histogram = losses.ponder_sums(
        ToyDetails(part, None), tf.constant([1.0, 0.0]), max_steps=4
    )
    assert costs.numpy().tolist() == [5.75]
    assert positions.numpy().tolist() == [2.0]
    assert histogram.numpy().tolist() == [0, 0, 1, 1, 0]
    fixed = part._replace(halting_probabilities=None)
    for details, expected in (
        (ToyDetails(part, part), [5.0, 5.0]),
        (ToyDetails(fixed, part), [5.0]),
    ):
        assert (
            losses.ponder_sums(details, tf.constant([1.0, 1.0]), max_steps=5)[1].numpy().tolist()
            == expected
        )
