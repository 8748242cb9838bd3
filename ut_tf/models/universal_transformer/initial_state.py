"""Initial states: where a recurrence begins.

::

    inputs    the embedded inputs                       (the Universal Transformer)
    zeros     0
    learned   a trained vector, the same at all positions
    fixed     a vector that is drawn once and not trained (TRM, HRM)

One of your own subclasses ``InitialState``, is registered with ``registry.register_initial_state``
and chosen by ``initial_state``. All but the first need an ``input_injection``.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


class InitialState(keras.layers.Layer):  # type: ignore[misc]
    """Base class of the initial states.

    Call arguments:
      inputs: [..., hidden_size], embedded.

    Returns:
      [..., hidden_size] in the inputs' dtype, the state before the first step.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)


def of_inputs() -> None:
    """Stands for a cell that decides where the state begins: by default with the inputs."""


@keras.saving.register_keras_serializable("ut_tf")
class ZeroState(InitialState):
    """Zeros."""

    def call(self, inputs: Any) -> Any:
        return tf.zeros_like(inputs)


@keras.saving.register_keras_serializable("ut_tf")
class LearnedState(InitialState):
    """A vector, the same at all positions: trained, and at first drawn with deviation 1."""

    trains = True

    def build(self, input_shape: Any) -> None:
        self.vector = self.add_weight(
            shape=(input_shape[-1],),
            initializer=keras.initializers.TruncatedNormal(stddev=1.0),
            name="vector",
            trainable=self.trains,
            autocast=False,
        )

    def call(self, inputs: Any) -> Any:
        return tf.zeros_like(inputs) + tf.cast(self.vector, inputs.dtype)


@keras.saving.register_keras_serializable("ut_tf")
class FixedState(LearnedState):
    """A vector that is drawn once and never trained; checkpoints hold it."""

    trains = False
