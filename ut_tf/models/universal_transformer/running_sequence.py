"""The steps of a recurrence over a whole sequence, of the positions that have not halted alone.

A halted position is not computed again: its state stays, and the others go on reading its keys and
values. These change from step to step, since the step's coordinates P are added to all states.
Where the block projects the states as they are (post-norm), W (h + P) = W h + W P: W h is kept.
Where a norm comes first (pre-norm), keys and values of all positions are computed at every step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import tensorflow as tf

from ut_tf.layers.block import BlockContext
from ut_tf.layers.coordinates import add_signal, rotate
from ut_tf.layers.recurrence_details import RecurrenceDetails
from ut_tf.layers.running_positions import (
    RunningPositions,
    head_rows,
    part_rows,
    placed_rows,
    replace_rows,
    with_batch,
)
from ut_tf.models.universal_transformer.cells import BasicCell
from ut_tf.models.universal_transformer.exit_rules import Exits
from ut_tf.models.universal_transformer.halting.base import HaltingState, start_halting

if TYPE_CHECKING:
    from ut_tf.models.universal_transformer.recurrence import Recurrence


def can_skip_halted(recurrence: Recurrence) -> bool:
    """Whether others read nothing of a halted position but its keys and values, and a position's
    halting depends on itself alone.
    """
    return (
        recurrence.reads_only_keys
        and recurrence.block.self_attention is not None
        and recurrence.halting_unit.works_incrementally
        and not recurrence.coordinates.needs_all_positions
    )


class Rows(NamedTuple):
    """What the loop carries of the running positions.

    Fields:
      index: int32 [rows], ascending: of each in the batch's positions [batch * length].
      state: [rows, hidden_size].
      memory: the cell's, tensors [rows, ...].
      output: float32 [rows, hidden_size].
      halting: HaltingState of [rows].
      carried: the exit rule's, tensors [rows, ...].
    """

    index: Any
    state: Any
    memory: Any
    output: Any
    halting: HaltingState
    carried: Any

    def part(self, condition: Any) -> tuple[Rows, Rows]:
        """The rows where `condition`, bool [rows], is false, and those where it is true."""

        def parted() -> tuple[Rows, Rows]:
            numbers = tf.range(tf.size(self.index))
            false, true = tf.dynamic_partition(numbers, tf.cast(condition, tf.int32), 2)
            pairs = [part_rows(values, false, true) for values in tf.nest.flatten(self)]
            first, second = (
                tf.nest.pack_sequence_as(self, part) for part in zip(*pairs, strict=True)
            )
            return first, second

        def undivided() -> tuple[Rows, Rows]:
            return tf.nest.map_structure(lambda values: values[:0], self), self

        parts: tuple[Rows, Rows] = tf.cond(tf.reduce_all(condition), undivided, parted)
        return parts


class Records(NamedTuple):
    """What the loop has written down: arrays of one entry before the first step and one for each
    step, of as many rows as there were.

    Fields:
      halted: int32 [rows], positions that halted at the step.
      outputs: float32 [rows, hidden_size], theirs.
      haltings: float32 [rows, 3], their HaltingState.
      running: int32 [rows], positions that ran, in [max_steps * batch * length].
      probabilities: float32 [rows], theirs.

    The last three are () where depth does not follow from halting.
    """

    halted: Any
    outputs: Any
    haltings: Any
    running: Any
    probabilities: Any

    @classmethod
    def empty(cls, width: int, dtype: Any, of_halting: bool) -> Records:
        """Records of outputs [rows, width], and of their halting."""

        def array(kind: Any, *shape: int) -> Any:
            return tf.TensorArray(
                kind, 0, dynamic_size=True, infer_shape=False, element_shape=[None, *shape]
            )

        # TensorFlow complains of an array that nobody reads.
        halting = (array(tf.float32, 3), array(tf.int32), array(tf.float32))
        return cls(array(tf.int32), array(dtype, width), *(halting if of_halting else [()] * 3))

    def with_halted(self, step: Any, rows: Rows) -> Records:
        """The records with the rows that halted at `step`."""
        records = self._replace(
            halted=self.halted.write(step, rows.index),
            outputs=self.outputs.write(step, rows.output),
        )
        if self.haltings == ():
            return records
        return records._replace(haltings=self.haltings.write(step, tf.stack(rows.halting, -1)))

    def with_probabilities(self, step: Any, index: Any, probabilities: Any) -> Records:
        """The records with the halting probabilities [rows] of those that ran at `step`."""
        return self._replace(
            running=self.running.write(step, index),
            probabilities=self.probabilities.write(step, probabilities),
        )


class RunningSequence:
    """One pass through a recurrence for which ``can_skip_halted`` holds.

    Args:
      recurrence: whose parts are used.
      inputs: [batch, length, hidden_size], in the compute dtype.
      mask: float32 [batch, length], 0 on padding.
      signal: position signal of every step, or None.
      context: BlockContext.
      training: as for ``Recurrence``.
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
    ) -> None:
        self.recurrence = recurrence
        batch_size = tf.shape(inputs)[0]
        signal = with_batch(signal, batch_size)
        self.inputs = inputs
        self.mask = mask
        self.signal = signal
        self.context = context
        self.training = training
        self.exits = exits
        # A norm of h + P is not the sum of anything of h and of P.
        coordinates = recurrence.coordinates
        keeps = coordinates.is_constant or (recurrence.block.norm == "post" and coordinates.is_sum)
        make_keys = _KeptKeys if keeps else _ComputedKeys
        rotation = context.rotation
        if rotation is not None:
            rotation = (with_batch(rotation[0], batch_size), with_batch(rotation[1], batch_size))
        self.keys = make_keys(recurrence, inputs, signal, rotation)
        self.batch_size, self.length = batch_size, tf.shape(inputs)[1]
        self.count = self.batch_size * self.length

    def until_halted(self) -> tuple[Any, RecurrenceDetails]:
        """Runs until every position has halted, at most ``max_steps`` steps."""
        unit = self.recurrence.halting_unit
        depth = unit.max_steps(self.training)
        counted = unit.counted(self.mask)

        def body(step: Any, rows: Rows, records: Records, projected: Any) -> Any:
            prepared, new_state, memory = self._advance(step, rows, projected)
            ones = tf.ones_like(rows.index[None], tf.float32)
            probability = unit(prepared, new_state, counted=ones, step=step)
            now = (tf.squeeze(new_state, 0), rows.state, rows.output, rows.halting)
            probability, carried = self.exits.check(
                step, tf.squeeze(probability, 0), *now, rows.carried
            )
            state, output, halting, _ = unit.advance(probability, step == depth - 1, *now)
            projected = self.keys.update(projected, rows.index, state)
            records = records.with_probabilities(
                step + 1, step * self.count + rows.index, probability
            )
            rows = Rows(rows.index, state, memory, output, halting, carried)
            halted, rows = rows.part(halting.halting_sum < unit.threshold)
            return step + 1, rows, records.with_halted(step + 1, halted), projected

        records = self._loop(body, counted, depth, tf.float32, True)
        index = records.halted.concat()
        haltings = placed_rows(records.haltings.concat(), index, self.count)
        halting = HaltingState(*(self._as_batch(values) for values in tf.unstack(haltings, 3, -1)))
        probabilities = placed_rows(
            records.probabilities.concat(), records.running.concat(), depth * self.count
        )
        details = RecurrenceDetails(
            halting.ponder_times,
            halting.remainders,
            counted,
            tf.reshape(probabilities, [depth, self.batch_size, self.length]),
            costs=unit.costs(halting),
            computed_steps=halting.ponder_times,
        )
        output = placed_rows(records.outputs.concat(), index, self.count)
        return self._as_batch(output), details

    def depth_per_example(self, steps: Any) -> tuple[Any, RecurrenceDetails]:
        """Runs each example's own number of steps, int32 [batch]."""
        recurrence = self.recurrence

        def body(step: Any, rows: Rows, records: Records, projected: Any) -> Any:
            _, new_state, memory = self._advance(step, rows, projected)
            projected = self.keys.update(projected, rows.index, tf.squeeze(new_state, 0))
            output = recurrence.final_state(tf.squeeze(new_state, 0), memory)
            rows = rows._replace(state=tf.squeeze(new_state, 0), memory=memory, output=output)
            running = step + 1 < tf.gather(steps, rows.index // self.length)
            halted, rows = rows.part(running)
            return step + 1, rows, records.with_halted(step + 1, halted), projected

        records = self._loop(body, self.mask, tf.reduce_max(steps), self.inputs.dtype, False)
        output = placed_rows(records.outputs.concat(), records.halted.concat(), self.count)
        times = tf.cast(steps, tf.float32)[:, None] * self.mask
        details = RecurrenceDetails(times, tf.zeros_like(times), self.mask)
        return self._as_batch(output), details

    def _loop(
        self, body: Callable[..., Any], counted: Any, depth: Any, output_dtype: Any, halting: bool
    ) -> Records:
        """Runs `body` until no rows are left, at most `depth` times; whether `halting` is recorded
        as well.
        """
        inputs = tf.reshape(self.inputs, [-1, self.inputs.shape[-1]])
        # Where the mask is a constant, TensorFlow's constant folding takes the first step's number
        # of rows for that of all steps.
        counted = tf.compat.v1.placeholder_with_default(tf.reshape(counted, [-1]), [None])
        everything = Rows(
            tf.range(self.count),
            inputs,
            self._cell_start(inputs),
            tf.zeros_like(inputs, output_dtype),
            start_halting(counted),
            self.exits.start(inputs),
        )
        padding, rows = everything.part(counted > 0)
        # Padding has halted from the start; what is left when the depth is reached comes last.
        start = Records.empty(inputs.shape[-1], output_dtype, halting).with_halted(0, padding)
        if halting:
            start = start.with_probabilities(0, tf.zeros([0], tf.int32), tf.zeros([0]))
        variables = (tf.constant(0), rows, start, self.keys.start(inputs))
        records: Records
        step, rows, records, _ = tf.while_loop(
            lambda _, rows, *__: tf.size(rows.index) > 0,
            body,
            variables,
            shape_invariants=tf.nest.map_structure(_any_rows, variables),
            maximum_iterations=depth,
        )
        return records.with_halted(step + 1, rows)

    def _cell_start(self, inputs: Any) -> Any:
        if type(self.recurrence.cell) is BasicCell:
            return ()  # It carries nothing.
        memory = self.recurrence.cell.start(inputs[None])
        return tf.nest.map_structure(lambda values: tf.squeeze(values, 0), memory)

    def _advance(self, step: Any, rows: Rows, projected: Any) -> tuple[Any, Any, Any]:
        """(What the block reads and the new states, [1, rows, hidden_size], the cell's memory)."""
        recurrence = self.recurrence
        running = RunningPositions.of(rows.index, self.batch_size, self.length)
        signal = None if self.signal is None else running.rows_of(self.signal)
        prepared = recurrence.coordinates(
            tf.expand_dims(rows.state, 0), step=step, position_signal=signal
        )
        context = self.context._replace(running=running, **self.keys.at(step, projected))
        block_output, *_ = recurrence.block(
            prepared, context=context, training=self.training, step=step
        )
        memory = tf.nest.map_structure(lambda values: tf.expand_dims(values, 0), rows.memory)
        new_state, memory = recurrence.cell(
            block_output, tf.expand_dims(rows.state, 0), memory, running.rows_of(self.inputs)
        )
        return (
            prepared,
            new_state,
            tf.nest.map_structure(lambda values: tf.squeeze(values, 0), memory),
        )

    def _as_batch(self, values: Any) -> Any:
        """Values [batch * length, ...] as [batch, length, ...]."""
        shape = tf.concat([[self.batch_size, self.length], tf.shape(values)[1:]], 0)
        return tf.ensure_shape(
            tf.reshape(values, shape), [*self.inputs.shape[:2], *values.shape[1:]]
        )


class _ComputedKeys:
    """Keys and values that are computed for all positions at every step.

    Args:
      recurrence: whose self-attention reads them.
      inputs: [batch, length, hidden_size].
      signal: position signal of every step, or None.
      rotation: of the positions, or None.
    """

    def __init__(self, recurrence: Recurrence, inputs: Any, signal: Any, rotation: Any) -> None:
        self.recurrence = recurrence
        self.shape = tf.shape(inputs)
        self.signal = signal
        self.rotation = rotation

    def start(self, states: Any) -> Any:
        """What is kept of states [batch * length, hidden_size] before the first step."""
        return states

    def update(self, kept: Any, index: Any, states: Any) -> Any:
        """What is kept, with the new states [rows, hidden_size] of positions `index`."""
        return replace_rows(kept, index, states)

    def at(self, step: Any, kept: Any) -> dict[str, Any]:
        """Fields of ``BlockContext`` at recurrent step `step`."""
        block = self.recurrence.block
        prepared = self.recurrence.coordinates(
            tf.reshape(kept, self.shape), step=step, position_signal=self.signal
        )
        prepared = block.self_attention_norm(prepared) if block.norm == "pre" else prepared
        keys, values = block.self_attention.keys_values(prepared, self.rotation)
        return {"keys": keys, "values": values}


class _KeptKeys:
    """Keys and values that are kept but for what a step adds to all of them; arguments and methods
    as of ``_ComputedKeys``.
    """

    def __init__(self, recurrence: Recurrence, inputs: Any, signal: Any, rotation: Any) -> None:
        self.recurrence = recurrence
        self.attention = recurrence.block.self_attention
        self.batch_size, self.length = tf.shape(inputs)[0], tf.shape(inputs)[1]
        self.signal = signal
        self.rotation = rotation
        # Read and joined once for all steps.
        self.weights = self.attention.key_value_weights()

    def start(self, states: Any) -> Any:
        positions = RunningPositions.of(tf.range(tf.shape(states)[0]), self.batch_size, self.length)
        heads, head_size = self.attention.num_heads, self.attention.head_size
        shape = [self.batch_size, self.length, heads, head_size]
        return tuple(
            tf.reshape(tf.transpose(tf.reshape(values, shape), [0, 2, 1, 3]), [-1, head_size])
            for values in self._keys_values(positions, states)
        )

    def update(self, kept: Any, index: Any, states: Any) -> Any:
        positions = RunningPositions.of(index, self.batch_size, self.length)
        heads, head_size = self.attention.num_heads, self.attention.head_size
        rows = head_rows(positions.example, positions.position, heads, self.length)
        return tuple(
            replace_rows(values, rows, tf.reshape(new, [-1, head_size]))
            for values, new in zip(kept, self._keys_values(positions, states), strict=True)
        )

    def _keys_values(self, positions: RunningPositions, states: Any) -> tuple[Any, Any]:
        """Of states [rows, hidden_size], as far as steps have them in common: [rows, num_heads,
        head_size] each.
        """
        if self.signal is not None:
            signal = tf.squeeze(positions.rows_of(self.signal), 0)
            states = add_signal(states, signal, self.recurrence.compute_dtype)
        if self.recurrence.block.norm == "pre":
            states = self.recurrence.block.self_attention_norm(states)
        keys, values = self.attention.key_value_rows(states, self.weights)
        if self.rotation is not None:
            cosines, sines = (
                tf.squeeze(positions.rows_of(tf.transpose(table, [0, 2, 1, 3])), 0)
                for table in self.rotation
            )
            keys = rotate(keys, (cosines, sines))
        return keys, values

    def at(self, step: Any, kept: Any) -> dict[str, Any]:
        attention = self.attention
        shape = [self.batch_size, attention.num_heads, self.length, attention.head_size]
        keys, values = (tf.reshape(values, shape) for values in kept)
        signal = self.recurrence.coordinates.step_signal(step)
        signal = tf.zeros([attention.hidden_size]) if signal is None else signal
        key_shift, value_shift = (
            shift[:, :, None]
            for shift in attention.key_value_rows(signal[None], self.weights, True)
        )
        # Without rotation a shift of all keys adds the same to all logits of a query.
        if self.rotation is not None:
            keys += rotate(key_shift, self.rotation)
        return {"keys": keys, "values": values, "value_shift": value_shift}


def _any_rows(values: Any) -> tf.TensorShape:
    """The shape of a loop's variable whose first dimension changes."""
    if isinstance(values, tf.TensorArray):
        return tf.TensorShape(None)
    return tf.TensorShape([None, *values.shape[1:]]) if values.shape.rank else values.shape
