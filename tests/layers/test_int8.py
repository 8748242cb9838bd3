"""Matrix products in int8."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ut_tf.inference.int8_decoder import sums_are_exact_here
from ut_tf.layers.int8 import Int8Kernel, int8_product, with_int8_kernels
from ut_tf.layers.linear import affine

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
def test_rows_and_columns_of_zeros() -> None:
    kernel = np.zeros([8, 4], np.float32)
    kernel[:, 1] = 1.0
    product = int8_product(tf.constant([[0.0] * 8, [2.0] * 8]), Int8Kernel.of(kernel)).numpy()
    np.testing.assert_allclose(product, [[0, 0, 0, 0], [0, 16, 0, 0]], rtol=1e-5)


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
