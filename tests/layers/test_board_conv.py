"""Convolutions over boards against Keras', and boards that are none."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from ut_tf.errors import UserError
from ut_tf.layers.board_conv import BoardConvTransition, SeparableBoardConv
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig


def test_a_board_convolution_and_its_gradients_equal_keras() -> None:
    x = tf.constant(np.random.default_rng(0).normal(size=(2, 5, 4, 6)), tf.float32)
    ours, theirs = SeparableBoardConv(3), keras.layers.SeparableConv2D(3, 3, padding="same")
    ours.build(x.shape)
    theirs.build(x.shape)
    kernel, bias = ours.depthwise_kernel.numpy(), np.array([0.1, 0.2, 0.3])
    ours.pointwise.bias.assign(bias)
    theirs.set_weights(
        [kernel.reshape(3, 3, 6, 1), ours.pointwise.kernel.numpy()[None, None], bias]
    )

    def results(layer: Any) -> list[Any]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x)
            loss = tf.reduce_sum(tf.sin(y))
        own, kernel = tape.gradient(loss, [x, layer.trainable_variables[0].value])
        return [y, own, tf.reshape(kernel, [-1])]

    for one, other in zip(results(ours), results(theirs), strict=True):
        assert_close(one, other, 1e-5)


def test_a_cell_sees_what_is_around_it_on_its_board_alone() -> None:
    layer = BoardConvTransition(4, 8)
    x = np.random.default_rng(0).normal(size=(2, 49, 4)).astype(np.float32)
    changed = x.copy()
    changed[0, 0] += 1.0
    differ = np.abs(layer(x) - layer(changed)).max(-1).reshape(2, 7, 7) > 0
    # Two kernels of 3 x 3 cells reach two rows and columns far.
    assert differ[0, :3, :3].all() and differ.sum() == 9


def test_what_is_no_board_is_refused() -> None:
    layer = BoardConvTransition(4, 8)
    with pytest.raises(UserError, match="here are 6 positions"):
        layer(np.zeros([2, 6, 4]))
    graph = tf.function(layer, input_signature=[tf.TensorSpec([None, None, 4])], autograph=False)
    assert graph(np.zeros([2, 9, 4])).shape == (2, 9, 4)
    with pytest.raises(tf.errors.InvalidArgumentError, match="needs square boards"):
        graph(np.zeros([2, 6, 4]))
    # A row of padding fills a batch up; a smaller board does not fit.
    layer(np.zeros([2, 9, 4]), keep=np.array([[1.0] * 9, [0.0] * 9]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="all of a batch of one size"):
        layer(np.zeros([2, 9, 4]), keep=np.array([[1.0] * 9, [1.0] * 4 + [0.0] * 5]))
    with pytest.raises(UserError, match="here is a decoder"):
        BoardConvTransition(4, 8, causal=True)


@pytest.mark.parametrize("options", [{"transition": "fc"}, {"recurrence": "gru"}])
def test_positions_that_nothing_connects_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="attention=False leaves positions alone"):
        UniversalTransformerConfig(**{"transition": "sepconv2d", **options}, attention=False)


@pytest.mark.parametrize(
    "options", [{"memory_tokens": 9}, {"attention": False, "mix_positions": 9}]
)
def test_what_contradicts_a_board_or_no_attention_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="set one of them"):
        UniversalTransformerConfig(**{"transition": "sepconv2d", **options})
