"""The position of each symbol of inputs and targets, as a number.

::

    positions = Positions(position_from="end")
    assigned = positions(batch_size=8, size=85, training=True)
    of_inputs = positions.inputs(assigned, length, lengths)    # float32 [batch or 1, length]
    signal = LearnedPositions(128, 512).signal(of_inputs)      # [batch or 1, length, 128]

The index of a symbol counts from 1 (0 is the start symbol). The model encodes the position that is
assigned to the index (``position_encodings``), the same for inputs and targets of an example. In
training positions may have a random offset or be random increasing numbers; at inference they are
linear.
"""

import math
from typing import Any

import keras
import tensorflow as tf

from ut_tf.layers.dropout import replica_seed
from ut_tf.symbols import FIRST_SYMBOL_ID

_CONTIGUOUS_SHARE = 0.3
"""Share of the examples whose positions are not spread under position_offset="mixed"."""


@keras.saving.register_keras_serializable("ut_tf")
class Positions(keras.layers.Layer):  # type: ignore[misc]
    """Assigns positions to the symbols of a batch.

    Args:
      position_from: whether the inputs' positions count from the "start", or the "end"; "both":
        from the start (of rotary positions, which count both ways).
      target_position: whether the targets' positions count from the "start", "continue" behind the
        inputs, or go "backward" from the inputs' last symbol.
      end_position: position of the last input symbol where they count from the end.
      position_separator: id of an input symbol behind which positions begin again; 0: none.
      position_digits: how many ids, from the first symbol's on, are digits. A digit's position is
        its place in its numeral, from 1 at the last; other symbols are at 0. 0: none are.
      position_offset: "none", "random", "mixed" or "randomised", in training.
      max_position_offset: the largest random offset, or the largest position of spread ones.
      eval_position_offset: the offset at evaluation.
      eval_position_stride: by how much positions grow from symbol to symbol at evaluation.
      input_start_symbol: whether a symbol at position 0 stands before the inputs.

    Call arguments:
      batch_size: int32 [].
      size: int32 [], indices that may be asked for (0 to size - 1).
      training: whether offsets are drawn.

    Returns:
      float32 [batch or 1, 1] offset, or [batch, size] position of every index; for ``inputs`` and
      ``targets``.
    """

    def __init__(
        self,
        position_from: str = "start",
        target_position: str = "start",
        end_position: int = 1,
        position_separator: int = 0,
        position_digits: int = 0,
        position_offset: str = "none",
        max_position_offset: int = 0,
        eval_position_offset: int = 0,
        eval_position_stride: int = 1,
        input_start_symbol: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.position_from = position_from
        self.target_position = target_position
        self.end_position = end_position
        self.position_separator = position_separator
        self.position_digits = position_digits
        self.position_offset = position_offset
        self.max_position_offset = max_position_offset
        self.eval_position_offset = eval_position_offset
        self.eval_position_stride = eval_position_stride
        self.input_start_symbol = input_start_symbol
        self.seed_generator = keras.random.SeedGenerator() if position_offset != "none" else None
        self.built = True

    def call(self, batch_size: Any, size: Any, training: bool = False) -> Any:
        if self.seed_generator is None or not training:
            return tf.constant([[float(self.eval_position_offset)]])
        seed = replica_seed(self.seed_generator.next())
        if self.position_offset == "mixed":
            return spread_positions(batch_size, size, self.max_position_offset, seed)
        if self.position_offset == "randomised":
            return random_subset(batch_size, size, self.max_position_offset, seed)
        offsets = tf.random.stateless_uniform(
            [batch_size, 1], seed, 0, self.max_position_offset + 1, tf.int32
        )
        return tf.cast(offsets, tf.float32)

    def inputs(
        self,
        assigned: Any,
        length: Any,
        lengths: Any,
        backward: bool | None = None,
        ids: Any = None,
    ) -> Any:
        """Returns the positions of the inputs, float32 [batch or 1, length].

        Args:
          assigned: what the call returned.
          length: int32 [], columns of the inputs, the start symbol included where there is one.
          lengths: float32 [batch], symbols of each example, without the start symbol.
          backward: whether to count from the last symbol, which is end_position; None: as
            configured.
          ids: int32 [batch, length], for position_separator and position_digits; None: positions
            are those of the columns.
        """
        first = 0.0 if self.input_start_symbol else 1.0
        index = tf.range(length, dtype=tf.float32)[None] + first
        lengths = tf.cast(lengths, tf.float32)
        backward = self.position_from == "end" if backward is None else backward
        if self.position_separator and ids is not None and not backward:
            index -= _last_before(tf.cast(ids, tf.int32) == self.position_separator, index)
        if self.position_digits and ids is not None and not backward:
            index = _position_inputs(tf.cast(ids, tf.int32), self.position_digits)
        return self._look_up(
            assigned, lengths[:, None] + float(self.end_position) - index if backward else index
        )

    def targets(self, assigned: Any, order: Any, input_lengths: Any) -> Any:
        """The positions of decoder inputs, float32 [batch or 1, length].

        Args:
          assigned: what the call returned.
          order: float32 [1, length], from 0.
          input_lengths: float32 [batch], symbols of the inputs; None: there are none.
        """
        if self.target_position == "start" or input_lengths is None:
            return self._look_up(assigned, order + 1.0)
        last = input_lengths[:, None]
        return self._look_up(
            assigned, last - order if self.target_position == "backward" else last + order + 1.0
        )

    def _look_up(self, assigned: Any, index: Any) -> Any:
        if assigned.shape[-1] == 1:
            return assigned + (
                index
                if self.eval_position_stride == 1
                else index * float(self.eval_position_stride)
            )
        size = tf.shape(assigned)
        rows = tf.broadcast_to(tf.cast(index, tf.int32), [size[0], tf.shape(index)[1]])
        return tf.gather(assigned, tf.clip_by_value(rows, 0, size[1] - 1), batch_dims=1)


def _last_before(named: Any, index: Any) -> Any:
    """Returns float32 [batch, length], the largest `index` [1, length] of an earlier column that
    `found` [batch, length] names, else 0.
    """
    earlier = named[:, None, :] & (index[0, None, None, :] < index[0, None, :, None])
    return tf.reduce_max(tf.where(earlier, index[:, None, :], 0.0), -1)


def _position_inputs(ids: Any, digits: int) -> Any:
    """Returns float32 [batch, length], the place of each digit in its numeral, from 1 at the last;
    0 at other symbols. In `ids`, int32 [batch, length], FIRST_SYMBOL_ID to FIRST_SYMBOL_ID + digits
    - 1 are digits.
    """
    is_digit = (ids >= FIRST_SYMBOL_ID) & (ids < FIRST_SYMBOL_ID + digits)
    column = tf.range(tf.shape(ids)[1])
    is_later = column[None, :] > column[:, None]
    # The column after the last one ends a numeral, too.
    ends = tf.where(is_digit, tf.shape(ids)[1], column)
    end = tf.reduce_min(tf.where(is_later, ends[:, None, :], tf.shape(ids)[1]), -1)
    return tf.where(is_digit, tf.cast(end - column, tf.float32), 0.0)


def random_subset(batch_size: Any, size: Any, largest: int, seed: Any) -> Any:
    """Returns float32 [batch, size], each row `size` different positions of 0 … largest - 1,
    increasing; seed int32 [2].
    """
    # The `size` smallest of random keys are a random subset, without replacement.
    keys = tf.random.stateless_uniform([batch_size, largest], seed)
    return tf.cast(tf.sort(tf.math.top_k(-keys, size).indices, axis=-1), tf.float32)


def spread_positions(batch_size: Any, size: Any, largest: int, seed: Any) -> Any:
    """Draws increasing positions: in most examples a random subset of a window, in the others
    neighbours; at a random offset.

    Args:
      batch_size: int32 [].
      size: int32 [], positions per example.
      largest: upper end of the positions; at least `size`.
      seed: int32 [2].

    Returns:
      float32 [batch, size], increasing along each row.
    """
    draw = [
        tf.random.stateless_uniform([batch_size, 1], seed + tf.constant([salt, 0], tf.int32))
        for salt in range(1, 4)
    ]
    smallest = tf.cast(size, tf.float32)
    width = tf.floor(
        tf.exp(tf.math.log(smallest) + draw[0] * (math.log(largest) - tf.math.log(smallest)))
    )
    width = tf.clip_by_value(
        tf.where(draw[1] < _CONTIGUOUS_SHARE, smallest, width), smallest, float(largest)
    )
    # The `size` smallest of random keys inside the window are a random subset of it, without
    # replacement.
    keys = tf.random.stateless_uniform([batch_size, largest], seed)
    keys += 2.0 * tf.cast(tf.range(largest, dtype=tf.float32)[None] >= width, tf.float32)
    chosen = tf.sort(tf.math.top_k(-keys, size).indices, axis=-1)
    offset = tf.floor(draw[2] * (float(largest) - width + 1.0))
    return tf.cast(chosen - chosen[:, :1], tf.float32) + offset
