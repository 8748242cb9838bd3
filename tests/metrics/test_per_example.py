"""The metrics of one batch, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from ut_tf.metrics import per_example as metrics


def test_sequence_matches_counts_the_end_symbol_and_no_padding() -> None:
    targets = tf.constant([[5, 6, 1, 0], [7, 1, 0, 0], [0, 0, 0, 0]])
    symbols = tf.constant([[5, 6, 9, 9, 9], [7, 1, 8, 8, 8], [0, 0, 0, 0, 0]])
    found = {
        name: value.numpy().tolist()
        for name, value in metrics.sequence_matches(symbols, targets).items()
    }
    assert found == {"positions": [3, 2, 0], "correct": [2, 2, 0], "all_correct": [0, 1, 0]}


def test_teacher_forced_loss_is_summed_over_symbols() -> None:
    targets = tf.constant([[2, 1, 0]])
    logits = tf.math.log(tf.constant([[[0.1, 0.2, 0.7], [0.2, 0.3, 0.5], [0.9, 0.05, 0.05]]]))
    found = metrics.teacher_forced(logits, targets)
    assert found["loss"].numpy()[0] == pytest.approx(-math.log(0.7) - math.log(0.3), rel=1e-6)
    assert (
        found["positions"].numpy()[0],
        found["correct"].numpy()[0],
        found["all_correct"].numpy()[0],
    ) == (2, 1, 0)


def test_classification_takes_the_most_probable_class() -> None:
    logits = tf.math.log(tf.constant([[0.25, 0.75], [0.6, 0.4]]))
    found = metrics.classification(logits, tf.constant([1, 1]))
    assert found["correct"].numpy().tolist() == [1, 0]
    np.testing.assert_allclose(found["loss"], [-math.log(0.75), -math.log(0.4)], rtol=1e-6)


def test_roles_are_added_up_apart() -> None:
    mask = tf.constant([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]])
    times = tf.constant([[2.0, 4.0, 9.0], [1.0, 2.0, 5.0]])
    last = metrics.last_position(mask)
    assert last.numpy().tolist() == [[0, 1, 0], [0, 0, 1]]
    found = metrics.pondering_roles(times, mask, {"question": last, "facts": 1.0 - last})
    assert {name: value.numpy().tolist() for name, value in found.items()} == {
        "ponder_time/question": [4, 5],
        "ponder_positions/question": [1, 1],
        "ponder_time/facts": [2, 3],
        "ponder_positions/facts": [1, 2],
    }


def test_a_sequence_ends_where_its_last_symbol_before_the_padding_is_the_end() -> None:
    assert metrics.ends(tf.constant([[5, 1, 0], [1, 5, 0], [0, 0, 0]])).numpy().tolist() == [
        [1],
        [0],
        [0],
    ]


def test_pondering_looks_at_masked_positions_only() -> None:
    found = metrics.pondering(tf.constant([[2.0, 4.0, 9.0]]), tf.constant([[1.0, 1.0, 0.0]]))
    assert {name: value.numpy()[0] for name, value in found.items()} == {
        "ponder_time": 6,
        "ponder_squares": 20,
        "ponder_positions": 2,
    }
