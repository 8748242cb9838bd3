"""Dropout, layer norm, embedders, transitions: hand-computed values and what must not change."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from ut_tf.layers.dropout import Dropout
from ut_tf.layers.embedding import TokenEmbedding
from ut_tf.layers.fact_embedding import FactEmbedding
from ut_tf.layers.normalization import LayerNorm
from ut_tf.layers.transition import SeparableConv


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


def test_replicas_drop_different_elements() -> None:
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        layer = Dropout(0.5, seed=1)
    one, other = strategy.experimental_local_results(
        strategy.run(lambda: layer(tf.ones([100]), training=True))
    )
    assert (one.numpy() != other.numpy()).any()


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
