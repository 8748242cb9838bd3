"""The loops over a whole sequence: the recurrent step unrolled, or in a loop of TensorFlow.

::

    loop = WholeLoop(step, LoopInputs(inputs, signal, context, training))
    carry, attention = loop.unrolled(depth, step.start(inputs))
    carry, kept, taken, attention = loop.repeated(depth, step.start(inputs), counted)

Both start from any carry, so that a run may be cut in two: its first part without gradient, say.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from ut_tf.ids import is_compiled_by_xla
from ut_tf.layers.added_losses import LoopLosses
from ut_tf.layers.block import BlockContext
from ut_tf.layers.recurrence_details import Observer, RecurrenceDetails, StepView
from ut_tf.models.universal_transformer.depth import Depth
from ut_tf.models.universal_transformer.step import Carry, RecurrentStep, Trace


class LoopInputs(NamedTuple):
    """The values that stay the same over the steps of a loop.

    Fields:
      inputs: [batch, length, hidden_size], in the compute dtype.
      signal: float32 [batch or 1, length, hidden_size], of the positions at every step, or None.
      context: of the block.
      training: whether to drop.
    """

    inputs: Any
    signal: Any
    context: BlockContext
    training: bool


class Watch(NamedTuple):
    """The records that are asked of a loop besides its result.

    Fields:
      observer: called with a StepView inside every step, or None.
      return_attention: whether the attention weights of every step are kept.
      finish: makes of outputs [batch, length, hidden_size] what an observer sees.
      q_head: makes Q values of the first position's state, or None.
    """

    observer: Observer | None
    return_attention: bool
    finish: Callable[[Any], Any]
    q_head: Callable[[Any], Any] | None = None

    def __bool__(self) -> bool:
        return self.return_attention or self.observer is not None


class WholeLoop:
    """Repeats a step over all positions of a sequence.

    Args:
      step: RecurrentStep.
      given: LoopInputs.
      watch: Watch.
    """

    def __init__(self, step: RecurrentStep, given: LoopInputs, watch: Watch) -> None:
        self.step = step
        self.given = given
        self.watch = watch
        has_weights = (bool(step.block.num_heads), step.block.with_memory)
        parts = tuple(part for part in (0, 1) if has_weights[part])
        self.attention_parts = parts if watch.return_attention else ()

    def unrolled(self, depth: Depth, carry: Carry) -> tuple[Carry, list[Any]]:
        """Takes ``depth.bound`` steps, a number; returns (the carry, the attention weights of the
        steps).
        """
        inputs, *others = self.given
        shares = self._shares_graph
        # Tracing takes time for each operation, forward and backward. The steps are the same
        # operations on the same weights: a function is traced for the first of them, and the others
        # call it. TensorFlow puts its operations in the place of the calls before the graph runs.
        step: Any = tf.function(self.step.__call__, autograph=False) if shares else self.step
        records = []
        for index in range(depth.bound):
            number = tf.constant(index) if shares else index
            new, trace = step(carry, inputs, number, *others, not shares)
            self._observe(depth, index, trace, None, carry, new, new, ((), ()))
            records.append(self._kept_attention(trace))
            carry = new
        return carry, [tf.stack(part) for part in zip(*records, strict=True)]

    def repeated(
        self, depth: Depth, carry: Carry, counted: Any
    ) -> tuple[Carry, Any, Any, list[Any]]:
        """Takes steps while `depth` goes on. Records, and the losses that layers add, are those of
        the steps with gradient.

        Args:
          depth: Depth.
          carry: before the first step.
          counted: float32 [batch, length], 0 for positions that take no step.

        Returns:
          (the carry, what the depth kept, int32 [] steps taken, the attention weights of the
          steps).
        """
        first = depth.first
        if depth.without_gradient is not None:
            first = depth.without_gradient
            carry, *_ = self._loop(Depth(first, depth.final_state), carry, counted, 0)
            carry = tf.nest.map_structure(tf.stop_gradient, carry)
        carry, kept, index, records, add_losses = self._loop(depth, carry, counted, first)
        add_losses()
        return carry, kept, index, records

    def _loop(
        self, depth: Depth, carry: Carry, counted: Any, first: Any
    ) -> tuple[Carry, Any, Any, list[Any], Callable[[], None]]:
        """Takes the steps from `first` on; returns the result of ``repeated``, and a function that
        adds the losses of the steps to the layers'.
        """
        losses = LoopLosses([*self.step.layers, *depth.layers])

        def body(index: Any, carry: Carry, kept: Any, records: Any, added: Any) -> Any:
            new, trace = self._advance(carry, index)
            probability = depth.probability(trace, new, counted, index)
            after, now, probability = depth.after(index, probability, carry, new, kept)
            self._observe(depth, index, trace, probability, carry, new, after, (kept, now))
            records = self._record(records, index - first, self._kept_attention(trace))
            return index + 1, after, now, records, losses.collected(added)

        start = (
            tf.convert_to_tensor(first),
            carry,
            depth.start(carry, counted),
            self._arrays(depth.bound - first),
            losses.start(),
        )
        # maximum_iterations lets XLA take the gradient of the loop.
        index, carry, kept, records, added = tf.while_loop(
            lambda index, _, kept, *__: depth.goes_on(index, kept),
            body,
            start,
            maximum_iterations=depth.most_with_gradient,
        )
        stacked = [array.stack() for array in records]
        return carry, kept, index, stacked, lambda: losses.add(added)

    def with_attention(self, details: RecurrenceDetails, attention: list[Any]) -> RecurrenceDetails:
        """Returns the details with the attention weights of all layers of all steps."""
        if self.step.block.layers_per_step is not None:
            attention = [
                tf.reshape(part, tf.concat([[-1], tf.shape(part)[2:]], 0)) for part in attention
            ]
        own, memory = map(dict(zip(self.attention_parts, attention, strict=True)).get, (0, 1))
        return details._replace(attention_weights=own, memory_attention_weights=memory)

    @property
    def _shares_graph(self) -> bool:
        """Whether all unrolled steps share a graph: in training, where only states are asked
        for.
        """
        if not self.given.training or tf.executing_eagerly() or self.watch:
            return False
        if is_compiled_by_xla():
            # It would take the values, not the shapes, of what the calls are given for constants,
            # and compile every update anew.
            return False
        return self.step.steps_are_alike

    def _advance(self, carry: Carry, index: Any) -> tuple[Carry, Trace]:
        inputs, *others = self.given
        return self.step(carry, inputs, index, *others)

    def _observe(
        self,
        depth: Depth,
        index: Any,
        trace: Trace,
        probability: Any,
        before: Carry,
        new: Carry,
        after: Carry,
        kept: tuple[Any, Any],
    ) -> None:
        """Shows the observer a step, from `before` to `after`; `kept` holds the depth's values
        before and after it.
        """
        if self.watch.observer is None:
            return
        output, q_head = depth.stopped_output(index, before, new, *kept), self.watch.q_head
        self.watch.observer(
            StepView(
                tf.convert_to_tensor(index),
                after.state,
                getattr(kept[1], "halting", None),
                probability,
                *trace.attention_weights,
                before.state,
                None if output is None else self.watch.finish(output),
                low_state=self.step.low_state(after),
                previous_low_state=self.step.low_state(before),
                q_values=None if q_head is None else q_head(after.state[:, 0]),
            )
        )

    def _kept_attention(self, trace: Trace) -> list[Any]:
        return [trace.attention_weights[part] for part in self.attention_parts]

    def _arrays(self, count: Any) -> tuple[Any, ...]:
        batch, length = self.given.inputs.shape[:2]
        block = self.step.block
        memory_keys = tf.nest.flatten(self.given.context.memory_keys)[0]
        memory_length = None if memory_keys is None else memory_keys.shape[2]
        arrays = []
        for part in self.attention_parts:
            shape = [batch, block.num_heads, length, (length, memory_length)[part]]
            if block.layers_per_step is not None:
                shape = [block.layers_per_step, *shape]
            arrays.append(tf.TensorArray(tf.float32, count, element_shape=shape))
        return tuple(arrays)

    def _record(self, arrays: tuple[Any, ...], index: Any, values: list[Any]) -> tuple[Any, ...]:
        return tuple(array.write(index, value) for array, value in zip(arrays, values, strict=True))
