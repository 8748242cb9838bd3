"""Normalization of states in float32: layer norms, with a gradient written by hand to save passes
over memory, and root mean squares.
"""

from typing import Any

import keras
import tensorflow as tf

from ut_tf.layers.custom_gradient import custom_gradient


@custom_gradient
def normalize(x: Any, scale: Any, bias: Any, epsilon: Any) -> Any:
    """Returns (x - mean) / sqrt(variance + epsilon) * scale + bias over the last axis.

    Args:
      x: float32 [..., hidden_size].
      scale: float32 [hidden_size].
      bias: float32 [hidden_size].
      epsilon: float32 [].
    """
    normal, inverse = _normal(x, epsilon)

    def gradient(upstream: Any) -> tuple[Any, Any, Any, None]:
        axes = list(range(x.shape.rank - 1))
        product = upstream * normal
        scaled = upstream * scale
        projection = tf.reduce_mean(product * scale, -1, keepdims=True)
        grad_x = inverse * (
            scaled - tf.reduce_mean(scaled, -1, keepdims=True) - normal * projection
        )
        return grad_x, tf.reduce_sum(product, axes), tf.reduce_sum(upstream, axes), None

    return normal * scale + bias, gradient


def _normal(x: Any, epsilon: Any) -> tuple[Any, Any]:
    """Returns x with mean 0 and variance 1 over the last axis, and the factor that it took."""
    centered = x - tf.reduce_mean(x, -1, keepdims=True)
    inverse = tf.math.rsqrt(tf.reduce_mean(tf.square(centered), -1, keepdims=True) + epsilon)
    return centered * inverse, inverse


@keras.saving.register_keras_serializable("ut_tf")
class LayerNorm(keras.layers.Layer):  # type: ignore[misc]
    """Layer normalization over the last axis, computed in float32 whatever the compute dtype.

    Args:
      epsilon: added to the variance.

    Call arguments:
      x: [..., hidden_size], any float dtype.

    Returns:
      [..., hidden_size] in the layer's compute dtype.
    """

    def __init__(self, epsilon: float = 1e-6, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.epsilon = epsilon

    def build(self, input_shape: Any) -> None:
        self.scale = self.add_weight(
            shape=(input_shape[-1],), initializer="ones", name="scale", autocast=False
        )
        self.bias = self.add_weight(
            shape=(input_shape[-1],), initializer="zeros", name="bias", autocast=False
        )

    def call(self, x: Any) -> Any:
        scale, bias = tf.convert_to_tensor(self.scale), tf.convert_to_tensor(self.bias)
        y = normalize(tf.cast(x, tf.float32), scale, bias, tf.constant(self.epsilon, tf.float32))
        return tf.cast(y, self.compute_dtype)

    def prepare(self) -> dict[str, Any]:
        """The weights for ``step``."""
        return {"scale": tf.convert_to_tensor(self.scale), "bias": tf.convert_to_tensor(self.bias)}

    def step(self, x: Any, weights: dict[str, Any]) -> Any:
        """The call on x [rows, width], without a gradient of its own."""
        normal, _ = _normal(tf.cast(x, tf.float32), tf.constant(self.epsilon, tf.float32))
        return tf.cast(normal * weights["scale"] + weights["bias"], self.compute_dtype)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape


@keras.saving.register_keras_serializable("ut_tf")
class RMSNorm(keras.layers.Layer):  # type: ignore[misc]
    """x / sqrt(mean(x^2) + epsilon) * scale over the last axis (arXiv 1910.07467), computed in
    float32 whatever the compute dtype.

    Args:
      epsilon: added to the mean of the squares.
      with_scale: whether there is a trained scale.

    Call arguments:
      x: [..., hidden_size], any float dtype.

    Returns:
      [..., hidden_size] in the layer's compute dtype.
    """

    def __init__(self, epsilon: float = 1e-6, with_scale: bool = True, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.epsilon = epsilon
        self.with_scale = with_scale

    def build(self, input_shape: Any) -> None:
        if self.with_scale:
            self.scale = self.add_weight(
                shape=(input_shape[-1],), initializer="ones", name="scale", autocast=False
            )

    def call(self, x: Any) -> Any:
        return self.step(x, self.prepare())

    def prepare(self) -> dict[str, Any]:
        """The weights for ``step``."""
        return {"scale": tf.convert_to_tensor(self.scale)} if self.with_scale else {}

    def step(self, x: Any, weights: dict[str, Any]) -> Any:
        """The call, with weights from ``prepare``."""
        x = tf.cast(x, tf.float32)
        epsilon = tf.constant(self.epsilon, tf.float32)
        normal = x * tf.math.rsqrt(tf.reduce_mean(tf.square(x), -1, keepdims=True) + epsilon)
        normal = normal * weights["scale"] if self.with_scale else normal
        return tf.cast(normal, self.compute_dtype)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape


def make_norm(norm_type: str, epsilon: float, **options: Any) -> LayerNorm | RMSNorm:
    """Returns the norm of a type: "layer", "rms", or "rms_plain", without a scale; options are name
    and dtype of the layer.
    """
    if norm_type == "layer":
        return LayerNorm(epsilon, **options)
    return RMSNorm(epsilon, norm_type == "rms", **options)
