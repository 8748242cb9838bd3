"""Coordinates in depth and time: the paper's P (section 2.1), tensor2tensor's timing signals, and
rotations.

Positions are float32 [batch or 1, length] and count from 1, whatever the form; the forms that count
from 0 subtract 1. Everything here is float32: in bfloat16 only 513 of 1024 positions are distinct.
"""

import math
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from ut_tf.layers.linear import kernel_initializer, matmul

ROTARY_BASE = 10000.0


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
    angles = coordinates[..., None] * _tensor2tensor_frequencies(hidden_size)
    return tf.concat([tf.sin(angles), tf.cos(angles)], -1)


def shifted_sinusoid(signal: Any, shift: Any) -> Any:
    """Returns ``tensor2tensor_sinusoid`` of coordinates that are larger by `shift` (float32 []), by
    the sum formulas of sine and cosine: float32 [..., hidden_size].
    """
    angles = shift * _tensor2tensor_frequencies(signal.shape[-1])
    sines, cosines = tf.split(signal, 2, -1)
    return tf.concat(
        [
            sines * tf.cos(angles) + cosines * tf.sin(angles),
            cosines * tf.cos(angles) - sines * tf.sin(angles),
        ],
        -1,
    )


def _tensor2tensor_frequencies(hidden_size: int) -> Any:
    """Float32 [hidden_size / 2]."""
    count = hidden_size // 2
    increment = math.log(10000.0) / max(count - 1, 1)
    return tf.exp(-increment * tf.range(count, dtype=tf.float32))


def rotation_table(positions: Any, head_size: int, base: float = ROTARY_BASE) -> tuple[Any, Any]:
    """Returns the cosines and sines that rotary attention turns queries and keys by: each float32
    [batch or 1, 1, length, head_size/2]. The slowest pair turns by about 1/base from a position to
    the next.
    """
    exponents = tf.range(head_size // 2, dtype=tf.float32) * (2.0 / head_size)
    angles = positions[:, None, :, None] * tf.exp(-math.log(base) * exponents)
    return tf.cos(angles), tf.sin(angles)


def rotate(x: Any, rotation: tuple[Any, Any]) -> Any:
    """Turns each pair of channels of x [batch, heads, length, head_size] by its position's angle;
    returns x's dtype.
    """
    cosines, sines = rotation
    first, second = tf.split(tf.cast(x, tf.float32), 2, -1)
    turned = tf.concat([first * cosines - second * sines, second * cosines + first * sines], -1)
    return tf.cast(turned, x.dtype)


def head_rotations(
    positions: Any, backward: Any, num_heads: int, head_size: int, base: float = ROTARY_BASE
) -> Any:
    """The rotation of half of the heads by `positions`, and of the others by `backward`.

    Args:
      positions: float32 [batch or 1, length].
      backward: float32 [batch or 1, length], positions counted from the last symbol.
      num_heads: an odd one more is turned by `positions`.
      head_size: even.
      base: as of ``rotation_table``.

    Returns:
      cosines and sines, float32 [batch, num_heads, length, head_size / 2] each.
    """
    tables = [rotation_table(each, head_size, base) for each in (positions, backward)]
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
    equations 4 to 7. Or concatenates them, and projects [H, P_position, P_step] back.

    Args:
      hidden_size: width of the states.
      max_steps: rows of the learned step table.
      step_encoding: "sinusoid", "learned" (a table) or "none".
      step_sinusoid: "paper" (from 1) or "tensor2tensor" (from 0).
      coordinate_form: "add" or "concat"; as in tensor2tensor, what is concatenated for the step is
        2 * hidden_size wide.
      position_shift: "step": positions, tensor2tensor's sinusoids, grow by length * step /
        max_steps, rounded down; "none".
      kernel_init: of the projection, "glorot" or "unit_scaling".

    The signal of the positions is computed once per sequence, by a ``PositionEncoding``; the call
    adds it, and the step's, at each recurrent step.
    """

    def __init__(
        self,
        hidden_size: int,
        max_steps: int,
        step_encoding: str = "sinusoid",
        step_sinusoid: str = "paper",
        coordinate_form: str = "add",
        position_shift: str = "none",
        kernel_init: str = "glorot",
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.hidden_size = hidden_size
        self.max_steps = max_steps
        self.step_encoding = step_encoding
        self.step_sinusoid = step_sinusoid
        self.coordinate_form = coordinate_form
        self.position_shift = position_shift
        self.kernel_init = kernel_init
        self.step_width = hidden_size if coordinate_form == "add" else 2 * hidden_size

    def build(self, input_shape: Any) -> None:
        self.step_table = self.kernel = None
        if self.coordinate_form == "concat":
            self.kernel = self.add_weight(
                shape=(sum(self._widths), input_shape[-1]),
                initializer=kernel_initializer(self.kernel_init),
                name="kernel",
                autocast=False,
            )
        width = self.step_width
        if self.step_encoding == "learned":
            normal = keras.initializers.RandomNormal(stddev=width**-0.5)
            self.step_table = self.add_weight(
                shape=(self.max_steps, width), initializer=normal, name="step_table", autocast=False
            )

    @property
    def is_constant(self) -> bool:
        """Whether the signal is the same at every step."""
        return self.step_encoding == "none" and self.is_sum

    @property
    def is_sum(self) -> bool:
        """Whether the same signal of the positions is added to the states at every step."""
        return self.coordinate_form == "add" and not self.needs_all_positions

    @property
    def needs_all_positions(self) -> bool:
        """Whether a position's signal depends on the sequence length."""
        return self.position_shift != "none"

    def step_signal(self, step: Any) -> Any | None:
        """Returns float32 [..., step_width] for the recurrent step (int32 [...], from 0), or None
        without a step embedding.
        """
        if self.step_encoding == "learned":
            table = tf.convert_to_tensor(self.step_table)
            row = table[step] if not getattr(step, "shape", ()) else tf.gather(table, step)
            return row * self.step_width**0.5
        if self.step_encoding == "none":
            return None
        return _STEP_SINUSOIDS[self.step_sinusoid](tf.cast(step, tf.float32), self.step_width)

    def step_signals(self, count: int) -> Any | None:
        """Returns float32 [count, step_width], the signals of the first `count` recurrent steps,
        or None without a step embedding.
        """
        if self.step_encoding == "none":
            return None
        return tf.stack([self.step_signal(step) for step in range(count)])

    def call(self, state: Any, step: Any, position_signal: Any | None = None) -> Any:
        """Returns state + position signal + step signal in the compute dtype, or the sum of their
        projections.

        Args:
          state: [batch, length, hidden_size].
          step: int [] or [batch, 1], from 0.
          position_signal: float32 [batch or 1, length, hidden_size], or None.
        """
        if self.position_shift == "step" and position_signal is not None:
            shift = tf.shape(position_signal)[1] * tf.cast(step, tf.int32) // self.max_steps
            position_signal = shifted_sinusoid(position_signal, tf.cast(shift, tf.float32))
        step_signal = self.step_signal(step)
        if self.kernel is not None:
            state, position_signal, step_signal = self.projected(
                self.prepare(), state, position_signal, step_signal
            )
        signals = [
            tf.cast(signal, tf.float32)
            for signal in (position_signal, step_signal)
            if signal is not None
        ]
        if not signals:
            return state
        return tf.cast(
            tf.cast(state, tf.float32) + sum(signals[1:], signals[0]), self.compute_dtype
        )

    def prepare(self) -> list[Any]:
        """The kernels by which states, positions and steps are projected, read and cast once; empty
        where they are added as they are.
        """
        if self.kernel is None:
            return []
        return list(tf.split(tf.cast(self.kernel, self.compute_dtype), self._widths))

    def projected(
        self, kernels: list[Any], state: Any, position_signal: Any, step_signal: Any
    ) -> tuple[Any, Any, Any]:
        """The three, each through its kernel of ``prepare``, whose sum is the projection of all.

        Args:
          kernels: from ``prepare``; empty: nothing is projected.
          state: [..., hidden_size].
          position_signal: float32 [..., hidden_size], or None.
          step_signal: float32 [..., step_width], or None.
        """
        if not kernels:
            return state, position_signal, step_signal
        of_state, of_position, *of_step = kernels
        if position_signal is not None:
            position_signal = matmul(position_signal, of_position)
        if step_signal is not None:
            rows = step_signal[None] if step_signal.shape.rank == 1 else step_signal
            step_signal = matmul(rows, of_step[0])
        state = matmul(tf.cast(state, self.compute_dtype), of_state)
        return state, position_signal, step_signal

    @property
    def _widths(self) -> list[int]:
        """Rows of the kernel that belong to the state, to the position and to the step."""
        steps = [] if self.step_encoding == "none" else [self.step_width]
        return [self.hidden_size, self.hidden_size, *steps]
