"""Depth: the number of recurrent steps of a loop, and the loop's result.

Every loop asks a depth in the same way::

    kept = depth.start(carry, counted)
    while depth.goes_on(index, kept):
        new, trace = step(carry, inputs, index, ...)
        probability = depth.probability(trace, new, counted, index)
        carry, kept, probability = depth.after(index, probability, carry, new, kept)
    states, details = depth.output(carry, kept), depth.details(depth.record(kept), ...)

What a depth keeps has the positions in front, [batch, length, ...]: a loop over the rows of the
active positions, or over one new position, keeps it as [rows, ...].
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from ut_tf.layers.recurrence_details import RecurrenceDetails
from ut_tf.models.universal_transformer.exit_rules import ExitRule
from ut_tf.models.universal_transformer.halting.base import Halting, HaltingState, start_halting
from ut_tf.models.universal_transformer.step import Carry, Trace

FinalState = Callable[[Carry], Any]


class Depth:
    """Base class of the depths; the default is a number of steps that is the same for all.

    Args:
      bound: the most steps, a number or int32 [].
      final_state: makes the result [..., hidden_size] of the carry after the last step.

    Attributes:
      layers: Keras layers that it calls, which may add losses.
      without_gradient: int32 [], the first steps, through which no gradient flows; None: it flows
        through all.
      halts: whether positions stop at different steps.
      first: int32 [] or a number, the step that is taken first.
    """

    layers: tuple[Any, ...] = ()
    first: Any = 0
    without_gradient: Any = None
    halts: bool = False

    def __init__(self, bound: Any, final_state: FinalState) -> None:
        self.bound = bound
        self.final_state = final_state

    def bounded(self, bound: Any) -> "Depth":
        """Returns the same way to stop with another bound, which records no probabilities."""
        return Depth(bound, self.final_state)

    @property
    def unrolls(self) -> bool:
        """Whether the steps are known when a graph is made, and nothing is kept of them."""
        return type(self) is Depth

    @property
    def most_with_gradient(self) -> int | None:
        """The most steps with gradient, where they are bounded; XLA needs the bound to train."""
        return self.bound if isinstance(self.bound, int) else None

    def start(self, carry: Carry, counted: Any) -> Any:
        """Returns the kept values before the first step.

        Args:
          carry: Carry before the first step.
          counted: float32 [...], 0 for positions that take no step.
        """
        return ()

    def goes_on(self, index: Any, kept: Any) -> Any:
        """Returns bool [], whether step `index` (int32 [], from 0) is taken by any position."""
        return index < self.bound

    def active(self, index: Any, kept: Any) -> Any:
        """Returns bool [...], the positions that take step `index`."""
        raise NotImplementedError

    def probability(self, trace: Trace, new: Carry, counted: Any, index: Any) -> Any:
        """Returns the halting probabilities of a step, float32 [batch, length], or None."""

    def after(
        self, index: Any, probability: Any, carry: Carry, new: Carry, kept: Any
    ) -> tuple[Carry, Any, Any]:
        """Takes a step into account.

        Args:
          index: int32 [] or a number, the step.
          probability: from ``probability``, or the same for [rows].
          carry, new: before and after the step.
          kept: before the step.

        Returns:
          (the carry that the next step takes, what is kept, the halting probabilities that held, or
          None).
        """
        return new, kept, probability

    def output(self, carry: Carry, kept: Any) -> Any:
        """Returns the result so far, [..., hidden_size]."""
        return self.final_state(carry)

    def stopped_output(self, index: Any, carry: Carry, new: Carry, before: Any, after: Any) -> Any:
        """Returns the result if every position stopped after step `index`, for an observer; None:
        it is unknown. Arguments are those of ``after``, with the kept values before and after the
        step.
        """
        return self.final_state(new)

    def record(self, kept: Any) -> Any:
        """Returns the kept values that ``details`` reads, float32 [..., width], or None."""

    def result(
        self, carry: Carry, kept: Any, counted: Any, mask: Any, taken: Any
    ) -> tuple[Any, RecurrenceDetails]:
        """Returns (the result [batch, length, hidden_size], RecurrenceDetails) of a loop over all
        positions.

        Args:
          carry, kept: after the last step.
          counted: float32 [batch, length], 0 for positions that took no step.
          mask: float32 [batch, length], 0 on padding.
          taken: int32 [] or a number, steps.
        """
        computed = tf.cast(taken, tf.float32) * tf.ones_like(counted)
        return self.output(carry, kept), self.details(self.record(kept), mask, computed)

    def details(self, record: Any, mask: Any, computed_steps: Any) -> RecurrenceDetails:
        """Returns the record of the loop.

        Args:
          record: from ``record``, of all positions.
          mask: float32 [batch, length], 0 on padding.
          computed_steps: float32 [batch, length], steps at which a position was computed; None: its
            ponder time.
        """
        times = tf.cast(self.bound, tf.float32) * mask
        return RecurrenceDetails(times, tf.zeros_like(times), mask)


class Drawn(Depth):
    """A number of steps that is drawn for the call. The first of them have no gradient.

    Args:
      without_gradient, with_gradient: int32 [] each, steps.
      backprop_steps: the most steps with gradient.
      final_state: as of ``Depth``.
    """

    def __init__(
        self,
        without_gradient: Any,
        with_gradient: Any,
        backprop_steps: int,
        final_state: FinalState,
    ) -> None:
        super().__init__(without_gradient + with_gradient, final_state)
        self.without_gradient = without_gradient
        self.backprop_steps = backprop_steps

    @property
    def most_with_gradient(self) -> int:
        return self.backprop_steps


class DepthPerExample(Depth):
    """Each example's own number of steps.

    Args:
      steps: int32 [batch].
      final_state: as of ``Depth``.
    """

    halts = True

    def __init__(self, steps: Any, final_state: FinalState) -> None:
        super().__init__(tf.reduce_max(steps), final_state)
        self.steps = steps

    def start(self, carry: Carry, counted: Any) -> Any:
        return self.steps[:, None] * tf.ones_like(counted, tf.int32)

    def active(self, index: Any, kept: Any) -> Any:
        return index < kept

    def after(
        self, index: Any, probability: Any, carry: Carry, new: Carry, kept: Any
    ) -> tuple[Carry, Any, Any]:
        active = tf.expand_dims(self.active(index, kept), -1)
        held = tf.nest.map_structure(lambda a, b: tf.where(active, a, b), new, carry)
        return held, kept, probability

    def stopped_output(self, index: Any, carry: Carry, new: Carry, before: Any, after: Any) -> Any:
        held, _, _ = self.after(index, None, carry, new, before)
        return self.final_state(held)

    def details(self, record: Any, mask: Any, computed_steps: Any) -> RecurrenceDetails:
        times = tf.cast(self.steps, tf.float32)[:, None] * mask
        return RecurrenceDetails(times, tf.zeros_like(times), mask)


class Pondering(NamedTuple):
    """The progress of positions in their halting.

    Fields:
      output: float32 [..., hidden_size], the result so far.
      halting: HaltingState of [...].
      probabilities: float32 [..., bound], halting probabilities of the steps that were taken; ()
        where nobody reads them.
    """

    output: Any
    halting: HaltingState
    probabilities: Any


class UntilHalted(Depth):
    """Steps until every position has halted.

    Args:
      halting: the form that decides.
      bound: the most steps.
      keeps_probabilities: whether halting probabilities are recorded.
    """

    halts = True

    def __init__(self, halting: Halting, bound: int, keeps_probabilities: bool = True) -> None:
        super().__init__(bound, lambda carry: carry.state)
        self.halting = halting
        self.layers = (halting,)
        self.keeps_probabilities = keeps_probabilities

    def bounded(self, bound: Any) -> "UntilHalted":
        return UntilHalted(self.halting, bound, keeps_probabilities=False)

    def start(self, carry: Carry, counted: Any) -> Pondering:
        output = tf.zeros(tf.shape(carry.state), tf.float32)
        output.set_shape(carry.state.shape)
        probabilities: Any = ()
        if self.keeps_probabilities:
            probabilities = tf.expand_dims(tf.zeros_like(counted), -1) * tf.ones([self.bound])
        return Pondering(output, start_halting(counted), probabilities)

    def goes_on(self, index: Any, kept: Pondering) -> Any:
        return tf.reduce_any(self.active(index, kept))

    def active(self, index: Any, kept: Pondering) -> Any:
        return kept.halting.halting_sum < self.halting.threshold

    def probability(self, trace: Trace, new: Carry, counted: Any, index: Any) -> Any:
        return self.halting(trace.block_input, new.state, counted=counted, step=index)

    def after(
        self, index: Any, probability: Any, carry: Carry, new: Carry, kept: Pondering
    ) -> tuple[Carry, Pondering, Any]:
        state, output, halting, active = self.halting.advance(
            probability, index == self.bound - 1, new.state, carry.state, kept.output, kept.halting
        )
        probabilities = kept.probabilities
        if self.keeps_probabilities:
            taken = (tf.range(self.bound) == index) & tf.expand_dims(active, -1)
            probabilities = tf.where(taken, tf.expand_dims(probability, -1), probabilities)
        kept = Pondering(output, halting, probabilities)
        return Carry(state, new.memory), kept, probability

    def output(self, carry: Carry, kept: Pondering) -> Any:
        return kept.output

    def stopped_output(
        self, index: Any, carry: Carry, new: Carry, before: Pondering, after: Pondering
    ) -> Any:
        last = index == self.bound - 1
        return tf.where(last, after.output, self.answer(carry, new, before, last))

    def answer(self, carry: Carry, new: Carry, kept: Pondering, last: Any = False) -> Any:
        """Returns the output, float32 [..., hidden_size], of positions that stop after a step.

        Args:
          carry, new: before and after the step.
          kept: before the step.
          last: bool [], whether the step is the last of all.
        """
        ones = tf.ones_like(kept.halting.halting_sum)
        states = (new.state, carry.state, kept.output, kept.halting)
        _, output, _, _ = self.halting.advance(ones, last, *states)
        return output

    def record(self, kept: Pondering) -> Any:
        return tf.concat([tf.stack(kept.halting, -1), *tf.nest.flatten(kept.probabilities)], -1)

    def details(self, record: Any, mask: Any, computed_steps: Any) -> RecurrenceDetails:
        halting = HaltingState(*tf.unstack(record[..., :3], axis=-1))
        times = halting.ponder_times
        return RecurrenceDetails(
            times,
            halting.remainders,
            self.halting.counted(mask),
            tf.transpose(record[..., 3:], [2, 0, 1]),
            costs=self.halting.costs(halting),
            computed_steps=times if computed_steps is None else computed_steps,
        )


class Exiting(NamedTuple):
    """The values that an ``EarlyExit`` keeps from step to step.

    Fields:
      pondering: what its depth keeps.
      carried: the rule's, tensors [..., width] or [...].
    """

    pondering: Pondering
    carried: Any

    @property
    def halting(self) -> HaltingState:
        """The halting of its depth."""
        return self.pondering.halting


class EarlyExit(Depth):
    """A depth whose positions stop by a rule as well.

    Args:
      depth: UntilHalted; of a fixed number of steps that of ``FixedDepth``, which never halts by
        itself.
      rule: ExitRule.
      head: makes logits [..., vocab_size] of outputs [..., hidden_size]; None where the rule reads
        none.
    """

    halts = True

    def __init__(
        self, depth: UntilHalted, rule: ExitRule, head: Callable[[Any], Any] | None
    ) -> None:
        super().__init__(depth.bound, depth.final_state)
        self.depth = depth
        self.layers = depth.layers
        self.rule = rule
        self.head = head

    def bounded(self, bound: Any) -> "EarlyExit":
        return EarlyExit(self.depth.bounded(bound), self.rule, self.head)

    def start(self, carry: Carry, counted: Any) -> Exiting:
        width = None if self.head is None else self.head(carry.state[:0]).shape[-1]
        return Exiting(self.depth.start(carry, counted), self.rule.start(carry.state, width))

    def goes_on(self, index: Any, kept: Exiting) -> Any:
        return self.depth.goes_on(index, kept.pondering)

    def active(self, index: Any, kept: Exiting) -> Any:
        return self.depth.active(index, kept.pondering)

    def probability(self, trace: Trace, new: Carry, counted: Any, index: Any) -> Any:
        return self.depth.probability(trace, new, counted, index)

    def after(
        self, index: Any, probability: Any, carry: Carry, new: Carry, kept: Exiting
    ) -> tuple[Carry, Exiting, Any]:
        def logits() -> Any:
            return self.rule.asked(self.head)(self.depth.answer(carry, new, kept.pondering))

        exits, carried = self.rule.check(index, new.state, kept.carried, logits)
        probability = tf.where(exits, 1.0, probability)
        carry, pondering, probability = self.depth.after(
            index, probability, carry, new, kept.pondering
        )
        return carry, Exiting(pondering, carried), probability

    def output(self, carry: Carry, kept: Exiting) -> Any:
        return self.depth.output(carry, kept.pondering)

    def stopped_output(
        self, index: Any, carry: Carry, new: Carry, before: Exiting, after: Exiting
    ) -> Any:
        kept = (before.pondering, after.pondering)
        return self.depth.stopped_output(index, carry, new, *kept)

    def record(self, kept: Exiting) -> Any:
        return self.depth.record(kept.pondering)

    def details(self, record: Any, mask: Any, computed_steps: Any) -> RecurrenceDetails:
        return self.depth.details(record, mask, computed_steps)
