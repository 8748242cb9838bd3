"""Matrix products in int8, for decoding on processors that have them.

::

    kernel = Int8Kernel.of(weights)      # numpy [inputs, units], float32
    y = int8_product(x, kernel)          # [rows, inputs] -> [rows, units]

A kernel is rounded to 255 levels per column, once; x to 255 levels per row, at every product. The
sums are exact, in int32. TensorFlow packs a constant kernel once for all products: its levels must
become a constant in the graph where the product is, so they are numpy arrays until then.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

_LEVELS = 127
# x is shifted to 1 .. 255: the product takes unsigned values.
_SHIFT = 128
# Smaller kernels take as long in float32: rounding x costs what the product saves.
_LEAST_SIZE = 2**17
# Of the matrices that show whether sums are exact.
_CHECK_SIZE = 64


class Int8Kernel(NamedTuple):
    """A kernel rounded to int8.

    Fields:
      levels: int8 [inputs, units].
      scale: float32 [units]; levels * scale is the kernel.
      shift: float32 [units], what the shift of x adds to the products, negative.
    """

    levels: npt.NDArray[np.int8]
    scale: npt.NDArray[np.float32]
    shift: npt.NDArray[np.float32]

    @classmethod
    def of(cls, kernel: npt.NDArray[np.float32]) -> "Int8Kernel":
        """The nearest one to a kernel [inputs, units]."""
        scale = np.abs(kernel).max(0) / _LEVELS
        levels = np.rint(kernel / np.where(scale > 0, scale, 1)).astype(np.int8)
        shift = -_SHIFT * levels.sum(0, dtype=np.float32)
        return cls(levels, scale.astype(np.float32), shift)


def int8_product(x: Any, kernel: Int8Kernel) -> Any:
    """x · kernel, [rows, inputs] -> [rows, units], in x's dtype."""
    rows = tf.cast(x, tf.float32)
    scale = tf.reduce_max(tf.abs(rows), -1, keepdims=True) / _LEVELS
    levels = tf.round(rows / tf.maximum(scale, np.finfo(np.float32).tiny)) + _SHIFT
    product = _product(levels, kernel.levels, kernel.shift)
    return tf.cast(product * (scale * tf.constant(kernel.scale)), x.dtype)


def has_exact_sums() -> Any:
    """Whether the processor that runs this adds up int8 products in int32, bool []. Others may add
    pairs of them in 16 bits, in which large values are cut off. Where TensorFlow does without
    oneDNN, as it does by default on processors with AVX2 alone, there are no sums at all: false if
    called eagerly, an error of TensorFlow in a graph.
    """
    largest = np.full([_CHECK_SIZE, _CHECK_SIZE], _LEVELS, np.int8)
    levels = tf.fill([_CHECK_SIZE, _CHECK_SIZE], 255.0)
    sums = _product(levels, largest, np.zeros([_CHECK_SIZE], np.float32))
    exact = tf.reduce_sum(tf.cast(sums == float(_CHECK_SIZE * 255 * _LEVELS), tf.int32))
    return exact == _CHECK_SIZE**2


def _product(levels: Any, kernel: Any, shift: Any) -> Any:
    """levels · kernel + shift, float32 [rows, units], of whole numbers 0 .. 255 [rows, inputs] and
    int8 [inputs, units].
    """
    return tf.raw_ops.QuantizedMatMulWithBiasAndDequantize(
        a=tf.bitcast(tf.cast(levels, tf.uint8), tf.quint8),
        b=tf.bitcast(tf.constant(kernel), tf.qint8),
        bias=tf.constant(shift),
        # These ranges make one level one unit.
        min_a=0.0,
        max_a=255.0,
        min_b=-127.0,
        max_b=127.0,
        min_freezed_output=0.0,
        max_freezed_output=0.0,
        Toutput=tf.float32,
        input_quant_mode="SCALED",
    )


def with_int8_kernels(weights: Any, least_size: int = _LEAST_SIZE) -> Any:
    """A structure of eager weights, as ``prepare`` makes them, with each matrix named "kernel" as
    Int8Kernel if it has at least `least_size` elements.
    """
    if isinstance(weights, list | tuple):
        return type(weights)(with_int8_kernels(part, least_size) for part in weights)
    if not isinstance(weights, dict):
        return weights
    return {
        name: _rounded(part, least_size)
        if name == "kernel" and tf.is_tensor(part)
        else with_int8_kernels(part, least_size)
        for name, part in weights.items()
    }


def _rounded(kernel: Any, least_size: int) -> Any:
    if kernel.shape.rank != 2 or kernel.shape.num_elements() < least_size:
        return kernel
    return Int8Kernel.of(tf.cast(kernel, tf.float32).numpy())
