"""No dynamic halting: all positions take the same number of steps."""

from typing import Any, ClassVar

import keras
import tensorflow as tf

from ut_tf.models.universal_transformer.halting.base import Halting, HaltingState, halting_step


@keras.saving.register_keras_serializable("ut_tf")
class FixedDepth(Halting):
    """``halting="none"``: every position takes all steps, or with an exit rule those up to its
    exit, whose state is the result.

    Args:
      num_steps: number of steps.
      eval_num_steps: the same at evaluation; None: as in training.
    """

    dynamic: ClassVar[bool] = False
    copies_halted_states = True

    def __init__(self, num_steps: int, eval_num_steps: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_steps = num_steps
        self.eval_num_steps = eval_num_steps
        self.built = True

    def max_steps(self, training: bool) -> int:
        return self.num_steps if training or self.eval_num_steps is None else self.eval_num_steps

    @property
    def threshold(self) -> float:
        return 0.5

    def probabilities(self, before: Any, after: Any, counted: Any, step: Any = 0) -> Any:
        """Zeros: only an exit rule stops a position."""
        return tf.zeros_like(before[..., 0], tf.float32)

    def step(self, before: Any, after: Any, weights: dict[str, Any], step: int = 0) -> Any:
        return tf.zeros_like(before[:, 0], tf.float32)

    def advance(
        self,
        probability: Any,
        last: Any,
        new_state: Any,
        state: Any,
        output: Any,
        halting: HaltingState,
    ) -> tuple[Any, Any, HaltingState, Any]:
        new_halting, _, running = halting_step(halting, probability, self.threshold)
        output = tf.where(tf.expand_dims(running, -1), tf.cast(new_state, tf.float32), output)
        new_state = tf.where(
            tf.expand_dims(running, -1), new_state, tf.cast(state, new_state.dtype)
        )
        # Nothing is left over: a result is one state.
        new_halting = new_halting._replace(remainders=halting.remainders)
        return new_state, output, new_halting, running
