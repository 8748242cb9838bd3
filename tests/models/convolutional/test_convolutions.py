"""Convolutions by hand: what a window sees, gates, ConvS2S' attention, ByteNet's residual blocks
and dynamic unfolding.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from ut_tf.models.convolutional.convolution import Convolution
from ut_tf.models.convolutional.dilated_block import DilatedBlock
from ut_tf.models.convolutional.dilated_convolutions import (
    DilatedDecoder,
)
from ut_tf.models.convolutional.gated_block import GatedBlock
from ut_tf.models.convolutional.gated_convolutions import GatedDecoder, divided_gradient
from ut_tf.models.interfaces import Encoded

HALF = math.sqrt(0.5)


def _summing(kernel_size: int, dilation: int, causal: bool) -> Convolution:
    """Returns a convolution of one channel that multiplies what it sees by 1, 10, 100 … from the
    first on.
    """
    convolution = Convolution(1, kernel_size, dilation, causal)
    convolution.build((None, None, 1))
    convolution.kernel.assign([[10.0**place] for place in range(kernel_size)])
    return convolution


@pytest.mark.parametrize(
    ("dilation", "causal", "expected"),
    [
        (1, True, [100, 210, 321, 432, 543]),
        (2, True, [100, 200, 310, 420, 531]),
        (1, False, [210, 321, 432, 543, 54]),
        (2, False, [310, 420, 531, 42, 53]),
    ],
)
def test_what_a_position_sees(dilation: int, causal: bool, expected: list[float]) -> None:
    x = tf.constant([[[1.0], [2.0], [3.0], [4.0], [5.0]]])
    assert _summing(3, dilation, causal)(x)[0, :, 0].numpy().tolist() == expected


def test_padding_is_seen_as_zeros() -> None:
    x, keep = tf.constant([[[1.0], [2.0], [3.0]]]), tf.constant([[1.0, 1.0, 0.0]])
    assert _summing(3, 1, causal=False)(x, keep)[0, :, 0].numpy().tolist() == [210, 21, 2]


@pytest.mark.parametrize("dilation", [1, 2, 4])
def test_one_position_at_a_time(dilation: int) -> None:
    convolution = Convolution(5, 3, dilation)
    x = tf.random.stateless_normal([2, 9, 4], [1, 2])
    whole, weights = convolution(x), convolution.prepare()
    earlier = convolution.start(2, 1, 4)
    for position in range(9):
        y, earlier = convolution.step(x[:, position : position + 1], weights, earlier)
        assert_close(y[:, 0], whole[:, position], 1e-5)


def test_a_decoder_s_block_by_hand() -> None:
    """Of width 2, with a convolution that gives y = [1, 0] anywhere: one position, two inputs, the
    second three times as near.
    """
    block = GatedBlock(hidden_size=2, kernel_size=1, causal=True, with_memory=True)
    block.build((None, None, 2))
    assert block.query is not None
    block.convolution.kernel.assign(tf.zeros([2, 4]))
    block.convolution.bias.assign([2.0, 0.0, 0.0, 0.0])
    block.query.kernel.assign([[1.0, 0.0], [0.0, 1.0]])
    block.query.bias.assign([0.0, 0.25])
    # The query is ([1, 0] + [0, 0.25] + g) √½ = [1, 1] √½.
    keys = np.array([[[0.0, 1.0], [1.0, math.log(3) / HALF]]], np.float32)
    values = np.array([[[4.0, 0.0], [0.0, 8.0]]], np.float32)
    memory = {"keys": tf.constant(keys), "values": tf.constant(values), "bias": tf.zeros([1, 2])}
    x, embedded = tf.constant([[[5.0, 7.0]]]), tf.constant([[[0.0, 0.75]]])
    states, attention = block(x, embedded=embedded, memory=memory)
    near = math.exp(HALF + math.log(3)) / (math.exp(HALF) + math.exp(HALF + math.log(3)))
    assert near == pytest.approx(0.75)
    assert_close(attention, [[[0.25, 0.75]]], 1e-6)
    y = np.array([(1.0 + 1.0) * HALF, (0.0 + 6.0) * HALF])
    assert_close(states[0, 0], (y + np.array([5.0, 7.0])) * HALF, 1e-5)


def test_what_convs2s_reads_of_the_inputs() -> None:
    """Keys z; values (z + e) √m, of m symbols that are not padding; z gets a share of the
    gradient.
    """
    decoder = GatedDecoder(hidden_size=2, num_layers=4, with_memory=True)
    z, e = tf.ones([1, 5, 2]), 2.0 * tf.ones([1, 5, 2])
    memory = decoder.read(Encoded(z, tf.constant([[1.0, 1.0, 1.0, 1.0, 0.0]]), extra=e))
    assert_close(memory["keys"], z, 1e-6)
    assert_close(memory["values"], 6.0 * np.ones([1, 5, 2]), 1e-6)
    with tf.GradientTape() as tape:
        tape.watch(z)
        total = tf.reduce_sum(divided_gradient(z, 4))
    assert_close(tape.gradient(total, z), 0.25 * np.ones([1, 5, 2]), 1e-6)


def test_a_residual_block_by_hand() -> None:
    """Width 4 within 2: every norm makes -1 and 1 of two unequal numbers, of which the ReLU leaves
    the greater.
    """
    block = DilatedBlock(hidden_size=4, kernel_size=3, dilation=1, causal=True)
    block.build((None, None, 4))
    # LN([0, 0, 2, 2]) = [-1, -1, 1, 1]; ReLU: [0, 0, 1, 1]; W1: [0, 2]; LN and ReLU: [0, 1].
    block.inner.kernel.assign([[9.0, 9.0], [9.0, 9.0], [0.0, 1.0], [0.0, 1.0]])
    # Of the three positions seen, the first counts 1, the second 10, the third 100: channel 0 of
    # the convolution.
    taps = np.zeros([3, 2, 2])
    taps[:, 1, 0] = [1.0, 10.0, 100.0]
    block.convolution.kernel.assign(taps.reshape(6, 2))
    # LN and ReLU of [1xx, 0]: [1, 0]; W2 gives [3, 4, 5, 6].
    block.outer.kernel.assign([[3.0, 4.0, 5.0, 6.0], [7.0, 7.0, 7.0, 7.0]])
    x = tf.constant([[[0.0, 0.0, 2.0, 2.0]] * 3])
    seen = block.convolution(
        tf.nn.relu(block.middle_norm(block.inner(tf.nn.relu(block.inner_norm(x)))))
    )
    np.testing.assert_allclose(seen[0], [[100.0, 0.0], [110.0, 0.0], [111.0, 0.0]], rtol=1e-5)
    np.testing.assert_allclose(block(x), x + np.array([3.0, 4.0, 5.0, 6.0]), rtol=1e-5)


@pytest.mark.parametrize("length", [2, 4])
def test_unfolding_reads_the_representation_beside_the_symbols(length: int) -> None:
    """Position t reads column t; behind the last one, nothing."""
    decoder = DilatedDecoder(hidden_size=2, num_layers=1, with_memory=True)
    decoder.build((None, None, 2))
    assert decoder.combine is not None
    decoder.combine.kernel.assign([[10.0, 0.0], [0.0, 10.0], [1.0, 0.0], [0.0, 1.0]])
    source, symbols = (
        np.array([[[1, 2], [3, 4], [5, 6]]], np.float32),
        np.arange(2 * length).reshape(1, length, 2).astype(np.float32),
    )
    memory = decoder.read(Encoded(tf.constant(source), tf.ones([1, 3])))
    below = symbols + 10.0 * np.pad(source, [(0, 0), (0, 1), (0, 0)])[:, :length]
    whole, _ = decoder(tf.constant(symbols), memory=memory)
    assert_close(whole, decoder.run(tf.constant(below), None, training=False), 1e-5)
    state, weights = decoder.start(memory, 1, 1), decoder.prepare()
    for index in range(length):
        got, state = decoder.step(
            tf.constant(symbols[:, index : index + 1]), tf.constant(index), weights, memory, state
        )
        assert_close(got[:, 0], whole[:, index], 1e-5)
