"""The steps of a recurrence over a whole sequence."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ut_tf.layers.block import BlockContext
from ut_tf.layers.recurrence_details import Observer, RecurrenceDetails, StepView
from ut_tf.models.universal_transformer.exit_rules import Exits
from ut_tf.models.universal_transformer.halting.base import HaltingState, start_halting
from ut_tf.models.universal_transformer.step_graph import shared_by_all_steps, steps_are_alike

if TYPE_CHECKING:
    from ut_tf.models.universal_transformer.recurrence import Recurrence


class SequenceRun:
    """One pass through a recurrence: what stays the same over its steps.

    Args:
      recurrence: whose parts are used.
      inputs: [batch, length, hidden_size], in the compute dtype.
      mask: [batch, length], 0 on padding.
      signal: position signal of every step, or None.
      context, training, return_attention, observer: as for ``Recurrence``.
      exits: the exit rule, or none.

    Its methods return (states, RecurrenceDetails).
    """

    def __init__(
        self,
        recurrence: Recurrence,
        inputs: Any,
        mask: Any,
        signal: Any,
        context: BlockContext,
        training: bool,
        exits: Exits,
        return_attention: bool,
        observer: Observer | None,
    ) -> None:
        self.recurrence = recurrence
        self.inputs = inputs
        self.mask = tf.cast(mask, tf.float32)
        self.signal = signal
        self.context = context
        self.training = training
        self.exits = exits
        self.observer = observer
        parts = (0, 1) if recurrence.block.with_memory else (0,)
        self.attention_parts = parts if return_attention else ()

    def fixed_depth(self) -> tuple[Any, RecurrenceDetails]:
        """Runs the fixed number of steps, unrolled."""
        recurrence, depth = self.recurrence, self._max_steps
        state, memory = self.inputs, recurrence.cell.start(self.inputs)
        records = []
        advance = shared_by_all_steps(self._advance) if self._shares_graph else self._advance
        for step in range(depth):
            previous = state
            _, state, memory, weights = advance(step, state, memory)
            if self.observer is not None:
                output = recurrence.finish(recurrence.final_state(state, memory))
                self._observe(step, previous, state, output, weights)
            records.append(self._kept(weights))
        attention = [tf.stack(part) for part in zip(*records, strict=True)]
        times = float(depth) * self.mask
        details = RecurrenceDetails(times, tf.zeros_like(times), self.mask)
        return recurrence.final_state(state, memory), self._with_attention(details, attention)

    def depth_per_example(self, steps: Any) -> tuple[Any, RecurrenceDetails]:
        """Runs each example's own number of steps, int32 [batch], in a loop."""
        recurrence = self.recurrence

        def body(step: Any, state: Any, memory: Any, records: Any) -> Any:
            _, new_state, new_memory, weights = self._advance(step, state, memory)
            running = (step < steps)[:, None, None]
            new_state, new_memory = tf.nest.map_structure(
                functools.partial(tf.where, running), (new_state, new_memory), (state, memory)
            )
            if self.observer is not None:
                output = recurrence.finish(recurrence.final_state(new_state, new_memory))
                self._observe(step, state, new_state, output, weights)
            records = self._record(records, step, self._kept(weights))
            return step + 1, new_state, new_memory, records

        depth = tf.reduce_max(steps)
        start = (
            tf.constant(0),
            self.inputs,
            recurrence.cell.start(self.inputs),
            self._arrays(depth, False),
        )
        _, state, memory, records = tf.while_loop(lambda step, *_: step < depth, body, start)
        times = tf.cast(steps, tf.float32)[:, None] * self.mask
        attention = [array.stack() for array in records]
        details = RecurrenceDetails(times, tf.zeros_like(times), self.mask)
        return recurrence.final_state(state, memory), self._with_attention(details, attention)

    def until_halted(self) -> tuple[Any, RecurrenceDetails]:
        """Runs until every position has halted, at most ``max_steps`` steps."""
        recurrence, unit, depth = self.recurrence, self.recurrence.halting_unit, self._max_steps
        counted = unit.counted(self.mask)

        def body(
            step: Any,
            halting: HaltingState,
            state: Any,
            memory: Any,
            output: Any,
            carried: Any,
            probabilities: Any,
            records: Any,
        ) -> Any:
            prepared, new_state, memory, weights = self._advance(step, state, memory)
            probability = unit(prepared, new_state, counted=counted, step=step)
            probability, carried = self.exits.check(
                step, probability, new_state, state, output, halting, carried
            )
            before = (new_state, state, output, halting)
            previous, last = state, step == depth - 1
            new_state, output, halting, running = unit.advance(probability, last, *before)
            if self.observer is not None:
                _, stopped, _, _ = unit.advance(tf.ones_like(probability), last, *before)
                result = recurrence.finish(tf.where(last, output, stopped))
                observed = (halting, probability)
                self._observe(step, previous, new_state, result, weights, *observed)
            now = (steps == step)[:, None, None]
            probabilities = tf.where(now & running, probability, probabilities)
            records = self._record(records, step, self._kept(weights))
            return step + 1, halting, new_state, memory, output, carried, probabilities, records

        output = tf.zeros(tf.shape(self.inputs), tf.float32)
        output.set_shape(self.inputs.shape)
        memory = recurrence.cell.start(self.inputs)
        # Not a TensorArray: LiteRT has none whose length is unknown.
        steps = tf.range(depth)
        start = (
            tf.constant(0),
            start_halting(counted),
            self.inputs,
            memory,
            output,
            self.exits.start(self.inputs),
            tf.zeros_like(counted)[None] * tf.ones([depth, 1, 1]),
            self._arrays(depth, False),
        )
        # maximum_iterations lets XLA take the gradient of the loop.
        taken, halting, _, _, output, _, probabilities, records = tf.while_loop(
            lambda _, halting, *__: tf.reduce_any(halting.halting_sum < unit.threshold),
            body,
            start,
            maximum_iterations=depth,
        )
        attention = [array.stack() for array in records]
        details = RecurrenceDetails(
            halting.ponder_times,
            halting.remainders,
            counted,
            probabilities,
            costs=unit.costs(halting),
            computed_steps=tf.cast(taken, tf.float32) * tf.ones_like(counted),
        )
        return output, self._with_attention(details, attention)

    def all_steps(self) -> tuple[Any, RecurrenceDetails]:
        """Runs all steps and keeps their states, for halting forms that are trained on them."""
        recurrence, unit, depth = self.recurrence, self.recurrence.halting_unit, self._max_steps
        counted = unit.counted(self.mask)

        def body(step: Any, state: Any, memory: Any, states: Any, records: Any) -> Any:
            _, new_state, memory, weights = self._advance(step, state, memory)
            log_odds = unit.log_odds(new_state, counted)
            probability = tf.sigmoid(log_odds)
            self._observe(step, state, new_state, None, weights, None, probability)
            records = self._record(records, step, [log_odds, *self._kept(weights)])
            return step + 1, new_state, memory, states.write(step, new_state), records

        states = tf.TensorArray(self.inputs.dtype, depth, element_shape=self.inputs.shape)
        start = (
            tf.constant(0),
            self.inputs,
            recurrence.cell.start(self.inputs),
            states,
            self._arrays(depth, True),
        )
        _, _, _, states, records = tf.while_loop(
            lambda step, *_: step < depth, body, start, maximum_iterations=depth
        )
        log_odds, *attention = [array.stack() for array in records]
        output, fields = unit.over_all_steps(
            tf.ensure_shape(log_odds, [depth, *log_odds.shape[1:]]),
            tf.ensure_shape(states.stack(), [depth, *self.inputs.shape]),
            counted,
        )
        return output, self._with_attention(RecurrenceDetails(mask=counted, **fields), attention)

    @property
    def _shares_graph(self) -> bool:
        """Whether all steps of a fixed depth share a graph: in training, where only states are
        asked for.
        """
        if not self.training or tf.executing_eagerly() or self.observer or self.attention_parts:
            return False
        return steps_are_alike(self.recurrence)

    @property
    def _max_steps(self) -> int:
        return self.recurrence.halting_unit.max_steps(self.training)

    def _advance(self, step: Any, state: Any, memory: Any) -> tuple[Any, Any, Any, tuple[Any, Any]]:
        recurrence = self.recurrence
        seen, memory = recurrence.cell.look(state, memory, step)
        prepared = recurrence.coordinates(seen, step=step, position_signal=self.signal)
        block_output, *weights = recurrence.block(
            prepared, context=self.context, training=self.training, step=step
        )
        new_state, new_memory = recurrence.cell(block_output, state, memory, self.inputs)
        return prepared, new_state, new_memory, (weights[0], weights[1])

    def _observe(
        self,
        step: Any,
        previous: Any,
        state: Any,
        output: Any,
        weights: tuple[Any, Any],
        halting: HaltingState | None = None,
        probability: Any = None,
    ) -> None:
        if self.observer is not None:
            step = tf.convert_to_tensor(step)
            self.observer(StepView(step, state, halting, probability, *weights, previous, output))

    def _kept(self, weights: tuple[Any, Any]) -> list[Any]:
        return [weights[part] for part in self.attention_parts]

    def _arrays(self, depth: Any, with_probability: bool) -> tuple[Any, ...]:
        batch, length = self.inputs.shape[:2]
        block, layers = self.recurrence.block, self.recurrence.layers_per_step
        memory_keys = tf.nest.flatten(self.context.memory_keys)[0]
        memory_length = None if memory_keys is None else memory_keys.shape[2]
        shapes = [[batch, length]] if with_probability else []
        for part in self.attention_parts:
            weights = [batch, block.num_heads, length, (length, memory_length)[part]]
            shapes.append(weights if layers is None else [layers, *weights])
        return tuple(tf.TensorArray(tf.float32, depth, element_shape=shape) for shape in shapes)

    def _record(self, arrays: tuple[Any, ...], step: Any, values: list[Any]) -> tuple[Any, ...]:
        return tuple(array.write(step, value) for array, value in zip(arrays, values, strict=True))

    def _with_attention(
        self, details: RecurrenceDetails, attention: list[Any]
    ) -> RecurrenceDetails:
        """Returns the details with the recorded attention weights of all layers of all steps."""
        if self.recurrence.layers_per_step is not None:
            attention = [
                tf.reshape(part, tf.concat([[-1], tf.shape(part)[2:]], 0)) for part in attention
            ]
        own, memory, *_ = [*attention, None, None]
        return details._replace(attention_weights=own, memory_attention_weights=memory)
