"""The loop over the positions that have not halted.

A halted position is not computed again: its state stays, and the others go on reading its keys and
values. These change from step to step, since the step's coordinates P are added to all states.
Where the block projects the states as they are (post-norm), W (h + P) = W h + W P: W h is kept.
Where a norm comes first (pre-norm), keys and values of all positions are computed at every step.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from ut_tf.layers.active_positions import (
    ActivePositions,
    head_rows,
    part_rows,
    placed_rows,
    replace_rows,
    with_batch,
)
from ut_tf.layers.added_losses import LoopLosses
from ut_tf.layers.block import Block
from ut_tf.layers.coordinates import add_signal, rotate
from ut_tf.layers.recurrence_details import RecurrenceDetails
from ut_tf.models.universal_transformer.depth import Depth
from ut_tf.models.universal_transformer.halting.base import Halting
from ut_tf.models.universal_transformer.loops import LoopInputs
from ut_tf.models.universal_transformer.step import Carry, RecurrentStep


def reads_only_keys(step: RecurrentStep, halting: Halting) -> bool:
    """Whether others see a halted position only through its keys and values, which follow from its
    state alone.
    """
    return (
        halting.copies_halted_states and step.block.remembers_only_keys and step.reads_state_alone
    )


def can_skip_halted(step: RecurrentStep, halting: Halting) -> bool:
    """Whether the loop over active positions is exact: others see a halted position only through
    its keys and values, and a position's halting depends on itself alone.
    """
    return (
        reads_only_keys(step, halting)
        and isinstance(step.block, Block)
        and step.block.num_heads > 0
        and halting.works_incrementally
        and not step.coordinates.needs_all_positions
        and not _is_regularized(step)
    )


def computes_on_gpu() -> bool:
    """Whether the present distribution strategy, or without one the program, uses a GPU."""
    if not tf.distribute.has_strategy():
        return bool(tf.config.list_logical_devices("GPU"))
    return any("GPU" in name for name in tf.distribute.get_strategy().extended.worker_devices)


def _is_regularized(step: RecurrentStep) -> bool:
    """Whether a layer has an activity regularizer: Keras divides its loss by the first dimension
    of the outputs, which is 1 for the active positions of all examples.
    """
    parts = (part for layer in step.layers for part in layer._flatten_layers())
    return any(part.activity_regularizer is not None for part in parts)


class Rows(NamedTuple):
    """The active positions.

    Fields:
      index: int32 [rows], ascending: of each in the batch's positions [batch * length].
      carry: Carry of [rows, ...].
      kept: what the depth keeps of them, [rows, ...].
    """

    index: Any
    carry: Carry
    kept: Any

    def part(self, condition: Any) -> "tuple[Rows, Rows]":
        """Returns the rows with a false `condition`, bool [rows], and those with a true one."""

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
    """The positions that have halted: arrays of one entry before the first step and one for each
    step.

    Fields:
      index: int32 [rows], in [batch * length].
      outputs: [rows, hidden_size].
      records: float32 [rows, width], of the depth, or ().
    """

    index: Any
    outputs: Any
    records: Any

    def with_halted(self, number: Any, depth: Depth, rows: Rows) -> "Records":
        """Returns the records with the rows that halted, as entry `number`."""
        records = self.records
        if records != ():
            records = records.write(number, depth.record(rows.kept))
        return Records(
            self.index.write(number, rows.index),
            self.outputs.write(number, depth.output(rows.carry, rows.kept)),
            records,
        )


class CompactLoop:
    """Repeats a step over the active positions; ``can_skip_halted`` must hold.

    Args:
      step: RecurrentStep, of a ``Block``.
      given: LoopInputs.
    """

    def __init__(self, step: RecurrentStep, given: LoopInputs) -> None:
        batch_size, length = tf.shape(given.inputs)[0], tf.shape(given.inputs)[1]
        rotation = given.context.rotation
        if rotation is not None:
            rotation = (with_batch(rotation[0], batch_size), with_batch(rotation[1], batch_size))
        self.step = step
        self.given = given._replace(signal=with_batch(given.signal, batch_size))
        self.keys = _keys(step, self.given, rotation)
        self.batch_size, self.length, self.count = batch_size, length, batch_size * length

    def repeated(
        self, depth: Depth, carry: Carry, counted: Any, mask: Any
    ) -> tuple[Any, RecurrenceDetails]:
        """Takes steps until no position is active, at most ``depth.bound``.

        Args:
          depth: Depth.
          carry: of [batch, length, ...], before the first step.
          counted: float32 [batch, length], 0 for positions that take no step.
          mask: float32 [batch, length], 0 on padding.

        Returns:
          (states [batch, length, hidden_size], RecurrenceDetails).
        """
        losses = LoopLosses([*self.step.layers, *depth.layers])

        def body(index: Any, rows: Rows, records: Records, keys: Any, added: Any) -> Any:
            rows, keys = self._advance(depth, index, rows, keys)
            halted, rows = rows.part(depth.active(index + 1, rows.kept))
            records = records.with_halted(index + 1, depth, halted)
            return index + 1, rows, records, keys, losses.collected(added)

        # Padding has halted from the start.
        padding, rows = self._everything(depth, carry, counted)
        records = self._no_records(depth, padding).with_halted(0, depth, padding)
        keys = self.keys.start(tf.reshape(carry.state, [-1, carry.state.shape[-1]]))
        variables = (tf.constant(0), rows, records, keys, losses.start())
        index, rows, records, _, added = tf.while_loop(
            lambda _, rows, *__: tf.size(rows.index) > 0,
            body,
            variables,
            shape_invariants=tf.nest.map_structure(_any_rows, variables),
            maximum_iterations=depth.bound,
        )
        losses.add(added)
        # What is left when the depth is reached comes last.
        records = records.with_halted(index + 1, depth, rows)
        where, record = records.index.concat(), None
        if records.records != ():
            record = self._as_batch(placed_rows(records.records.concat(), where, self.count))
        output = self._as_batch(placed_rows(records.outputs.concat(), where, self.count))
        return output, depth.details(record, mask, None)

    def _everything(self, depth: Depth, carry: Carry, counted: Any) -> tuple[Rows, Rows]:
        """Returns the positions that take no step, and all others."""
        kept = depth.start(carry, counted)
        flat = tf.nest.map_structure(
            lambda values: tf.reshape(values, tf.concat([[-1], tf.shape(values)[2:]], 0)),
            (carry, kept),
        )
        # Where the mask is a constant, TensorFlow's constant folding takes the first step's number
        # of rows for that of all steps.
        counted = tf.compat.v1.placeholder_with_default(tf.reshape(counted, [-1]), [None])
        return Rows(tf.range(self.count), *flat).part(counted > 0)

    def _no_records(self, depth: Depth, rows: Rows) -> Records:
        def array(like: Any) -> Any:
            shape = [None, *like.shape[1:]]
            return tf.TensorArray(
                like.dtype, 0, dynamic_size=True, infer_shape=False, element_shape=shape
            )

        record = depth.record(rows.kept)
        # TensorFlow complains of an array that nobody reads.
        return Records(
            array(rows.index),
            array(depth.output(rows.carry, rows.kept)),
            () if record is None else array(record),
        )

    def _advance(self, depth: Depth, index: Any, rows: Rows, keys: Any) -> tuple[Rows, Any]:
        """Returns the rows after a step, and the keys of all positions."""
        active = ActivePositions.of(rows.index, self.batch_size, self.length)
        signal = None if self.given.signal is None else active.rows_of(self.given.signal)
        context = self.given.context._replace(active=active, **self.keys.at(index, keys))
        inputs = active.rows_of(self.given.inputs)
        carry = tf.nest.map_structure(lambda values: tf.expand_dims(values, 0), rows.carry)
        new, trace = self.step(carry, inputs, index, signal, context, self.given.training)
        ones = tf.ones_like(rows.index[None], tf.float32)
        probability = depth.probability(trace, new, ones, index)
        probability = None if probability is None else tf.squeeze(probability, 0)
        new = tf.nest.map_structure(lambda values: tf.squeeze(values, 0), new)
        carry, kept, _ = depth.after(index, probability, rows.carry, new, rows.kept)
        return Rows(rows.index, carry, kept), self.keys.update(keys, rows.index, carry.state)

    def _as_batch(self, values: Any) -> Any:
        """Values [batch * length, ...] as [batch, length, ...]."""
        shape = tf.concat([[self.batch_size, self.length], tf.shape(values)[1:]], 0)
        return tf.ensure_shape(
            tf.reshape(values, shape), [*self.given.inputs.shape[:2], *values.shape[1:]]
        )


def _keys(step: RecurrentStep, given: LoopInputs, rotation: Any) -> "CachedKeys | RecomputedKeys":
    block, coordinates = step.block, step.coordinates
    assert isinstance(block, Block)
    # A norm of h + P is not the sum of anything of h and of P.
    is_sum = coordinates.is_constant or (block.norm == "post" and coordinates.is_sum)
    if is_sum and not block.self_attention.qk_norm:
        return CachedKeys(step, given, rotation)
    return RecomputedKeys(step, given, rotation)


class RecomputedKeys:
    """Keys and values that are computed for all positions at every step.

    Args:
      step: whose self-attention reads them.
      given: LoopInputs.
      rotation: of the positions, or None.
    """

    def __init__(self, step: RecurrentStep, given: LoopInputs, rotation: Any) -> None:
        self.coordinates = step.coordinates
        self.injection = step.injection
        self.block: Any = step.block
        self.inputs = given.inputs
        self.signal = given.signal
        self.rotation = rotation

    def start(self, states: Any) -> Any:
        """Returns the kept values of states [batch * length, hidden_size] before the first step."""
        return states

    def update(self, kept: Any, index: Any, states: Any) -> Any:
        """Returns the kept values, with the new states [rows, hidden_size] of positions `index`."""
        return replace_rows(kept, index, states)

    def at(self, step: Any, kept: Any) -> dict[str, Any]:
        """Returns fields of ``BlockContext`` at recurrent step `step`."""
        read = tf.reshape(kept, tf.shape(self.inputs))
        read = read if self.injection is None else self.injection(read, self.inputs)
        read = self.coordinates(read, step=step, position_signal=self.signal)
        read = read if self.block.norm == "post" else self.block.self_attention_norm(read)
        keys, values = self.block.self_attention.keys_values(read, self.rotation)
        return {"keys": keys, "values": values}


class CachedKeys:
    """Keys and values that are kept from step to step, without the step's coordinates, which are
    the same for all positions; arguments and methods are those of ``RecomputedKeys``.
    """

    def __init__(self, step: RecurrentStep, given: LoopInputs, rotation: Any) -> None:
        block: Any = step.block
        self.coordinates = step.coordinates
        self.injection = step.injection
        self.inputs = given.inputs
        self.block = block
        self.attention = self.block.self_attention
        self.batch_size, self.length = tf.shape(given.inputs)[0], tf.shape(given.inputs)[1]
        self.signal = given.signal
        self.rotation = rotation
        # Read and joined once for all steps.
        self.weights = self.attention.key_value_weights()

    def start(self, states: Any) -> Any:
        positions = ActivePositions.of(tf.range(tf.shape(states)[0]), self.batch_size, self.length)
        heads, head_size = self.attention.num_heads, self.attention.head_size
        shape = [self.batch_size, self.length, heads, head_size]
        return tuple(
            tf.reshape(tf.transpose(tf.reshape(values, shape), [0, 2, 1, 3]), [-1, head_size])
            for values in self._keys_values(positions, states)
        )

    def update(self, kept: Any, index: Any, states: Any) -> Any:
        positions = ActivePositions.of(index, self.batch_size, self.length)
        heads, head_size = self.attention.num_heads, self.attention.head_size
        rows = head_rows(positions.example, positions.position, heads, self.length)
        return tuple(
            replace_rows(values, rows, tf.reshape(new, [-1, head_size]))
            for values, new in zip(kept, self._keys_values(positions, states), strict=True)
        )

    def _keys_values(self, positions: ActivePositions, states: Any) -> tuple[Any, Any]:
        """Returns keys and values of states [rows, hidden_size], as far as steps have them in
        common: [rows, num_heads, head_size] each.
        """
        if self.injection is not None:
            states = self.injection(states, tf.squeeze(positions.rows_of(self.inputs), 0))
        if self.signal is not None:
            signal = tf.squeeze(positions.rows_of(self.signal), 0)
            states = add_signal(states, signal, self.coordinates.compute_dtype)
        if self.block.norm != "post":
            states = self.block.self_attention_norm(states)
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
        signal = self.coordinates.step_signal(step)
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
