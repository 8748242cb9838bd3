"""Adaptive computation time, as the Universal Transformer's paper has it, and Graves' own."""

from typing import Any

import keras
import tensorflow as tf

from ut_tf.errors import UserError
from ut_tf.layers.linear import Linear, affine
from ut_tf.models.universal_transformer.halting.base import (
    Halting,
    HaltingState,
    accumulated,
    halting_step,
    interpolated,
)


@keras.saving.register_keras_serializable("ut_tf")
class Basic(Halting):
    """``halting="basic"`` (the listing in arXiv 1807.03819, appendix): a position adds up the
    probabilities sigmoid(w · state + b) and halts at the step at which the sum reaches 1 -
    act_epsilon; its remainder is 1 minus the sum before that step.

    The output is output' = state'·weight + output·(1 - weight), where the weight of a step is its
    probability, and of the last one the remainder. All sums are float32.

    Args:
      num_steps: half of the upper bound of steps where act_max_steps is None.
      act_max_steps: upper bound of steps.
      eval_act_max_steps: the same at evaluation; None: as in training.
      act_epsilon: a position halts when its sum reaches 1 - act_epsilon.
      act_loss_weight: weight of the ponder cost in the loss.
      act_halting_bias_init: initial value of b.
      kernel_init: "glorot" or "unit_scaling".
      halted_states: "copy", or "transform": halted states go on being transformed.
      padding_ponders: whether padding takes part.
      act_last_step: "open": a position that takes all steps has no remainder; "remainder": it halts
        at the last one.

    Call arguments and result are those of ``Halting.probabilities``.
    """

    def __init__(
        self,
        num_steps: int = 4,
        act_max_steps: int | None = None,
        eval_act_max_steps: int | None = None,
        act_epsilon: float = 0.01,
        act_loss_weight: float = 0.01,
        act_halting_bias_init: float = -1.0,
        kernel_init: str = "glorot",
        halted_states: str = "copy",
        padding_ponders: bool = False,
        act_last_step: str = "open",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not 0 < act_epsilon < 1:
            raise UserError(f"act_epsilon={act_epsilon}: expected a number between 0 and 1.")
        self.act_max_steps = 2 * num_steps if act_max_steps is None else act_max_steps
        self.eval_act_max_steps = (
            self.act_max_steps if eval_act_max_steps is None else eval_act_max_steps
        )
        self.act_epsilon = act_epsilon
        self.loss_weight = act_loss_weight
        self.copies_halted_states = halted_states == "copy"
        self.padding_ponders = padding_ponders
        self.act_last_step = act_last_step
        self.linear = Linear(
            1, True, kernel_init, act_halting_bias_init, name="linear", dtype="float32"
        )

    def build(self, input_shape: Any) -> None:
        self.linear.build(input_shape)

    def max_steps(self, training: bool) -> int:
        return self.act_max_steps if training else self.eval_act_max_steps

    @property
    def threshold(self) -> float:
        return 1.0 - self.act_epsilon

    def remedy(self, few: bool) -> str | None:
        way = "lower" if few else "higher"
        bias, weight = self.linear.bias_init, self.loss_weight
        return (
            f"a {way} act_halting_bias_init (now {bias:g}) or a {way} act_loss_weight (now"
            f" {weight:g})"
        )

    def probabilities(self, before: Any, after: Any, counted: Any, step: Any = 0) -> Any:
        return tf.sigmoid(self.linear(before)[..., 0])

    def prepare(self) -> dict[str, Any]:
        return self.linear.prepare()

    def step(self, before: Any, after: Any, weights: dict[str, Any], step: int = 0) -> Any:
        if type(self).probabilities is not Basic.probabilities:
            return super().step(before, after, weights, step)
        return tf.sigmoid(affine(before, weights)[:, 0])

    def advance(
        self,
        probability: Any,
        last: Any,
        new_state: Any,
        state: Any,
        output: Any,
        halting: HaltingState,
    ) -> tuple[Any, Any, HaltingState, Any]:
        if self.act_last_step == "remainder":
            probability = tf.where(last, 1.0, probability)
        halting, weight, running = halting_step(halting, probability, self.threshold)
        output = self.combine(new_state, output, weight)
        if self.copies_halted_states:
            new_state = tf.where(
                tf.expand_dims(running, -1), new_state, tf.cast(state, new_state.dtype)
            )
        return new_state, output, halting, running

    def combine(self, state: Any, output: Any, weight: Any) -> Any:
        """Returns the output after a step, float32 [batch, length, hidden_size].

        Args:
          state: [batch, length, hidden_size], after the step.
          output: float32 [batch, length, hidden_size], before the step.
          weight: float32 [batch, length], of the step's state.
        """
        return interpolated(state, output, weight)


@keras.saving.register_keras_serializable("ut_tf")
class Accumulated(Basic):
    """``halting="accumulated"`` (Graves, arXiv 1603.08983): output' = output + state'·weight."""

    def combine(self, state: Any, output: Any, weight: Any) -> Any:
        return accumulated(state, output, weight)
