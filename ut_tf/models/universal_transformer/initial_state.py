"""Initial states: where a recurrence begins.

::

    inputs    the embedded inputs                       (the Universal Transformer)
    zeros     0
    learned   a trained vector, the same at all positions
    fixed     a vector that is drawn once and not trained (TRM, HRM)
    noise     numbers that are drawn for each example and position (Huginn, EqR)

One of your own subclasses ``InitialState``, is registered with ``registry.register_initial_state``
and chosen by ``initial_state``. All but the first need an ``input_injection``.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import keras
import tensorflow as tf

from ut_tf.models.universal_transformer.catalogue import INITIAL_STATES
from ut_tf.models.universal_transformer.noise import mixed, truncated_normal


class InitialState(keras.layers.Layer):  # type: ignore[misc]
    """Base class of the initial states.

    Call arguments:
      inputs: [..., hidden_size], embedded.
      keys: int64 [batch], numbers of the examples, where it ``draws``.
      first: int32 [], the position that `inputs` begin with, where it draws ``by_position``.

    Returns:
      [..., hidden_size] in the inputs' dtype, the state before the first step.

    Attributes:
      draws: whether the state is drawn for each example.
      by_position: whether a position's state is the same whatever stands around it, so that
        decoding may compute it alone.
    """

    draws: ClassVar[bool] = False
    by_position: ClassVar[bool] = False

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)


def drawing(
    state: InitialState, keys: Any, of_low: bool = False, position: Any = None
) -> Callable[[Any], Any]:
    """Returns the function of the inputs that makes the state.

    Args:
      state: the initial state.
      keys: int64 [batch], numbers of the examples; None: they are numbered.
      of_low: whether it is the second state of two levels, which has other numbers.
      position: int32 [], where the inputs are those of one position, [rows, hidden_size].
    """
    if not state.draws:
        return state

    def draw(inputs: Any) -> Any:
        numbers = tf.range(tf.shape(inputs, tf.int64)[0]) if keys is None else keys
        if position is not None:
            return state(inputs[:, None], keys=numbers, first=position)[:, 0]
        return state(inputs, keys=mixed(numbers + 1) if of_low else numbers)

    return draw


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


@keras.saving.register_keras_serializable("ut_tf")
class NoiseState(InitialState):
    """Normal numbers, cut off at three deviations: drawn for each example and position, in training
    anew for each update.

    Args:
      stddev: their deviation (EqR: 1; Huginn: sqrt(2 / 5) where embeddings have deviation 1).
    """

    options: ClassVar[dict[str, Any]] = INITIAL_STATES["noise"].attributes["options"]
    draws = by_position = True

    def __init__(self, stddev: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stddev = stddev

    def call(self, inputs: Any, keys: Any, first: Any = 0) -> Any:
        noise = truncated_normal(keys, tf.shape(inputs)[1], inputs.shape[-1], first)
        return tf.cast(self.stddev * noise, inputs.dtype)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "stddev": self.stddev}
