"""Convolution over positions as one matrix product: dilated or not, causal or not, and one position
at a time.

An output sees kernel_size positions that are `dilation` apart: if causal its own and earlier ones,
else as many on either side. Their channels are concatenated and multiplied by a kernel [kernel_size
* channels, units]: TensorFlow's own dilated convolution has no gradient on a CPU.
"""

from typing import Any

import keras
import tensorflow as tf

from ut_tf.layers.linear import kernel_initializer, matmul


def gated(x: Any) -> Any:
    """The gated linear unit (arXiv 1612.08083): x = [a, b], [..., 2 * units] -> a * σ(b), [...,
    units].
    """
    values, gates = tf.split(x, 2, -1)
    return values * tf.sigmoid(gates)


def masked(x: Any, padding_mask: Any) -> Any:
    """Sets x [batch, length, channels] to zero where `padding_mask` [batch, length] is 0; None:
    nowhere.
    """
    return x if padding_mask is None else x * tf.cast(padding_mask, x.dtype)[..., None]


@keras.saving.register_keras_serializable("ut_tf")
class Convolution(keras.layers.Layer):  # type: ignore[misc]
    """A convolution over positions, with a bias.

    Args:
      units: width of the output.
      kernel_size: positions that an output sees.
      dilation: distance between these.
      causal: whether an output sees no later position.
      kernel_init: "glorot" or "unit_scaling".
      gain: variance of the outputs for inputs of variance 1, with normally distributed initial
        kernels; None: as kernel_init says.

    Call arguments:
      x: [batch, length, channels] -> [batch, length, units].
      padding_mask: float32 [batch, length], 0 on padding, which is seen as zeros; None: nothing is
        padding.
    """

    def __init__(
        self,
        units: int,
        kernel_size: int,
        dilation: int = 1,
        causal: bool = True,
        kernel_init: str = "glorot",
        gain: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.units = units
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.causal = causal
        self.kernel_init = kernel_init
        self.gain = gain
        self.reach = (kernel_size - 1) * dilation

    def build(self, input_shape: Any) -> None:
        initializer = kernel_initializer(self.kernel_init)
        if self.gain is not None:
            initializer = keras.initializers.VarianceScaling(
                self.gain, "fan_in", "untruncated_normal"
            )
        shape = (self.kernel_size * input_shape[-1], self.units)
        self.kernel = self.add_weight(
            shape=shape, initializer=initializer, name="kernel", autocast=False
        )
        self.bias = self.add_weight(
            shape=(self.units,), initializer="zeros", name="bias", autocast=False
        )

    def call(self, x: Any, padding_mask: Any = None) -> Any:
        x = masked(tf.cast(x, self.compute_dtype), padding_mask)
        length, channels = tf.shape(x)[1], x.shape[-1]
        before = self.reach if self.causal else self.reach // 2
        padded = tf.pad(x, [[0, 0], [before, self.reach - before], [0, 0]])
        seen = [
            padded[:, first : first + length] for first in range(0, self.reach + 1, self.dilation)
        ]
        window = tf.ensure_shape(tf.concat(seen, -1), [None, None, self.kernel_size * channels])
        return matmul(window, self.kernel) + tf.cast(self.bias, x.dtype)

    def prepare(self) -> dict[str, Any]:
        """The weights for ``step``."""
        return {
            name: tf.cast(getattr(self, name), self.compute_dtype) for name in ("kernel", "bias")
        }

    def start(self, batch_size: Any, beam_size: int, channels: int) -> Any:
        """The inputs before the first position: zeros [batch, beam_size, reach, channels]."""
        return tf.zeros(tf.stack([batch_size, beam_size, self.reach, channels]), self.compute_dtype)

    def step(self, x: Any, weights: dict[str, Any], earlier: Any) -> tuple[Any, Any]:
        """Computes the newest position of a causal convolution.

        Args:
          x: [batch, n, channels].
          weights: from ``prepare``.
          earlier: [batch, n, reach, channels], the positions before it.

        Returns:
          (output [batch, n, units], the positions before the next one).
        """
        window = tf.concat([earlier, tf.cast(x, earlier.dtype)[:, :, None]], 2)
        shape = tf.concat([tf.shape(x)[:2], [self.kernel_size * x.shape[-1]]], 0)
        seen = tf.ensure_shape(
            tf.reshape(window[:, :, :: self.dilation], shape),
            [None, None, self.kernel_size * x.shape[-1]],
        )
        return matmul(seen, weights["kernel"]) + weights["bias"], window[:, :, 1:]
