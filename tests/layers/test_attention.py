"""Attention against a plain computation, what it may see, and its scales and biases."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from ut_tf.errors import UserError
from ut_tf.inference.int8_decoder import sums_are_exact_here
from ut_tf.layers.attention import MultiHeadAttention
from ut_tf.layers.attention_weights import causal_bias, length_scale, padding_bias
from ut_tf.layers.block import Block, BlockContext
from ut_tf.layers.coordinates import rotate, rotation_table
from ut_tf.layers.int8 import Int8Kernel, int8_product, with_int8_kernels
from ut_tf.layers.linear import affine
from ut_tf.layers.normalization import RMSNorm
from ut_tf.layers.pointer import WordPointer
from ut_tf.layers.swiglu import SwiGLU
from ut_tf.layers.transition import ShiftTransition, TransitionFunction
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
from ut_tf.models.universal_transformer.model import UniversalTransformer
from ut_tf.models.universal_transformer.parts import make_recurrence
from ut_tf.problem_spec import ProblemSpec
from ut_tf.symbols import END_ID


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


def test_a_relative_slope_begins_near_and_keeps_later_positions_far() -> None:
    attention = made(relative_bias=3, relative_slope=0.5, relative_self_bias=-4.0)
    expected = [-1.5, -1.0, -0.5, -4.0, -1.5, -1.5, -1.5]
    np.testing.assert_array_equal(attention.relative_table, np.tile(expected, [2, 1]).T)


def test_equal_kernels_attend_by_likeness() -> None:
    attention = made(query_key_init="equal")
    np.testing.assert_array_equal(attention.query_kernel, attention.key_kernel)
    assert np.abs(attention.query_kernel.numpy() - attention.value_kernel.numpy()).max() > 0.01


def test_log_length_leaves_trained_lengths_alone() -> None:
    scale = length_scale(tf.constant([1.0, 40.0, 1600.0]), 40).numpy()
    np.testing.assert_allclose(scale, [1.0, 1.0, 2.0], rtol=1e-6)


# Words 3, 4, 3; the end of the context; the question's word 5; its end; padding.
IDS = tf.constant([[3, 4, 3, END_ID, 5, END_ID, 0]])
MASK = tf.constant([[1.0, 1, 1, 1, 1, 1, 0]])


def _identity_pointer() -> WordPointer:
    pointer = WordPointer(2, 7)
    pointer.build((None, None, 2))
    pointer.set_weights([np.eye(2), np.eye(2)])
    return pointer


def test_probabilities_of_equal_words_are_added_up() -> None:
    states = np.zeros([1, 7, 2], np.float32)
    states[0, :3, 0] = [1.0, 2.0, 3.0]
    states[0, 3:, 0] = 9.0  # Neither the end, the question nor padding can be answered.
    states[0, 5] = [
        2.0**0.5,
        0.0,
    ]  # The last position asks; the factor undoes the scaling by hidden_size^-0.5.
    logits = _identity_pointer()(tf.constant(states), IDS, MASK).numpy()[0]
    weights = np.exp([1.0, 2.0, 3.0]) / np.exp([1.0, 2.0, 3.0]).sum()
    np.testing.assert_allclose(
        np.exp(logits[[3, 4]]), [weights[0] + weights[2], weights[1]], rtol=1e-5
    )
    assert set(np.flatnonzero(np.exp(logits) > 1e-6)) == {3, 4}
    # A softmax over the logits gives the probabilities back: losses of classes hold.
    np.testing.assert_allclose(tf.nn.softmax(logits)[3], np.exp(logits[3]), rtol=1e-5)


def test_an_example_without_context_answers_nothing_and_stays_finite() -> None:
    logits = _identity_pointer()(
        tf.ones([1, 3, 2]), tf.constant([[END_ID, 5, END_ID]]), tf.ones([1, 3])
    ).numpy()
    assert np.isfinite(logits).all()
    assert_close(logits, logits[0, 0], 1e-6)


@pytest.mark.parametrize("start", [False, True])
def test_a_model_points_at_words_of_its_context_whatever_the_padding(start: bool) -> None:
    network = UniversalTransformerConfig(
        hidden_size=8, filter_size=8, num_heads=2, num_steps=2, input_start_symbol=start
    )
    model = UniversalTransformer(network, ProblemSpec("tokens", "word", 7, 7, shared_vocab=True))
    logits = model({"inputs": IDS}).numpy()[0]
    assert set(np.flatnonzero(np.exp(logits) > 1e-6)) == {3, 4}
    assert_close(logits, model({"inputs": IDS[:, :6]}).numpy()[0], 1e-4)


def test_pointing_at_words_of_facts_is_refused() -> None:
    with pytest.raises(UserError, match="not of facts"):
        UniversalTransformer(
            UniversalTransformerConfig(), ProblemSpec("facts", "word", 7, 7, max_words=2)
        )


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


def test_a_shift_reads_the_position_before_and_no_padding() -> None:
    layer = ShiftTransition(8, 5)
    layer.build(X.shape)
    inner, inner_bias, outer, outer_bias = (weight.numpy() for weight in layer.weights)
    keep = np.ones(X.shape[:2], np.float32)
    keep[0, 1] = 0
    read = X * keep[..., None]
    before = np.concatenate([np.zeros_like(read[:, :1]), read[:, :-1]], 1)
    hidden = np.maximum(np.concatenate([read, before], -1) @ inner + inner_bias, 0)
    assert_close(layer(X, keep=keep), hidden @ outer + outer_bias, 1e-5)
    cache, whole = layer.empty_cache(len(X), 1), layer(X)
    for position in range(X.shape[1]):
        output, cache = layer.step(X[:, position], layer.prepare(), cache)
        assert_close(output, whole[:, position], 1e-5)


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


needs_int8 = pytest.mark.skipif(
    not sums_are_exact_here(), reason="this processor has no int8 products (avx512_vnni, avx_vnni)"
)


def relative_error(result: Any, expected: Any) -> float:
    return float(np.linalg.norm(result - expected) / np.linalg.norm(expected))


@needs_int8
def test_a_product_is_exact_where_nothing_is_rounded() -> None:
    generator = np.random.default_rng(0)
    kernel = generator.integers(-127, 128, [40, 30]).astype(np.float32)
    kernel[0] = 127
    x = generator.integers(-127, 128, [5, 40]).astype(np.float32)
    x[:, 0] = -127
    product = int8_product(tf.constant(x), Int8Kernel.of(kernel))
    np.testing.assert_allclose(product, x @ kernel, rtol=1e-5, atol=1e-3)


@needs_int8
def test_rows_and_columns_have_scales_of_their_own() -> None:
    generator = np.random.default_rng(1)
    kernel = generator.normal(size=[64, 48]) * np.exp(3 * generator.normal(size=48))
    x = generator.normal(1.0, 1.0, [9, 64]) * np.exp(3 * generator.normal(size=[9, 1]))
    product = int8_product(tf.constant(x, tf.float32), Int8Kernel.of(kernel.astype(np.float32)))
    expected = x @ kernel
    for row in range(9):
        for column in range(48):
            bound = 0.03 * np.linalg.norm(x[row]) * np.linalg.norm(kernel[:, column])
            assert abs(product[row, column] - expected[row, column]) < bound


@needs_int8
def test_large_kernels_of_a_structure_are_rounded_and_small_ones_stay() -> None:
    large, small = tf.random.normal([64, 64], seed=1), tf.random.normal([64, 2], seed=2)
    weights = {"blocks": [{"kernel": large, "bias": tf.ones([64])}], "halting": {"kernel": small}}
    rounded = with_int8_kernels(weights, least_size=64 * 64)
    assert isinstance(rounded["blocks"][0]["kernel"], Int8Kernel)
    assert rounded["halting"]["kernel"] is small
    x = tf.random.normal([7, 64], seed=3)
    result = tf.function(lambda x: affine(x, rounded["blocks"][0]), autograph=False)(x)
    assert 0 < relative_error(result, affine(x, weights["blocks"][0])) < 0.02
