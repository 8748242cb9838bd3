"""Where the symbols of inputs and targets stand: positions that count from 1, random offsets and spreads, and directions.

A sequence's symbols have an index (the start symbol 0, the first symbol 1, …); the model adds coordinates not of the index but of the
position that ``Positions`` assigns to it. Inputs and targets of one example share the assignment, so that equal distances stay equal.
"""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf

from ut_tf.config import NetworkConfig
from ut_tf.layers.dropout import replica_seed

_CONTIGUOUS_SHARE = 0.3
"""Share of the examples whose positions are not spread under position_offset="mixed"."""


@keras.saving.register_keras_serializable("ut_tf")
class Positions(keras.layers.Layer):  # type: ignore[misc]
    """Assigns positions to the symbols of a batch.

    Args:
      network: its position_from, target_position, position_offset, max_position_offset and eval_position_offset are used.

    Call arguments:
      batch_size: int32 [].
      size: int32 [], indices that may be asked for (0 to size - 1).
      training: whether offsets are drawn.

    Returns:
      float32 [batch or 1, 1] offset, or [batch, size] position of every index; for ``inputs`` and ``targets``.
    """

    def __init__(self, network: NetworkConfig, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.network = network
        self.seed_generator = keras.random.SeedGenerator() if network.position_offset != "none" else None
        self.built = True

    def call(self, batch_size: Any, size: Any, training: bool = False) -> Any:
        if self.seed_generator is None or not training:
            return tf.constant([[float(self.network.eval_position_offset)]])
        seed = replica_seed(self.seed_generator.next())
        if self.network.position_offset == "mixed":
            return spread_positions(batch_size, size, self.network.max_position_offset, seed)
        offsets = tf.random.stateless_uniform([batch_size, 1], seed, 0, self.network.max_position_offset + 1, tf.int32)
        return tf.cast(offsets, tf.float32)

    def inputs(self, assigned: Any, length: Any, lengths: Any, backward: bool | None = None) -> Any:
        """Returns the positions of the inputs, float32 [batch or 1, length].

        Args:
          assigned: what the call returned.
          length: int32 [], columns of the inputs, the start symbol included where there is one.
          lengths: float32 [batch], symbols of each example, without the start symbol.
          backward: whether to count from the last symbol, which is 1; None: as configured.
        """
        first = 0.0 if self.network.input_start_symbol else 1.0
        index = tf.range(length, dtype=tf.float32)[None] + first
        lengths = tf.cast(lengths, tf.float32)
        backward = self.network.position_from == "end" if backward is None else backward
        return _look_up(assigned, lengths[:, None] + 1.0 - index if backward else index)

    def targets(self, assigned: Any, order: Any, input_lengths: Any) -> Any:
        """Returns the positions of decoder inputs, float32 [batch or 1, length], of their `order` (float32 [1, length], from 0)."""
        if self.network.target_position == "start" or input_lengths is None:
            return _look_up(assigned, order + 1.0)
        last = input_lengths[:, None]
        return _look_up(assigned, last - order if self.network.target_position == "backward" else last + order + 1.0)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "network": self.network.to_dict()}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Positions:
        return cls(**{**config, "network": NetworkConfig.from_dict(config["network"])})


def spread_positions(batch_size: Any, size: Any, largest: int, seed: Any) -> Any:
    """Draws increasing positions: in most examples a random subset of a window, in the others neighbours; at a random offset.

    Args:
      batch_size: int32 [].
      size: int32 [], positions per example.
      largest: upper end of the positions; at least `size`.
      seed: int32 [2].

    Returns:
      float32 [batch, size], increasing along each row.
    """
    draw = [tf.random.stateless_uniform([batch_size, 1], seed + tf.constant([salt, 0], tf.int32)) for salt in range(1, 4)]
    smallest = tf.cast(size, tf.float32)
    width = tf.floor(tf.exp(tf.math.log(smallest) + draw[0] * (math.log(largest) - tf.math.log(smallest))))
    width = tf.clip_by_value(tf.where(draw[1] < _CONTIGUOUS_SHARE, smallest, width), smallest, float(largest))
    # The `size` smallest of random keys inside the window are a random subset of it, without replacement.
    keys = tf.random.stateless_uniform([batch_size, largest], seed)
    keys += 2.0 * tf.cast(tf.range(largest, dtype=tf.float32)[None] >= width, tf.float32)
    chosen = tf.sort(tf.math.top_k(-keys, size).indices, axis=-1)
    offset = tf.floor(draw[2] * (float(largest) - width + 1.0))
    return tf.cast(chosen - chosen[:, :1], tf.float32) + offset


def _look_up(assigned: Any, index: Any) -> Any:
    if assigned.shape[-1] == 1:
        return assigned + index
    size = tf.shape(assigned)
    rows = tf.broadcast_to(tf.cast(index, tf.int32), [size[0], tf.shape(index)[1]])
    return tf.gather(assigned, tf.clip_by_value(rows, 0, size[1] - 1), batch_dims=1)
