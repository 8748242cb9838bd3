"""Input injection: how the embedded inputs enter the state again at every step.

A recurrence that starts from its inputs and never sees them again may forget them; one that starts
from zeros or noise has to be given them. With z the state and e the embedded inputs, the block
reads::

    none       z
    add        z + e                               (TRM, arXiv 2510.04871)
    concat     A [z; e]                            (Huginn, arXiv 2502.05171)
    diagonal   exp(-Δ·a) ⊙ z + Δ ⊙ (B e)           (Parcae, arXiv 2604.12946)

One of your own subclasses ``InputInjection``, is registered with
``registry.register_input_injection`` and chosen by ``input_injection``.
"""

import math
from typing import Any

import keras
import tensorflow as tf

from ut_tf.layers.linear import matmul

# A state of which nothing new comes loses half of its square in a step.
_DECAY = math.sqrt(0.2)


class InputInjection(keras.layers.Layer):  # type: ignore[misc]
    """Base class of the input injections.

    Call arguments:
      state: [..., hidden_size].
      inputs: [..., hidden_size], embedded.

    Returns:
      [..., hidden_size] in the compute dtype, what the block reads.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)

    def call(self, state: Any, inputs: Any) -> Any:
        return self.injected(state, inputs, self.prepare())

    def prepare(self) -> dict[str, Any]:
        """Returns the weights for ``injected``, read and cast once; default: none."""
        return {}

    def injected(self, state: Any, inputs: Any, weights: dict[str, Any]) -> Any:
        """Computes the call with weights from ``prepare``."""
        raise NotImplementedError


def no_injection() -> None:
    """Stands for a block that reads the state alone."""


@keras.saving.register_keras_serializable("ut_tf")
class AddInjection(InputInjection):
    """z + e."""

    def injected(self, state: Any, inputs: Any, weights: dict[str, Any]) -> Any:
        return tf.cast(state, self.compute_dtype) + tf.cast(inputs, self.compute_dtype)


@keras.saving.register_keras_serializable("ut_tf")
class ConcatInjection(InputInjection):
    """A [z; e] with a kernel A, the state first (Huginn's adapter)."""

    def build(self, input_shape: Any) -> None:
        width = input_shape[-1]
        normal = keras.initializers.TruncatedNormal(stddev=math.sqrt(2 / (5 * width)))
        self.kernel = self.add_weight(
            shape=(2 * width, width), initializer=normal, name="kernel", autocast=False
        )

    def prepare(self) -> dict[str, Any]:
        return {"kernel": tf.cast(self.kernel, self.compute_dtype)}

    def injected(self, state: Any, inputs: Any, weights: dict[str, Any]) -> Any:
        joined = [tf.cast(state, self.compute_dtype), tf.cast(inputs, self.compute_dtype)]
        return matmul(tf.concat(joined, -1), weights["kernel"])


@keras.saving.register_keras_serializable("ut_tf")
class DiagonalInjection(InputInjection):
    """exp(-Δ·a) ⊙ z + Δ ⊙ (B e), with a = exp(a_log) and Δ = softplus(step_size) for each channel.

    The factor of the state is never above 1, whatever the weights. Weight decay leaves all three
    alone. It starts at √(1/5), with B the identity.
    """

    def build(self, input_shape: Any) -> None:
        width = input_shape[-1]
        start = math.log(math.expm1(-math.log(_DECAY)))
        for name, initializer in (("a_log", "zeros"), ("step_size", start)):
            if not isinstance(initializer, str):
                initializer = keras.initializers.Constant(initializer)
            weight = self.add_weight(
                shape=(width,), initializer=initializer, name=name, autocast=False
            )
            setattr(self, name, weight)
        self.input_matrix = self.add_weight(
            shape=(width, width),
            initializer=keras.initializers.Identity(),
            name="input_matrix",
            autocast=False,
        )

    def prepare(self) -> dict[str, Any]:
        size = tf.math.softplus(tf.convert_to_tensor(self.step_size))
        decay = tf.exp(-size * tf.exp(tf.convert_to_tensor(self.a_log)))
        matrix = tf.cast(self.input_matrix, self.compute_dtype)
        return {"decay": decay, "size": size, "matrix": matrix}

    def injected(self, state: Any, inputs: Any, weights: dict[str, Any]) -> Any:
        new = matmul(tf.cast(inputs, self.compute_dtype), weights["matrix"])
        state = weights["decay"] * tf.cast(state, tf.float32)
        return tf.cast(state + weights["size"] * tf.cast(new, tf.float32), self.compute_dtype)
