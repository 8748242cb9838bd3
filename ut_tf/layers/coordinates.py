"""Coordinates in depth and time: the paper's P (section 2.1), tensor2tensor's timing signals, and
rotations.

Positions are float32 [batch or 1, length] and count from 1, whatever the form; the forms that count
from 0 subtract 1. Everything here is float32: in bfloat16 only 513 of 1024 positions are distinct.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf


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


def head_rotations(positions: Any, backward: Any, num_heads: int, head_size: int) -> Any:
    """The rotation of half of the heads by `positions`, and of the others by `backward`.

    Args:
      positions: float32 [batch or 1, length].
      backward: float32 [batch or 1, length], positions counted from the last symbol.
      num_heads: an odd one more is turned by `positions`.
      head_size: even.

    Returns:
      cosines and sines, float32 [batch, num_heads, length, head_size / 2] each.
    """
    tables = (rotation_table(positions, head_size), rotation_table(backward, head_size))
    cosines, sines = zip(*tables, strict=True)
    counts = (num_heads - num_heads // 2, num_heads // 2)
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


def add_signal(states: Any, signal: Any, dtype: Any) -> Any:
    """Returns states + signal, summed in float32, in `dtype`; the states where the signal is None.

    Args:
      states: [batch, length, hidden_size] or, of one position, [rows, hidden_size].
      signal: float32, broadcast to the states, or None.
      dtype: of the result.
    """
    return tf.cast(states if signal is None else tf.cast(states, tf.float32) + signal, dtype)


_STEP_SINUSOIDS: dict[str, Callable[[Any, int], Any]] = {
    "paper": lambda step, width: paper_sinusoid(step + 1.0, width),
    "tensor2tensor": tensor2tensor_sinusoid,
}


@keras.saving.register_keras_serializable("ut_tf")
class Coordinates(keras.layers.Layer):  # type: ignore[misc]
    """Adds the coordinates of position and recurrent step to the states: H + P of the paper's
    equations 4 to 7.

    Args:
      hidden_size: width of the states.
      max_steps: rows of the learned step table.
      step_encoding: "sinusoid", "learned" (a table) or "none".
      step_sinusoid: "paper" (from 1) or "tensor2tensor" (from 0).

    The signal of the positions is computed once per sequence, by a ``PositionEncoding``; the call
    adds it, and the step's, at each recurrent step.
    """

    def __init__(
        self,
        hidden_size: int,
        max_steps: int,
        step_encoding: str = "sinusoid",
        step_sinusoid: str = "paper",
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.hidden_size = hidden_size
        self.max_steps = max_steps
        self.step_encoding = step_encoding
        self.step_sinusoid = step_sinusoid

    def build(self, input_shape: Any) -> None:
        self.step_table = None
        width = input_shape[-1]
        if self.step_encoding == "learned":
            normal = keras.initializers.RandomNormal(stddev=width**-0.5)
            self.step_table = self.add_weight(
                shape=(self.max_steps, width), initializer=normal, name="step_table", autocast=False
            )

    @property
    def is_constant(self) -> bool:
        """Whether what is added is the same at every step."""
        return self.step_encoding == "none"

    def step_signal(self, step: Any) -> Any | None:
        """Returns float32 [hidden_size] for the recurrent step (int32 [], from 0), or None without
        a step embedding.
        """
        if self.step_encoding == "learned":
            return tf.convert_to_tensor(self.step_table)[step] * self.hidden_size**0.5
        if self.step_encoding == "none":
            return None
        return _STEP_SINUSOIDS[self.step_sinusoid](tf.cast(step, tf.float32), self.hidden_size)

    def step_signals(self, count: int) -> Any | None:
        """Returns float32 [count, hidden_size], the signals of the first `count` recurrent steps,
        or None without a step embedding.
        """
        if self.step_encoding == "none":
            return None
        return tf.stack([self.step_signal(step) for step in range(count)])

    def call(self, state: Any, step: Any, position_signal: Any | None) -> Any:
        """Returns state + position signal + step signal, in the compute dtype.

        Args:
          state: [batch, length, hidden_size].
          step: int [], from 0.
          position_signal: float32 [batch or 1, length, hidden_size], or None.
        """
        signals = [
            signal for signal in (position_signal, self.step_signal(step)) if signal is not None
        ]
        if not signals:
            return state
        return tf.cast(
            tf.cast(state, tf.float32) + sum(signals[1:], signals[0]), self.compute_dtype
        )
