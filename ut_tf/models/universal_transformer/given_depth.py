"""A depth that is given for a call, from whose end the recurrence goes on to a greater one.

::

    depth = GivenDepth(tf.constant(4))
    logits, details = model({**features, "to_depth": depth}, return_details=True)
    depth = GivenDepth(tf.constant(8), details.encoder.progress)  # takes four more steps

The answers are those of a model whose evaluation depth it is, or under dynamic halting whose bound.
The number of steps is a tensor: one graph serves all depths. ``InSlots`` goes on with examples each
of which has taken its own number of steps.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from ut_tf.layers.recurrence_details import GivenDepth, RecurrenceDetails
from ut_tf.models.universal_transformer.depth import Depth
from ut_tf.models.universal_transformer.step import Carry, Trace, of_rows

_NEVER = 2**31 - 1


class Progress(NamedTuple):
    """What a recurrence goes on from.

    Fields:
      steps: int32 [], steps taken; int32 [batch, 1] where each example has its own.
      carry: Carry after them.
      kept: Reached.
      active: bool [batch], the examples of which a position has not halted; where each has its own
        steps, of those that have some left.
    """

    steps: Any
    carry: Carry
    kept: Any
    active: Any


class Reached(NamedTuple):
    """The values that ``ToDepth`` keeps.

    Fields:
      inner: what its depth keeps, to which no step is the last.
      output: the result, if the last step that was taken is the last of all.
      record: the record likewise; () where the depth has none.
      residuals: as of ``RecurrenceDetails``.
    """

    inner: Any
    output: Any
    record: Any
    residuals: Any


class ToDepth(Depth):
    """The steps from the end of another call to a depth.

    Args:
      depth: how positions stop, ``Depth`` or ``UntilHalted``; its bound does not matter.
      given: GivenDepth.
      counts_all: whether halted positions count as computed; otherwise only until they halt.
    """

    def __init__(self, depth: Depth, given: GivenDepth, counts_all: bool) -> None:
        super().__init__(tf.convert_to_tensor(given.steps), depth.final_state)
        self.depth = depth.bounded(_NEVER)
        self.layers = depth.layers
        self.progress = given.progress
        if given.progress is not None:
            self.first = given.progress.steps
        self.counts_all = counts_all

    def start(self, carry: Carry, counted: Any) -> Any:
        if self.progress is not None:
            return self.progress.kept
        inner = self.depth.start(carry, counted)
        return self._reached(self.depth, inner, carry, inner, tf.zeros_like(counted))

    def goes_on(self, index: Any, kept: Reached) -> Any:
        return tf.logical_and(index < self.bound, self.depth.goes_on(index, kept.inner))

    def active(self, index: Any, kept: Reached) -> Any:
        return self.depth.active(index, kept.inner)

    def probability(self, trace: Trace, new: Carry, counted: Any, index: Any) -> Any:
        return self.depth.probability(trace, new, counted, index)

    def after(
        self, index: Any, probability: Any, carry: Carry, new: Carry, kept: Reached
    ) -> tuple[Carry, Reached, Any]:
        ending = self.depth.bounded(index + 1)
        ended, at_end, _ = ending.after(index, probability, carry, new, kept.inner)
        after, inner, held = self.depth.after(index, probability, carry, new, kept.inner)
        residuals = residuals_of(carry.state, after.state)
        return after, self._reached(ending, inner, ended, at_end, residuals), held

    def output(self, carry: Carry, kept: Reached) -> Any:
        return kept.output

    def stopped_output(self, index: Any, carry: Carry, new: Carry, before: Any, after: Any) -> Any:
        return after.output

    def result(
        self, carry: Carry, kept: Reached, counted: Any, mask: Any, taken: Any
    ) -> tuple[Any, RecurrenceDetails]:
        computed = tf.cast(taken, tf.float32) * tf.ones_like(counted) if self.counts_all else None
        record = kept.record if self.depth.halts else None
        details = self.depth.bounded(self.bound).details(record, mask, computed)
        details = _without_probabilities(details, self.bound)
        # Where all positions had halted before, no state changes any more.
        residuals = tf.where(taken == self.bound, kept.residuals, 0.0)
        active = tf.ones_like(counted, tf.bool)
        if self.depth.halts:
            active = self.depth.active(taken, kept.inner)
        progress = Progress(tf.convert_to_tensor(taken), carry, kept, tf.reduce_any(active, 1))
        return kept.output, details._replace(progress=progress, residuals=residuals)

    @staticmethod
    def _reached(depth: Depth, inner: Any, carry: Carry, kept: Any, residuals: Any) -> Reached:
        record = depth.record(kept) if depth.halts else ()
        return Reached(inner, depth.output(carry, kept), record, residuals)


class InSlots(Depth):
    """Some steps more of examples each of which has taken its own number.

    Args:
      depth: how positions stop; its bound is the most steps of an example.
      given: GivenDepth whose `steps` divide that bound.
    """

    def __init__(self, depth: Depth, given: GivenDepth) -> None:
        self.progress, self.fresh = given.progress, given.fresh
        taken = None if self.progress is None else self.progress.steps
        if self.fresh is not None:
            zeros = tf.zeros_like(self.fresh[:, None], tf.int32)
            taken = zeros if taken is None else tf.where(self.fresh[:, None], zeros, taken)
        super().__init__(taken + given.steps, depth.final_state)
        self.first = taken
        self.depth = depth.bounded(depth.bound)
        self.layers = depth.layers

    def start(self, carry: Carry, counted: Any) -> Any:
        if self.progress is None:
            return self.depth.start(carry, counted)
        if self.fresh is None:
            return self.progress.kept
        return of_rows(self.fresh, self.depth.start(carry, counted), self.progress.kept)

    def goes_on(self, index: Any, kept: Any) -> Any:
        return tf.reduce_any(index < self.bound)

    def probability(self, trace: Trace, new: Carry, counted: Any, index: Any) -> Any:
        return self.depth.probability(trace, new, counted, index)

    def after(
        self, index: Any, probability: Any, carry: Carry, new: Carry, kept: Any
    ) -> tuple[Carry, Any, Any]:
        return self.depth.after(index, probability, carry, new, kept)

    def result(
        self, carry: Carry, kept: Any, counted: Any, mask: Any, taken: Any
    ) -> tuple[Any, RecurrenceDetails]:
        record = self.depth.record(kept) if self.depth.halts else None
        computed = tf.cast(taken, tf.float32) * tf.ones_like(counted)
        details = self.depth.details(record, mask, computed)
        active = taken < self.depth.bound
        if self.depth.halts:
            active = tf.logical_and(active, self.depth.active(taken, kept))
        progress = Progress(taken, carry, kept, tf.reduce_any(active, 1))
        details = _without_probabilities(details, self.depth.bound)
        return self.depth.output(carry, kept), details._replace(progress=progress)


def _without_probabilities(details: RecurrenceDetails, steps: Any) -> RecurrenceDetails:
    """The details with zeros in the place of halting probabilities, if there are any."""
    if details.halting_probabilities is None:
        return details
    shape = tf.concat([[steps], tf.shape(details.ponder_times)], 0)
    return details._replace(halting_probabilities=tf.zeros(shape))


def residuals_of(before: Any, after: Any) -> Any:
    """Returns ||after - before|| / ||before|| of states [batch, length, hidden_size], float32."""
    before, after = tf.cast(before, tf.float32), tf.cast(after, tf.float32)
    return tf.norm(after - before, axis=-1) / tf.norm(before, axis=-1)
