"""Coordinates in depth and time: the paper's P (section 2.1), tensor2tensor's timing signals, and
rotations.

Positions are float32 [batch or 1, length] and count from 1, whatever the form; the forms that count
from 0 subtract 1. Everything here is float32: in bfloat16 only 513 of 1024 positions are distinct.
"""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf

from ut_tf.config.network import NetworkConfig


def paper_sinusoid(coordinates: Any, hidden_size: int) -> Any:
    """Returns the paper's sinusoids: float32 [...] -> [..., hidden_size].

    Channel 2j is sin(c / 10000^(2j/d)) and channel 2j+1 is cos(c / 10000^(2j/d)), arXiv 1807.03819
    equations 6 and 7.
    """
    exponents = tf.range(hidden_size // 2, dtype=tf.float32) * (2.0 / hidden_size)
    angles = coordinates[..., None] * tf.exp(-math.log(10000.0) * exponents)
    pairs = tf.stack([tf.sin(angles), tf.cos(angles)], -1)
    return tf.reshape(pairs, tf.concat([tf.shape(coordinates), [hidden_size]], 0))


def tensor2tensor_sinusoid(coordinates: Any, hidden_size: int) -> Any:
    """Returns tensor2tensor's sinusoids, all sines before all cosines: float32 [...] -> [...,
    hidden_size].

    The timescales grow from 1 to 10000 in hidden_size/2 - 1 geometric steps.
    """
    count = hidden_size // 2
    increment = math.log(10000.0) / max(count - 1, 1)
    angles = coordinates[..., None] * tf.exp(-increment * tf.range(count, dtype=tf.float32))
    return tf.concat([tf.sin(angles), tf.cos(angles)], -1)


def rotation_table(positions: Any, head_size: int) -> tuple[Any, Any]:
    """Returns the cosines and sines that rotary attention turns queries and keys by: each float32
    [batch or 1, 1, length, head_size/2].
    """
    exponents = tf.range(head_size // 2, dtype=tf.float32) * (2.0 / head_size)
    angles = positions[:, None, :, None] * tf.exp(-math.log(10000.0) * exponents)
    return tf.cos(angles), tf.sin(angles)


def rotate(x: Any, rotation: tuple[Any, Any]) -> Any:
    """Turns each pair of channels of x [batch, heads, length, head_size] by its position's angle;
    returns x's dtype.
    """
    cosines, sines = rotation
    first, second = tf.split(tf.cast(x, tf.float32), 2, -1)
    turned = tf.concat([first * cosines - second * sines, second * cosines + first * sines], -1)
    return tf.cast(turned, x.dtype)


def head_rotations(network: NetworkConfig, positions: Any, backward: Any) -> tuple[Any, Any] | None:
    """Returns the rotation of each head by `positions`, or (position_from="both") of half of the
    heads by `backward`.

    Args:
      network: its position, position_from and sizes are used.
      positions: float32 [batch or 1, length].
      backward: float32 [batch or 1, length], positions counted from the last symbol.

    Returns:
      cosines and sines, float32 [batch or 1, num_heads or 1, length, head_size / 2] each; None
      unless position="rotary".
    """
    if network.position != "rotary":
        return None
    heads, head_size = network.num_heads, network.hidden_size // network.num_heads
    forward = rotation_table(positions, head_size)
    if network.position_from != "both":
        return forward
    cosines, sines = zip(forward, rotation_table(backward, head_size), strict=True)
    counts = (heads - heads // 2, heads // 2)
    return _by_heads(cosines, counts), _by_heads(sines, counts)


def _by_heads(tables: tuple[Any, Any], counts: tuple[int, int]) -> Any:
    """Returns [batch, sum(counts), length, width] from two tables [batch or 1, 1, length, width]
    for so many heads each.
    """
    batch_size = tf.maximum(tf.shape(tables[0])[0], tf.shape(tables[1])[0])
    shape = tf.shape(tables[0])[2:]
    repeated = [
        tf.broadcast_to(table, tf.concat([[batch_size, heads], shape], 0))
        for table, heads in zip(tables, counts, strict=True)
    ]
    return tf.concat(repeated, 1)


def position_signal(network: NetworkConfig, positions: Any) -> Any | None:
    """Returns float32 [batch or 1, length, hidden_size] for positions [batch or 1, length], or None
    where nothing is added.

    Positions that are None say that nothing is added, whatever the network. Learned ones have been
    looked up by the model.
    """
    if positions is None or network.position == "learned":
        return positions
    if network.position == "paper":
        return paper_sinusoid(positions, network.hidden_size)
    if network.position == "tensor2tensor":
        return tensor2tensor_sinusoid(positions - 1.0, network.hidden_size)
    return None


def positioned(network: NetworkConfig, states: Any, positions: Any, dtype: Any) -> Any:
    """Returns states [batch, length, hidden_size] (or of one position, [rows, hidden_size]) plus
    their positions' signal, in `dtype`.
    """
    signal = position_signal(network, positions)
    return tf.cast(states if signal is None else tf.cast(states, tf.float32) + signal, dtype)


@keras.saving.register_keras_serializable("ut_tf")
class Coordinates(keras.layers.Layer):  # type: ignore[misc]
    """Adds the coordinates of position and recurrent step to the states: H + P of the paper's
    equations 4 to 7.

    Args:
      network: its position, position_every_step, step_encoding and sizes are used.
      max_steps: rows of the learned step table.

    ``position_signal`` is computed once per sequence; the call adds it, and the step's, at each
    recurrent step.
    """

    def __init__(self, network: NetworkConfig, max_steps: int, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.network = network
        self.max_steps = max_steps

    def build(self, input_shape: Any) -> None:
        self.step_table = None
        width = input_shape[-1]
        if self.network.step_encoding == "learned":
            normal = keras.initializers.RandomNormal(stddev=width**-0.5)
            self.step_table = self.add_weight(
                shape=(self.max_steps, width), initializer=normal, name="step_table", autocast=False
            )

    def position_signal(self, positions: Any) -> Any | None:
        """Returns ``position_signal`` of the positions [batch or 1, length]."""
        return position_signal(self.network, positions)

    def step_signal(self, step: Any) -> Any | None:
        """Returns float32 [hidden_size] for the recurrent step (int32 [], from 0), or None without
        a step embedding.
        """
        width = self.network.hidden_size
        if self.network.step_encoding == "learned":
            return tf.convert_to_tensor(self.step_table)[step] * width**0.5
        if self.network.step_encoding == "none":
            return None
        if self.network.position == "tensor2tensor":
            return tensor2tensor_sinusoid(tf.cast(step, tf.float32), width)
        return paper_sinusoid(tf.cast(step, tf.float32) + 1.0, width)

    def step_signals(self, count: int) -> Any | None:
        """Returns float32 [count, hidden_size], the signals of the first `count` recurrent steps,
        or None without a step embedding.
        """
        if self.network.step_encoding == "none":
            return None
        return tf.stack([self.step_signal(step) for step in range(count)])

    def call(self, state: Any, step: Any, position_signal: Any | None) -> Any:
        """Returns state + position signal + step signal, in the compute dtype.

        Args:
          state: [batch, length, hidden_size].
          step: int [], from 0.
          position_signal: what ``position_signal`` returned.
        """
        signals = [
            signal for signal in (position_signal, self.step_signal(step)) if signal is not None
        ]
        if not signals:
            return state
        return tf.cast(
            tf.cast(state, tf.float32) + sum(signals[1:], signals[0]), self.compute_dtype
        )

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "network": self.network.to_dict(),
            "max_steps": self.max_steps,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Coordinates:
        return cls(**{**config, "network": NetworkConfig.from_dict(config["network"])})
