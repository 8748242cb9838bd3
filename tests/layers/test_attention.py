"""Attention against a plain computation, what it may see, and its scales and biases."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from ut_tf.layers.attention import MultiHeadAttention
from ut_tf.layers.attention_weights import causal_bias, length_scale, padding_bias


def made(**options: Any) -> MultiHeadAttention:
    keras.utils.set_random_seed(5)
    attention = MultiHeadAttention(8, 2, **options)
    attention.build((None, None, 8))
    return attention


def states(*shape: int) -> tf.Tensor:
    return tf.constant(np.random.default_rng(2).normal(size=shape), tf.float32)


@pytest.mark.parametrize("head_size", [4, 3, 7])
def test_equals_the_formula(head_size: int) -> None:
    attention, x = made(head_size=head_size), states(1, 3, 8)
    output, weights = attention(x)
    q, k, v = (
        x.numpy()[0] @ getattr(attention, f"{name}_kernel").numpy()
        for name in ("query", "key", "value")
    )
    mixed = []
    for head in (slice(0, head_size), slice(head_size, 2 * head_size)):
        logits = q[:, head] @ k[:, head].T / math.sqrt(head_size)
        softmax = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        mixed.append(softmax @ v[:, head])
    expected = np.concatenate(mixed, -1) @ attention.output_transform.kernel.numpy()
    assert_close(output[0], expected, 1e-5)
    assert_close(tf.reduce_sum(weights, -1), 1.0, 1e-6)


def test_a_shift_of_the_values_is_dropped_with_them() -> None:
    x, shift = states(1, 5, 8), states(1, 2, 1, 4)
    outputs = []
    for moved, options in ((0.0, {"value_shift": shift}), (shift, {})):
        attention = made(attention_dropout=0.5)
        keys, values = attention.keys_values(x)
        outputs.append(attention(x, keys, values + moved, training=True, **options)[0])
    assert_close(outputs[0], outputs[1], 1e-5)


def test_masked_keys_have_exactly_no_weight() -> None:
    _, weights = made()(
        states(2, 3, 8), bias=padding_bias(tf.constant([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]))
    )
    assert np.all(weights.numpy()[0, :, :, 2] == 0.0)


def test_the_future_does_not_reach_the_past() -> None:
    attention, x = made(), states(1, 4, 8)
    changed = tf.concat([x[:, :3], x[:, 3:] + 9.0], 1)
    before, after = (attention(y, bias=causal_bias(4))[0] for y in (x, changed))
    np.testing.assert_array_equal(before[:, :3], after[:, :3])


def test_relative_bias_depends_on_distance_and_shares_beyond_its_reach() -> None:
    attention = made(relative_bias=2)
    attention.relative_table.assign(np.random.default_rng(0).normal(size=(5, 2)))
    bias = attention._relative_bias(tf.range(6), tf.range(6)).numpy()[0]
    table = attention.relative_table.numpy()
    for query in range(6):
        for key in range(6):
            np.testing.assert_allclose(
                bias[:, query, key], table[np.clip(key - query, -2, 2) + 2], rtol=1e-6
            )


def test_self_bias_starts_where_it_is_told() -> None:
    attention = made(relative_bias=2, relative_self_bias=-5.0)
    assert attention.relative_table.numpy().tolist() == [[0, 0], [0, 0], [-5, -5], [0, 0], [0, 0]]


def test_equal_kernels_attend_by_likeness() -> None:
    attention = made(query_key_init="equal")
    np.testing.assert_array_equal(attention.query_kernel, attention.key_kernel)
    assert np.abs(attention.query_kernel.numpy() - attention.value_kernel.numpy()).max() > 0.01


def test_log_length_leaves_trained_lengths_alone() -> None:
    scale = length_scale(tf.constant([1.0, 40.0, 1600.0]), 40).numpy()
    np.testing.assert_allclose(scale, [1.0, 1.0, 2.0], rtol=1e-6)
