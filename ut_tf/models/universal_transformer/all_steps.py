"""Depths whose states are all kept, for training on each of them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import tensorflow as tf

from ut_tf.layers.recurrence_details import RecurrenceDetails
from ut_tf.models.universal_transformer.depth import Depth
from ut_tf.models.universal_transformer.halting.base import Halting
from ut_tf.models.universal_transformer.step import Carry, Trace


class Answers(NamedTuple):
    """The states and the log-odds of stopping of all steps, as TensorArrays."""

    states: Any
    log_odds: Any


class AllSteps(Depth):
    """All steps, whose states are kept, for halting forms that are trained on them.

    Args:
      halting: the form.
      bound: the number of steps.
    """

    def __init__(self, halting: Halting, bound: int) -> None:
        super().__init__(bound, lambda carry: carry.state)
        self.halting = halting
        self.layers = (halting,)

    def start(self, carry: Carry, counted: Any) -> Answers:
        del counted
        shape = carry.state.shape
        return Answers(
            tf.TensorArray(carry.state.dtype, self.bound, element_shape=shape),
            tf.TensorArray(tf.float32, self.bound, element_shape=shape[:2]),
        )

    def probability(self, trace: Trace, new: Carry, counted: Any, index: Any) -> Any:
        """Returns the log-odds of stopping after the step, float32 [batch, length]."""
        del trace, index
        return self.halting.log_odds(new.state, counted)

    def after(
        self, index: Any, probability: Any, carry: Carry, new: Carry, kept: Answers
    ) -> tuple[Carry, Answers, Any]:
        del carry
        states = kept.states.write(index, new.state)
        kept = Answers(states, kept.log_odds.write(index, probability))
        return new, kept, tf.sigmoid(probability)

    def stopped_output(self, index: Any, carry: Carry, new: Carry, before: Any, after: Any) -> Any:
        del index, carry, new, before, after
        return None

    def result(
        self, carry: Carry, kept: Answers, counted: Any, mask: Any, taken: Any
    ) -> tuple[Any, RecurrenceDetails]:
        del carry, mask, taken
        log_odds, states = kept.log_odds.stack(), kept.states.stack()
        output, fields = self.halting.over_all_steps(
            tf.ensure_shape(log_odds, [self.bound, *log_odds.shape[1:]]),
            tf.ensure_shape(states, [self.bound, *states.shape[1:]]),
            counted,
        )
        return output, RecurrenceDetails(mask=counted, **fields)


class EveryStep(Depth):
    """A number of steps whose states are all kept, for a supervision of each of them.

    Args:
      bound: the number of steps.
      final_state: as of ``Depth``.
    """

    def start(self, carry: Carry, counted: Any) -> Any:
        del counted
        state = self.final_state(carry)
        return tf.TensorArray(state.dtype, self.bound, element_shape=state.shape)

    def after(
        self, index: Any, probability: Any, carry: Carry, new: Carry, kept: Any
    ) -> tuple[Carry, Any, Any]:
        del carry
        return new, kept.write(index, self.final_state(new)), probability

    def result(
        self, carry: Carry, kept: Any, counted: Any, mask: Any, taken: Any
    ) -> tuple[Any, RecurrenceDetails]:
        output, details = super().result(carry, (), counted, mask, taken)
        states = kept.stack()
        shares = tf.fill([self.bound], -math.log(self.bound))[:, None, None]
        return output, details._replace(
            step_states=tf.ensure_shape(states, [self.bound, *states.shape[1:]]),
            log_shares=shares + tf.zeros_like(counted),
        )
