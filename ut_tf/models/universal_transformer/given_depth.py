"""A depth that is given for a call, from whose end the recurrence goes on to a greater one.

::

    depth = GivenDepth(tf.constant(4))
    logits, details = model({**features, "to_depth": depth}, return_details=True)
    depth = GivenDepth(tf.constant(8), details.encoder.progress)  # takes four more steps

The answers are those of a model whose evaluation depth it is, or under dynamic halting whose bound.
The number of steps is a tensor: one graph serves all depths.
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
      active: bool [batch], the examples of which a position has not halted.
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
        self.fresh = given.fresh
        if given.progress is not None:
            self.first = given.progress.steps
        if given.fresh is not None:
            self.first = tf.where(given.fresh[:, None], 0, self.first)
        self.counts_all = counts_all

    def start(self, carry: Carry, counted: Any) -> Any:
        if self.progress is not None and self.fresh is None:
            return self.progress.kept
        inner = self.depth.start(carry, counted)
        begun = self._reached(self.depth, inner, carry, inner, tf.zeros_like(counted))
        return begun if self.progress is None else of_rows(self.fresh, begun, self.progress.kept)

    def goes_on(self, index: Any, kept: Reached) -> Any:
        goes_on = tf.logical_and(index < self.bound, self.depth.goes_on(index, kept.inner))
        return tf.reduce_any(goes_on)

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
        if details.halting_probabilities is not None:
            shape = tf.concat([[tf.reduce_max(self.bound)], tf.shape(counted)], 0)
            details = details._replace(halting_probabilities=tf.zeros(shape))
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


def residuals_of(before: Any, after: Any) -> Any:
    """Returns ||after - before|| / ||before|| of states [batch, length, hidden_size], float32."""
    before, after = tf.cast(before, tf.float32), tf.cast(after, tf.float32)
    return tf.norm(after - before, axis=-1) / tf.norm(before, axis=-1)
