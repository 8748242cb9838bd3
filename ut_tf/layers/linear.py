"""The affine map of the last axis, as one flat matrix product."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

KERNEL_INITIALIZERS = {
    "glorot": lambda: keras.initializers.GlorotUniform(),
    # Uniform with variance 1 / fan_in, tensor2tensor's uniform_unit_scaling with gain 1.
    "unit_scaling": lambda: keras.initializers.VarianceScaling(scale=1.0, mode="fan_in", distribution="uniform"),
}


def kernel_initializer(name: str) -> Any:
    """Returns a fresh Keras initializer for "glorot" or "unit_scaling" (each takes its seed from the run's)."""
    return KERNEL_INITIALIZERS[name]()


def matmul(x: Any, kernel: Any) -> Any:
    """Returns x · kernel over the last axis, in x's dtype: x [..., inputs], kernel [inputs, units] -> [..., units].

    One flat product is faster on a CPU than a batched one with a broadcast kernel.
    """
    kernel = tf.cast(kernel, x.dtype)
    flat = tf.matmul(tf.reshape(x, [-1, kernel.shape[0]]), kernel)
    result = tf.reshape(flat, tf.concat([tf.shape(x)[:-1], [kernel.shape[-1]]], 0))
    result.set_shape(x.shape[:-1].concatenate(kernel.shape[-1]))
    return result


@keras.saving.register_keras_serializable("ut_tf")
class Linear(keras.layers.Layer):  # type: ignore[misc]
    """y = x · kernel + bias.

    Args:
      units: width of the output.
      use_bias: whether a bias is added.
      kernel_init: "glorot" or "unit_scaling".
      bias_init: initial value of every bias.

    Call arguments:
      x: [..., inputs], any float dtype; computed in the layer's compute dtype.

    Returns:
      [..., units] in the compute dtype.
    """

    def __init__(self, units: int, use_bias: bool = True, kernel_init: str = "glorot", bias_init: float = 0.0, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.units = units
        self.use_bias = use_bias
        self.kernel_init = kernel_init
        self.bias_init = bias_init

    def build(self, input_shape: Any) -> None:
        self.kernel = self.add_weight(
            shape=(input_shape[-1], self.units), initializer=kernel_initializer(self.kernel_init), name="kernel", autocast=False
        )
        constant = keras.initializers.Constant(self.bias_init)
        self.bias = self.add_weight(shape=(self.units,), initializer=constant, name="bias", autocast=False) if self.use_bias else None

    def call(self, x: Any) -> Any:
        y = matmul(tf.cast(x, self.compute_dtype), tf.convert_to_tensor(self.kernel))
        return y if self.bias is None else y + tf.cast(self.bias, y.dtype)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return (*input_shape[:-1], self.units)

    def get_config(self) -> dict[str, Any]:
        own = {"units": self.units, "use_bias": self.use_bias, "kernel_init": self.kernel_init, "bias_init": self.bias_init}
        return {**super().get_config(), **own}
