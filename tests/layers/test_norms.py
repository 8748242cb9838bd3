"""Norms, their places in a block, gates and what surrounds a step, against NumPy."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from ut_tf.layers.attention import MultiHeadAttention
from ut_tf.layers.block import Block, BlockContext
from ut_tf.layers.coordinates import rotate, rotation_table
from ut_tf.layers.normalization import RMSNorm
from ut_tf.layers.swiglu import SwiGLU
from ut_tf.layers.transition import TransitionFunction
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
from ut_tf.models.universal_transformer.parts import make_recurrence

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(2, 3, 8)).astype(np.float32)


def rms(x: Any, scale: Any = 1.0) -> Any:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * scale


@pytest.mark.parametrize("with_scale", [True, False])
def test_root_mean_square_and_its_gradient(with_scale: bool) -> None:
    norm = RMSNorm(with_scale=with_scale)
    norm.build(X.shape)
    scale = np.linspace(0.5, 2.0, 8).astype(np.float32) if with_scale else 1.0
    if with_scale:
        norm.scale.assign(scale)
    assert len(norm.weights) == int(with_scale)
    assert_close(norm(X), rms(X, scale), 1e-6)
    assert norm(tf.cast(X, tf.bfloat16)).dtype == "float32"
    inputs = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        loss = tf.reduce_sum(norm(inputs) ** 3)
    step = 1e-3 * RANDOM.normal(size=X.shape)
    up, down = (float((rms(X.astype(np.float64) + s * step, scale) ** 3).sum()) for s in (1, -1))
    slope = float(tf.reduce_sum(tape.gradient(loss, inputs) * step))
    assert slope == pytest.approx((up - down) / 2, rel=1e-3)


class Doubled(TransitionFunction):
    """A sublayer whose output is known."""

    def call(
        self, x: Any, keep: Any = None, training: bool = False, output_scale: float = 1.0
    ) -> Any:
        del keep, training
        return output_scale * (2.0 * x + 1.0)


@pytest.mark.parametrize("norm", ["post", "pre", "sandwich", "peri"])
def test_the_places_of_the_norms(norm: str) -> None:
    block = Block(None, None, Doubled(), norm, 1e-6, 0.0, "rms", residual_scale=0.5)
    block.build(X.shape)
    scales = {"transition_norm": 1.5, "transition_norm_after": 0.7}
    for name, scale in scales.items():
        if hasattr(block, name):
            getattr(block, name).scale.assign(np.full(8, scale))
    before = rms(X, 1.5)
    expected = {
        "post": rms(X + 0.5 * (2 * X + 1), 1.5),
        "pre": X + 0.5 * (2 * before + 1),
        "sandwich": rms(X + 0.5 * (2 * before + 1), 0.7),
        "peri": X + 0.5 * rms(2 * before + 1, 0.7),
    }
    assert_close(block(X)[0], expected[norm], 1e-6)
    assert len(block.trainable_variables) == (2 if norm in ("sandwich", "peri") else 1)


def test_swiglu() -> None:
    layer = SwiGLU(8, 5)
    layer.build(X.shape)
    inner, outer = (weight.numpy() for weight in layer.weights)
    gates, values = X @ inner[:, :5], X @ inner[:, 5:]
    expected = (gates / (1 + np.exp(-gates)) * values) @ outer
    assert_close(layer(X), expected, 1e-5)
    assert_close(layer.step(X[:, 0], layer.prepare(), {})[0], expected[:, 0], 1e-5)


def test_queries_and_keys_with_norm_and_bias_against_numpy() -> None:
    layer = MultiHeadAttention(8, 2, qk_norm=True, qk_bias=True)
    layer.build(X.shape)
    for weight in layer.weights:
        weight.assign(RANDOM.normal(size=weight.shape))
    by_path = {weight.path.split("/", 1)[-1]: weight.numpy() for weight in layer.weights}
    assert "value_bias" not in by_path and len(by_path) == 8
    rotation = rotation_table(tf.range(1.0, 4.0)[None], 4)

    def heads(name: str) -> Any:
        made = X @ by_path[f"{name}_kernel"] + by_path.get(f"{name}_bias", 0.0)
        made = made.reshape(2, 3, 2, 4).transpose(0, 2, 1, 3)
        if name == "value":
            return made
        return rotate(tf.constant(rms(made, by_path[f"{name}_norm/scale"])), rotation).numpy()

    logits = heads("query") @ heads("key").transpose(0, 1, 3, 2) / 2.0
    weights = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    mixed = (weights @ heads("value")).transpose(0, 2, 1, 3).reshape(2, 3, 8)
    output, found = layer(X, rotation=rotation)
    assert_close(found, weights, 1e-5)
    assert_close(output, mixed @ by_path["output/kernel"], 1e-5)


def _recurrence(**changes: Any) -> Any:
    keras.utils.set_random_seed(2)
    sizes = {"hidden_size": 8, "filter_size": 16, "num_heads": 2, "num_steps": 4, "dropout": 0.0}
    recurrence = make_recurrence(UniversalTransformerConfig(**{**sizes, **changes}).resolved())
    recurrence.build((None, None, 8))
    return recurrence


def test_an_outer_norm_keeps_the_size_of_the_state_at_every_depth() -> None:
    sizes = []
    plain = {"norm": "pre", "norm_type": "rms_plain"}
    for steps in (1, 4, 20):
        recurrence = _recurrence(outer_norm=True, num_steps=steps, **plain)
        states = recurrence.recurrent_step.start(tf.constant(X))
        for index in range(steps):
            states, _ = recurrence.recurrent_step(
                states, tf.constant(X), index, None, BlockContext(), False
            )
        sizes.append(np.linalg.norm(states.state, axis=-1))
    assert_close(np.stack(sizes), np.full([3, 2, 3], np.sqrt(8.0)), 1e-4)


def test_a_state_update_of_a_half_lies_midway() -> None:
    one, half = (_recurrence(num_steps=1, state_update=value) for value in (1.0, 0.5))
    assert_close(half(X)[0], (X + one(X)[0]) / 2, 1e-6)
