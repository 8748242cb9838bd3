"""Depths whose states are all kept, for training on each of them."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from ut_tf.layers.recurrence_details import RecurrenceDetails
from ut_tf.models.universal_transformer.depth import Depth, EarlyExit
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
        shape = carry.state.shape
        return Answers(
            tf.TensorArray(carry.state.dtype, self.bound, element_shape=shape),
            tf.TensorArray(tf.float32, self.bound, element_shape=shape[:2]),
        )

    def probability(self, trace: Trace, new: Carry, counted: Any, index: Any) -> Any:
        """Returns the log-odds of stopping after the step, float32 [batch, length]."""
        return self.halting.log_odds(new.state, counted)

    def after(
        self, index: Any, probability: Any, carry: Carry, new: Carry, kept: Answers
    ) -> tuple[Carry, Answers, Any]:
        states = kept.states.write(index, new.state)
        kept = Answers(states, kept.log_odds.write(index, probability))
        return new, kept, tf.sigmoid(probability)

    def stopped_output(self, index: Any, carry: Carry, new: Carry, before: Any, after: Any) -> Any:
        return None

    def result(
        self, carry: Carry, kept: Answers, counted: Any, mask: Any, taken: Any
    ) -> tuple[Any, RecurrenceDetails]:
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
      exits: by whose rule positions keep their states from their exit on; None: all go on.
    """

    def __init__(
        self, bound: Any, final_state: Callable[[Carry], Any], exits: EarlyExit | None = None
    ) -> None:
        super().__init__(bound, final_state)
        self.exits = exits

    def start(self, carry: Carry, counted: Any) -> Any:
        state = self.final_state(carry)
        states = tf.TensorArray(state.dtype, self.bound, element_shape=state.shape)
        if self.exits is None:
            return states, ()
        started = self.exits.start(carry, counted).carried
        return states, (started, tf.zeros_like(counted, tf.bool))

    def after(
        self, index: Any, probability: Any, carry: Carry, new: Carry, kept: Any
    ) -> tuple[Carry, Any, Any]:
        states, exiting = kept
        if self.exits is not None:
            exiting, new = self._after_exits(index, carry, new, *exiting)
        return new, (states.write(index, self.final_state(new)), exiting), probability

    def _after_exits(
        self, index: Any, carry: Carry, new: Carry, carried: Any, exited: Any
    ) -> tuple[tuple[Any, Any], Carry]:
        """Returns (what the rule carries and bool [batch, length] of the positions that have
        exited; the carry with the states of those that had before the step).
        """
        exits = self.exits
        assert exits is not None

        def kept(before: Any, after: Any) -> Any:
            shape = tf.concat([tf.shape(exited), tf.ones([tf.rank(after) - 2], tf.int32)], 0)
            return tf.where(tf.reshape(exited, shape), before, after)

        new = tf.nest.map_structure(kept, carry, new)

        def logits() -> Any:
            return exits.rule.asked(exits.head)(self.final_state(new))

        stops, carried = exits.rule.check(index, new.state, carried, logits)
        return (carried, tf.logical_or(exited, stops)), new

    def result(
        self, carry: Carry, kept: Any, counted: Any, mask: Any, taken: Any
    ) -> tuple[Any, RecurrenceDetails]:
        output, details = super().result(carry, (), counted, mask, taken)
        states = kept[0].stack()
        shares = tf.fill([self.bound], -math.log(self.bound))[:, None, None]
        return output, details._replace(
            step_states=tf.ensure_shape(states, [self.bound, *states.shape[1:]]),
            log_shares=shares + tf.zeros_like(counted),
        )
