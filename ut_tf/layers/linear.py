"""The affine map of the last axis, as one flat matrix product."""

from typing import Any

import keras
import tensorflow as tf

from ut_tf.keras_backend import check_backend
from ut_tf.layers.int8 import Int8Kernel, int8_product

# Every model imports this module, whichever way a program reaches it.
check_backend()

KERNEL_INITIALIZERS = {
    "zeros": keras.initializers.Zeros,
    "glorot": lambda: keras.initializers.GlorotUniform(),
    # Uniform with variance 1 / fan_in, tensor2tensor's uniform_unit_scaling with gain 1.
    "unit_scaling": lambda: keras.initializers.VarianceScaling(
        scale=1.0, mode="fan_in", distribution="uniform"
    ),
}


def kernel_initializer(name: str) -> Any:
    """A fresh Keras initializer for "glorot" or "unit_scaling" (each takes its seed from the
    run's).
    """
    return KERNEL_INITIALIZERS[name]()


def matmul(x: Any, kernel: Any) -> Any:
    """Returns x · kernel over the last axis, in x's dtype: x [..., inputs], kernel [inputs, units]
    -> [..., units].

    One flat product is faster on a CPU than a batched one with a broadcast kernel.
    """
    rows = flatten(x)
    if isinstance(kernel, Int8Kernel):
        return unflatten(int8_product(rows, kernel), x)
    return unflatten(tf.matmul(rows, tf.cast(kernel, x.dtype)), x)


def flatten(x: Any) -> Any:
    """Returns x [..., width] as [rows, width]."""
    return x if x.shape.rank == 2 else tf.reshape(x, [-1, x.shape[-1]])


def unflatten(flat: Any, like: Any) -> Any:
    """Returns flat [rows, width] with all dimensions but the last of `like`, whose rows they are:
    [..., width].
    """
    if like.shape.rank == 2:
        return flat
    result = tf.reshape(flat, tf.concat([tf.shape(like)[:-1], [flat.shape[-1]]], 0))
    result.set_shape(like.shape[:-1].concatenate(flat.shape[-1]))
    return result


def leading_sizes(x: Any, count: int) -> list[Any]:
    """Returns the sizes of x's first `count` dimensions: numbers where they are known, otherwise
    int32 [].
    """
    if x.shape[:count].is_fully_defined():
        return list(x.shape[:count])
    # One operation for all of them, where a slice for each would make four.
    return list(tf.unstack(tf.shape(x))[:count])


def scaled(weight: Any, factor: float, dtype: Any) -> Any:
    """Returns factor * weight in the given dtype, multiplied in the weight's own."""
    value = tf.convert_to_tensor(weight)
    return tf.cast(value if factor == 1.0 else value * factor, dtype)


def affine(x: Any, weights: dict[str, Any]) -> Any:
    """Returns x · kernel + bias, in the weights' dtype: x [rows, inputs] -> [rows, units];
    `weights` from ``Linear.prepare``, or with the kernel as Int8Kernel.
    """
    kernel = weights["kernel"]
    if isinstance(kernel, Int8Kernel):
        y = int8_product(x, kernel)
    else:
        y = tf.matmul(tf.cast(x, kernel.dtype), kernel)
    return tf.nn.bias_add(y, weights["bias"]) if "bias" in weights else y


@keras.saving.register_keras_serializable("ut_tf")
class Linear(keras.layers.Layer):  # type: ignore[misc]
    """y = output_scale * (input_scale * x · kernel + bias).

    Args:
      units: width of the output.
      use_bias: whether a bias is added.
      kernel_init: "glorot" or "unit_scaling".
      bias_init: initial value of every bias.

    Call arguments:
      x: [..., inputs], any float dtype; computed in the layer's compute dtype.
      input_scale, output_scale: constant factors (of a dropout before or after); they cost a pass
        over the kernel, not over x or y.

    Returns:
      [..., units] in the compute dtype.
    """

    def __init__(
        self,
        units: int,
        use_bias: bool = True,
        kernel_init: str = "glorot",
        bias_init: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.units = units
        self.use_bias = use_bias
        self.kernel_init = kernel_init
        self.bias_init = bias_init

    def build(self, input_shape: Any) -> None:
        self.kernel = self.add_weight(
            shape=(input_shape[-1], self.units),
            initializer=kernel_initializer(self.kernel_init),
            name="kernel",
            autocast=False,
        )
        constant = keras.initializers.Constant(self.bias_init)
        self.bias = (
            self.add_weight(shape=(self.units,), initializer=constant, name="bias", autocast=False)
            if self.use_bias
            else None
        )

    def call(self, x: Any, input_scale: float = 1.0, output_scale: float = 1.0) -> Any:
        x = tf.cast(x, self.compute_dtype)
        y = tf.matmul(flatten(x), scaled(self.kernel, input_scale * output_scale, x.dtype))
        if self.bias is not None:
            # Next to the product, TensorFlow makes one kernel of the two (and of a ReLU that
            # follows directly).
            y = tf.nn.bias_add(y, scaled(self.bias, output_scale, x.dtype))
        return unflatten(y, x)

    def prepare(self) -> dict[str, Any]:
        """The weights for ``affine`` in the compute dtype, so that a loop reads and casts them
        once.
        """
        weights = {"kernel": scaled(self.kernel, 1.0, self.compute_dtype)}
        if self.bias is None:
            return weights
        return {**weights, "bias": scaled(self.bias, 1.0, self.compute_dtype)}

    def compute_output_shape(self, input_shape: Any) -> Any:
        return (*input_shape[:-1], self.units)
