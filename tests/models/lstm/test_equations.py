"""LSTM layers: gates by hand, Keras' own cell, directions, and attention decoders against a
reference in numpy.
"""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from ut_tf.models.interfaces import Encoded
from ut_tf.models.lstm.attention import BahdanauAttention, LuongAttention
from ut_tf.models.lstm.decoder import LSTMDecoder
from ut_tf.models.lstm.encoder import LSTMEncoder
from ut_tf.models.lstm.stack import LSTMStack, joined_weights, lstm_step

WIDTH = 4
SIZES: dict[str, Any] = {"hidden_size": WIDTH, "num_layers": 2}


def floats(*shape: int, seed: int = 0) -> Any:
    return tf.constant(np.random.default_rng(seed).normal(size=shape), tf.float32)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def reference_step(x: Any, h: Any, c: Any, weights: dict[str, Any]) -> tuple[Any, Any]:
    gates = np.concatenate([x, h], -1) @ weights["kernel"].numpy() + weights["bias"].numpy()
    i, f, g, o = np.split(gates, 4, -1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def softmax(scores: Any) -> Any:
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def test_a_step_is_that_of_keras_cell() -> None:
    cell = keras.layers.LSTMCell(WIDTH, bias_initializer="normal")
    cell.build((None, 3))
    x, h, c = floats(2, 3), floats(2, WIDTH, seed=1), floats(2, WIDTH, seed=2)
    _, (expected_h, expected_c) = cell(x, [h, c])
    got_h, got_c = lstm_step(x, (h, c), joined_weights(cell, tf.float32))
    assert_close(got_h, expected_h, 1e-6)
    assert_close(got_c, expected_c, 1e-6)


@pytest.mark.parametrize("direction", ["forward", "backward", "both"])
def test_directions_and_padding(direction: str) -> None:
    """Every layer is run by hand over the three symbols; padding behind them does not matter."""
    encoder, x = LSTMEncoder(**SIZES, direction=direction), floats(1, 5, WIDTH)
    encoded = encoder(x, tf.constant([[1.0, 1.0, 1.0, 0.0, 0.0]]))
    states = x[:, :3].numpy()
    for number in range(2):
        parts, ends = [], []
        for lstm in encoder.stack.layer(number):
            weights, order = (
                joined_weights(lstm.cell, tf.float32),
                slice(None, None, -1 if lstm.go_backwards else 1),
            )
            h = c = np.zeros((1, lstm.units), np.float32)
            outputs = []
            for symbol in states.swapaxes(0, 1)[order]:
                h, c = reference_step(symbol, h, c, weights)
                outputs.append(h)
            parts.append(np.stack(outputs[order], 1))
            ends.append((h, c))
        states = np.concatenate(parts, -1)
        for got, expected in zip(encoded.extra[number], zip(*ends, strict=True), strict=True):
            assert_close(got, np.concatenate(expected, -1), 1e-5)
    assert_close(encoded.states[:, :3], states, 1e-5)
    assert_close(encoded.summary, encoded.extra[-1][0], 1e-6)


def _decoder(form: str, seed: int = 3) -> LSTMDecoder:
    keras.utils.set_random_seed(seed)
    decoder = LSTMDecoder(**SIZES, attention=form)
    decoder.build((None, None, WIDTH))
    return decoder


def _encoded() -> Encoded:
    final = [
        (floats(2, WIDTH, seed=5 + layer), floats(2, WIDTH, seed=7 + layer)) for layer in range(2)
    ]
    return Encoded(
        floats(2, 3, WIDTH, seed=4),
        tf.constant([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]),
        final[-1][0],
        final,
    )


def test_bahdanau_s_decoder_against_a_reference() -> None:
    """The state before asks, the context goes into the first layer beside the symbol."""
    decoder, encoded, inputs = _decoder("bahdanau"), _encoded(), floats(2, 4, WIDTH)
    got, (attention,) = decoder(inputs, memory=decoder.read(encoded))
    assert decoder.first is not None and decoder.combine is not None
    alignment, cells = decoder.first.alignment, [decoder.first.cell, decoder.stack.forward_0.cell]
    values, keys = encoded.states.numpy(), encoded.states.numpy() @ alignment.key.kernel.numpy()
    carried = [tuple(one.numpy() for one in layer) for layer in encoded.extra]
    for position in range(4):
        asked = carried[0][0] @ alignment.query.kernel.numpy()
        scores = np.tanh(asked[:, None] + keys) @ alignment.score.numpy()
        weights = softmax(np.where(encoded.mask.numpy() > 0, scores, -1e9))
        context = np.einsum("bl,bld->bd", weights, values)
        x = np.concatenate([inputs[:, position], context], -1)
        for number, cell in enumerate(cells):
            carried[number] = reference_step(x, *carried[number], joined_weights(cell, tf.float32))
            x = carried[number][0]
        expected = np.tanh(np.concatenate([context, x], -1) @ decoder.combine.kernel.numpy())
        assert_close(got[:, position], expected, 1e-5)
        assert_close(attention[:, position], weights, 1e-5)


def test_luong_s_decoder_against_a_reference() -> None:
    """The top layer's state asks, and the context is not fed back."""
    decoder, encoded, inputs = _decoder("luong"), _encoded(), floats(2, 4, WIDTH)
    got, (attention,) = decoder(inputs, memory=decoder.read(encoded))
    assert decoder.alignment is not None and decoder.combine is not None
    states, _ = decoder.stack(inputs, initial=encoded.extra)
    scores = np.einsum(
        "bnd,de,ble->bnl", states, decoder.alignment.key.kernel.numpy().T, encoded.states
    )
    weights = softmax(np.where(encoded.mask.numpy()[:, None] > 0, scores, -1e9))
    contexts = np.einsum("bnl,bld->bnd", weights, encoded.states)
    assert_close(attention, weights, 1e-5)
    expected = np.tanh(np.concatenate([contexts, states], -1) @ decoder.combine.kernel.numpy())
    assert_close(got, expected, 1e-5)


def test_without_attention_the_final_states_of_the_encoder_are_the_first_of_the_decoder() -> None:
    decoder, encoded, inputs = _decoder("none"), _encoded(), floats(2, 1, WIDTH)
    got, attention = decoder(inputs, memory=decoder.read(encoded))
    x = inputs[:, 0].numpy()
    for number, carried in enumerate(encoded.extra):
        cell = getattr(decoder.stack, f"forward_{number}").cell
        x, _ = reference_step(
            x, *(one.numpy() for one in carried), joined_weights(cell, tf.float32)
        )
    assert_close(got[:, 0], x, 1e-5)
    assert attention == []


def test_dropout_lies_between_layers_and_behind_the_last() -> None:
    keras.utils.set_random_seed(0)
    stack = LSTMStack(**SIZES, dropout=0.5)
    states, final = stack(floats(2, 8, WIDTH), training=True)
    assert 0.2 < np.mean(states.numpy() == 0) < 0.8
    assert not np.any(final[0][0].numpy() == 0) and not np.any(final[1][0].numpy() == 0)


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
