"""Dropout whose scale is folded into a neighbouring kernel: the same function and gradient as the
plain layer.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.training.toy import mirrored
from ut_tf.layers.dropout import Dropout, keep_mask, keep_probability, replica_seed
from ut_tf.layers.linear import Linear

_SEED = 11


def _value_and_gradients(function: Any, x: Any, linear: Linear) -> list[Any]:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
        loss = tf.reduce_sum(
            y * tf.reshape(tf.cos(tf.range(tf.size(y), dtype=tf.float32)), tf.shape(y))
        )
    return [y, *tape.gradient(loss, [x, *[weight.value for weight in linear.trainable_weights]])]


def _linear() -> Linear:
    keras.utils.set_random_seed(3)
    linear = Linear(5, bias_init=0.3)
    linear.build((None, None, 7))
    return linear


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.01])
@pytest.mark.parametrize("graph", [False, True])
def test_dropping_a_relu_is_the_dropout_of_the_relu(rate: float, graph: bool) -> None:
    x, linear = tf.random.stateless_normal([4, 6, 7], [1, 2]), _linear()
    plain, folded = Dropout(rate, seed=_SEED), Dropout(rate, seed=_SEED)

    def expected(x: Any) -> Any:
        return linear(plain(tf.nn.relu(x), training=True))

    def found(x: Any) -> Any:
        return linear(folded.drop_relu(x, True), input_scale=folded.scale(True))

    functions = [tf.function(one) if graph else one for one in (expected, found)]
    for first, second in zip(
        *[_value_and_gradients(one, x, linear) for one in functions], strict=True
    ):
        np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-5)


def test_output_scale_scales_kernel_and_bias() -> None:
    x, linear = tf.random.stateless_normal([4, 6, 7], [1, 2]), _linear()
    plain, folded = Dropout(0.3, seed=_SEED), Dropout(0.3, seed=_SEED)
    expected = _value_and_gradients(lambda x: plain(linear(x), training=True), x, linear)
    found = _value_and_gradients(
        lambda x: folded.drop(linear(x, output_scale=folded.scale(True)), True), x, linear
    )
    for first, second in zip(expected, found, strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.02, 0.999])
def test_share_of_kept_elements_is_what_the_scale_says(rate: float) -> None:
    kept = tf.reduce_mean(
        tf.cast(keep_mask(tf.constant([1000, 1001]), rate, tf.constant([5, 6])), tf.float64)
    ).numpy()
    probability = keep_probability(rate)
    assert abs(kept - probability) < 5 * (probability * (1 - probability) / 1e6) ** 0.5
    assert abs(probability - (1.0 - rate)) < 1 / 256
    assert Dropout(rate).scale(True) == 1 / probability


def test_replicas_drop_different_elements() -> None:
    strategy = mirrored(2)
    seeds = strategy.run(lambda: replica_seed(tf.constant([1, 2])))
    first, second = strategy.experimental_local_results(seeds)
    assert first.numpy().tolist() != second.numpy().tolist()


def test_nothing_is_dropped_outside_training() -> None:
    x, dropout = tf.constant([[-1.0, 2.0]]), Dropout(0.5)
    assert dropout.scale(False) == 1.0 and Dropout(0.0).scale(True) == 1.0
    np.testing.assert_array_equal(dropout.drop(x, False), x)
    np.testing.assert_array_equal(dropout.drop_relu(x, False), [[0.0, 2.0]])
