"""Dropout, layer norm, embedders, transitions: hand-computed values and what must not change."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from tests.training.toy import mirrored
from ut_tf.errors import UserError
from ut_tf.layers.board_conv import BoardConvTransition, SeparableBoardConv
from ut_tf.layers.custom_gradient import custom_gradient
from ut_tf.layers.dropout import Dropout, keep_mask, keep_probability, replica_seed
from ut_tf.layers.embedding import TokenEmbedding
from ut_tf.layers.fact_embedding import FactEmbedding
from ut_tf.layers.linear import Linear
from ut_tf.layers.normalization import LayerNorm
from ut_tf.layers.transition import SeparableConv
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5])
def test_dropout_keeps_the_mean_and_drops_its_share(rate: float) -> None:
    dropped = Dropout(rate, seed=1)(tf.ones([400, 500]), training=True).numpy()
    assert (dropped == 0).mean() == pytest.approx(rate, abs=0.004)
    assert dropped.mean() == pytest.approx(1.0, abs=0.01)
    assert len(np.unique(dropped)) == 2


def test_dropout_draws_anew_and_repeats_from_its_seed() -> None:
    first, second = Dropout(0.5, seed=1), Dropout(0.5, seed=1)
    draws = [
        layer(tf.ones([50]), training=True).numpy() for layer in (first, first, second, second)
    ]
    assert (draws[0] != draws[1]).any()
    np.testing.assert_array_equal(draws[:2], draws[2:])


def test_layer_norm_and_its_gradient_equal_keras() -> None:
    x = tf.constant(np.random.default_rng(0).normal(2.0, 3.0, (4, 5, 8)), tf.float32)
    ours, theirs = LayerNorm(epsilon=1e-3), keras.layers.LayerNormalization(epsilon=1e-3)
    for layer in (ours, theirs):
        layer.build(x.shape)
        layer.set_weights([np.linspace(0.5, 2, 8), np.linspace(-1, 1, 8)])
    results = []
    for layer in (ours, theirs):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x)
            loss = tf.reduce_sum(tf.sin(y))
        results.append(
            [y, *tape.gradient(loss, [x, *[v.value for v in layer.trainable_variables]])]
        )
    for one, other in zip(*results, strict=True):
        assert_close(one, other, 2e-4)


def test_a_fact_is_the_sum_of_masked_words_and_the_question_has_its_own_mask() -> None:
    embedding = FactEmbedding(5, 2, hidden_size=2, scale="none")
    embedding.build((None, None))
    table = np.arange(10.0).reshape(5, 2)
    masks = np.array([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]])
    embedding.set_weights([table, masks])
    ids = tf.constant([[[2, 3], [4, 0], [0, 0]]])
    states = embedding(ids).numpy()[0]
    assert_close(states[0], table[2] * masks[0, 0] + table[3] * masks[0, 1], 1e-6)
    assert_close(states[1], table[4] * masks[1, 0], 1e-6)
    assert_close(states[2], [0.0, 0.0], 1e-6)
    assert embedding.mask(ids).numpy().tolist() == [[1.0, 1.0, 0.0]]


def test_facts_of_fewer_words_are_padded_and_of_more_are_cut() -> None:
    embedding = FactEmbedding(9, 3, hidden_size=4, mask_stddev=1.0)
    embedding.build((None, None))
    ids = np.array([[[2, 3, 4, 5], [6, 7, 8, 2]]])
    graph = tf.function(embedding, input_signature=[tf.TensorSpec([None, None, None], tf.int32)])
    assert_close(graph(ids), embedding(tf.constant(ids[..., :3])), 1e-6)
    assert_close(graph(ids[..., :1]), embedding(tf.constant(ids[..., :1] * [[[1, 0, 0]]])), 1e-6)


def test_padding_embeds_to_zeros_and_logits_share_the_table() -> None:
    embedding = TokenEmbedding(4, hidden_size=2)
    embedding.build((None, None))
    states = embedding(tf.constant([[3, 0]])).numpy()
    np.testing.assert_allclose(states[0, 0], embedding.table.numpy()[3] * np.sqrt(2), rtol=1e-6)
    assert states[0, 1].tolist() == [0.0, 0.0]
    np.testing.assert_allclose(
        embedding.logits(tf.constant([[[1.0, 2.0]]]))[0, 0],
        embedding.table.numpy() @ [1.0, 2.0],
        rtol=1e-5,
    )


@pytest.mark.parametrize("causal", [True, False])
def test_separable_convolution_equals_keras(causal: bool) -> None:
    x = tf.constant(np.random.default_rng(0).normal(size=(2, 6, 4)), tf.float32)
    ours = SeparableConv(3, 5, causal)
    padding = (4, 0) if causal else (2, 2)
    theirs = keras.Sequential(
        [keras.layers.ZeroPadding1D(padding), keras.layers.SeparableConv1D(3, 5)]
    )
    ours.build(x.shape)
    theirs.build(x.shape)
    depthwise, pointwise, bias = (
        ours.depthwise_kernel.numpy(),
        ours.pointwise.kernel.numpy(),
        np.array([0.1, 0.2, 0.3]),
    )
    ours.pointwise.bias.assign(bias)
    theirs.set_weights([depthwise[:, :, None], pointwise[None], bias])
    assert_close(ours(x), theirs(x), 1e-5)


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


@pytest.mark.parametrize(("rate", "graph"), [(0.1, True), (0.5, False), (0.01, False)])
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


@custom_gradient
def tripled(x: Any) -> Any:
    """x squared, with a gradient of three times that of the square."""
    return x * x, lambda upstream: 6.0 * x * upstream


def looped(x: Any) -> Any:
    """The sum of two calls, in a loop."""
    steps = tf.while_loop(
        lambda step, _: step < 2, lambda step, total: (step + 1, total + tripled(x)), (0, x * 0.0)
    )
    return tf.reduce_sum(steps[1])


def with_gradient(x: Any) -> tuple[Any, Any]:
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = looped(x)
    return value, tape.gradient(value, x)


def test_a_graph_computes_it_and_is_freed() -> None:
    function = tf.function(with_gradient, autograph=False)
    value, gradient = function(tf.constant([3.0]))
    assert (float(value), gradient.numpy().tolist()) == (18.0, [36.0])
    graph = weakref.ref(function.get_concrete_function(tf.constant([3.0])).graph)
    del function
    gc.collect()
    assert graph() is None


def test_a_saved_model_keeps_the_gradient(tmp_path: Path) -> None:
    module = tf.Module()
    signature = [tf.TensorSpec([None])]
    module.value = tf.function(looped, input_signature=signature, autograph=False)
    tf.saved_model.save(module, str(tmp_path))
    del module
    gc.collect()
    loaded, x = tf.saved_model.load(str(tmp_path)), tf.constant([3.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = loaded.value(x)
    np.testing.assert_array_equal(tape.gradient(value, x), [36.0])
