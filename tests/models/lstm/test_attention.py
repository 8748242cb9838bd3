"""Luong's and Bahdanau's scores against values worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from ut_tf.models.lstm.attention import BahdanauAttention, LuongAttention

LOG3 = math.log(3)
# The second state's score is higher by log 3 than the first's, so it weighs three times as much;
# the third is padding.
LUONG_STATES = [[1.0, 0.0], [0.0, (1 + LOG3) / 2], [9.0, 9.0]]
BAHDANAU_STATES = [[math.atanh(0.5), 0.0], [0.0, math.atanh((0.5 + LOG3) / 2)], [9.0, 9.0]]


def built(kind: Any) -> Any:
    layer = kind(hidden_size=2)
    layer.build((None, None, 2))
    return layer


def test_luong_s_general_score() -> None:
    layer = built(LuongAttention)
    layer.key.kernel.assign([[1.0, 0.0], [0.0, 2.0]])
    contexts, weights = layer(
        tf.constant([[[1.0, 1.0]]]), tf.constant([LUONG_STATES]), tf.constant([[1.0, 1.0, 0.0]])
    )
    assert_close(weights, [[[0.25, 0.75, 0.0]]], 1e-6)
    assert_close(contexts, [[[0.25, 0.75 * (1 + LOG3) / 2]]], 1e-6)


def test_bahdanau_s_additive_score() -> None:
    layer = built(BahdanauAttention)
    layer.key.kernel.assign(np.eye(2))
    layer.query.kernel.assign(2 * np.eye(2))
    layer.score.assign([1.0, 2.0])
    # Half of what the query adds is taken from every state again.
    states = np.array(BAHDANAU_STATES, np.float32) - [0.2, 0.4]
    contexts, weights = layer(
        tf.constant([[[0.1, 0.2]]]),
        tf.constant([states], tf.float32),
        tf.constant([[1.0, 1.0, 0.0]]),
    )
    assert_close(weights, [[[0.25, 0.75, 0.0]]], 1e-5)
    assert_close(contexts[0, 0], 0.25 * states[0] + 0.75 * states[1], 1e-5)


@pytest.mark.parametrize("kind", [LuongAttention, BahdanauAttention])
def test_queries_are_answered_each_for_itself(kind: Any) -> None:
    layer, draws = built(kind), np.random.default_rng(0)
    queries, states, keep = (
        draws.normal(size=(3, 4, 2)),
        draws.normal(size=(3, 5, 2)),
        np.ones((3, 5)),
    )
    together, _ = layer(
        tf.constant(queries, tf.float32),
        tf.constant(states, tf.float32),
        tf.constant(keep, tf.float32),
    )
    alone, _ = layer(
        *(tf.constant(one, tf.float32) for one in (queries[1:2, 2:3], states[1:2], keep[1:2]))
    )
    assert_close(together[1, 2], alone[0, 0], 1e-6)
