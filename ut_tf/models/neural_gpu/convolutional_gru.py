"""The convolutional gated recurrent unit (CGRU) of the Neural GPU, whose gates work on a mental
image (arXiv 1511.08228).

The image s has `image_width` columns of as many rows as there are positions, with m = hidden_size
maps in each cell, and zeros around it. A row is stored as one vector of image_width * maps
channels. A convolution over rows and columns is then a product of conv_kernel neighbouring rows
with one matrix, which holds the kernel once for each pair of columns that are near enough: on a CPU
that is faster than a convolution of 24 maps.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ut_tf.layers.linear import matmul

# Both gates start out nearly open: what a cell holds stays, and is seen.
_GATE_BIAS = 1.0


def cut_sigmoid(x: Any, cutoff: float) -> Any:
    """cutoff * σ(x) - (cutoff - 1) / 2, cut to [0, 1]: gates that reach 0 and 1 where cutoff is
    above 1.
    """
    gates = tf.sigmoid(x)
    if cutoff == 1.0:
        return gates
    return tf.clip_by_value(cutoff * gates - (cutoff - 1.0) / 2.0, 0.0, 1.0)


@keras.saving.register_keras_serializable("ut_tf")
class ConvolutionalGRU(keras.layers.Layer):  # type: ignore[misc]
    """A CGRU, with one or more sets of its parameters.

    With * a convolution of conv_kernel x conv_kernel cells and c = gate_cutoff::

        u = σ'(U' * s + B');   r = σ'(U'' * s + B'')
        s' = u ⊙ s + (1 - u) ⊙ tanh(U * (r ⊙ s) + B)
        σ'(x) = max(0, min(1, c σ(x) - (c - 1) / 2))

    With a tape p, a convolution W * p is added to each of the three sums (arXiv 1610.08613).

    Relaxed tying: step t takes set t mod relaxed_sets of the parameters. Training pulls the sets
    together, and in the end their mean replaces each.

    Args:
      hidden_size: maps of a cell.
      image_width: columns of the image.
      conv_kernel: rows and columns that a convolution sees; odd.
      gate_cutoff: c; 1: plain sigmoids.
      relaxed_sets: sets of parameters.
      kernel_init: "glorot" or "unit_scaling".
      with_tape: whether the unit also reads an output tape.

    Call arguments:
      image: [batch, length, image_width * maps] -> the same after a step with the first set, in
        float32.
    """

    def __init__(
        self,
        hidden_size: int,
        image_width: int = 4,
        conv_kernel: int = 3,
        gate_cutoff: float = 1.2,
        relaxed_sets: int = 1,
        kernel_init: str = "glorot",
        with_tape: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.hidden_size = hidden_size
        self.image_width = image_width
        self.conv_kernel = conv_kernel
        self.gate_cutoff = gate_cutoff
        self.relaxed_sets = relaxed_sets
        self.kernel_init = kernel_init
        self.with_tape = with_tape

    def build(self, input_shape: Any = None) -> None:
        self._add("update", _GATE_BIAS)
        self._add("reset", _GATE_BIAS)
        self._add("candidate", 0.0)
        # Saved with the weights: whether the mean of all sets has replaced each, 0 or 1.
        self.tied = None
        if self.relaxed_sets > 1:
            self.tied = self.add_weight(
                shape=(), initializer="zeros", trainable=False, name="tied", autocast=False
            )

    def call(self, image: Any) -> Any:
        image = tf.cast(image, tf.float32)
        tape = tf.zeros_like(image[..., : self.hidden_size]) if self.with_tape else None
        return self.step(image, self.choose(self.prepare(), 0), tf.ones_like(image[..., :1]), tape)

    def prepare(self) -> dict[str, Any]:
        """The weights of all sets for ``choose``: "gates" and "candidate", each with kernel and
        bias.
        """
        names = {"gates": ("update", "reset"), "candidate": ("candidate",)}
        return {name: self._joined(parts) for name, parts in names.items()}

    def choose(self, weights: dict[str, Any], step: Any) -> dict[str, Any]:
        """The weights of the set that step number `step`, an int or int32 [], takes."""
        sets = self.relaxed_sets
        chosen: dict[str, Any] = tf.nest.map_structure(
            lambda weight: weight[0] if sets == 1 else tf.gather(weight, step % sets), weights
        )
        return chosen

    def step(self, image: Any, weights: dict[str, Any], active: Any, tape: Any = None) -> Any:
        """Applies the unit once.

        Args:
          image: float32 [batch, length, image_width * maps].
          weights: from ``choose``.
          active: float32 [batch, length, 1], 0 where nothing may change.
          tape: [batch, length, maps], where the unit reads one: it is the first column.

        Returns:
          the new image.
        """
        gates = cut_sigmoid(self._convolved(image, tape, weights["gates"]), self.gate_cutoff)
        update, reset = tf.split(gates, 2, -1)
        candidate = tf.tanh(self._convolved(reset * image, tape, weights["candidate"]))
        return image + (1.0 - update) * (candidate - image) * active

    def tie(self, tied: bool = True) -> None:
        """Replaces each set by the mean of all; with tied=False the sets differ again, from
        there.
        """
        if self.tied is None:
            return
        if not tied:
            for weight in self.trainable_variables:
                weight.assign(tf.broadcast_to(self._effective(weight), weight.shape))
        self.tied.assign(float(tied))

    def _add(self, name: str, bias: float) -> None:
        size, maps, sets = self.conv_kernel, self.hidden_size, self.relaxed_sets
        initializer = _Repeated(self.kernel_init)
        names = ("kernel", "tape_kernel") if self.with_tape else ("kernel",)
        for kind in names:
            kernel = self.add_weight(
                shape=(sets, size, size, maps, maps),
                initializer=initializer,
                name=f"{name}_{kind}",
                autocast=False,
            )
            setattr(self, f"{name}_{kind}", kernel)
        constant = keras.initializers.Constant(bias)
        setattr(
            self,
            f"{name}_bias",
            self.add_weight(
                shape=(sets, maps), initializer=constant, name=f"{name}_bias", autocast=False
            ),
        )

    def _joined(self, names: tuple[str, ...]) -> dict[str, Any]:
        width = self.image_width
        kernels = tf.concat(
            [dense_kernel(self._sets(f"{name}_kernel"), width) for name in names], -1
        )
        if self.with_tape:
            # The tape has one column only, beside those of the image in every row.
            tape = tf.concat(
                [dense_kernel(self._sets(f"{name}_tape_kernel"), width, 1) for name in names], -1
            )
            kernels = tf.concat([kernels, tape], 1)
        biases = tf.concat([tf.tile(self._sets(f"{name}_bias"), [1, width]) for name in names], -1)
        return {"kernel": tf.cast(kernels, self.compute_dtype), "bias": biases}

    def _sets(self, name: str) -> Any:
        """The weight of that name, [sets, ...], tied or not."""
        return self._effective(getattr(self, name))

    def _effective(self, variable: Any) -> Any:
        weight = tf.convert_to_tensor(variable)
        if self.tied is None:
            return weight
        return weight + tf.convert_to_tensor(self.tied) * (
            tf.reduce_mean(weight, 0, keepdims=True) - weight
        )

    def _convolved(self, image: Any, tape: Any, weights: dict[str, Any]) -> Any:
        """Float32 [batch, length, units]: sums over the neighbouring rows of the image, and of the
        tape behind them.
        """
        rows = neighbours(tf.cast(image, self.compute_dtype), self.conv_kernel)
        if tape is not None:
            rows = tf.concat(
                [rows, neighbours(tf.cast(tape, self.compute_dtype), self.conv_kernel)], -1
            )
        return tf.cast(matmul(rows, weights["kernel"]), tf.float32) + weights["bias"]


def neighbours(x: Any, count: int) -> Any:
    """Concatenates `count` neighbouring rows of x [batch, length, channels]: [batch, length, count
    * channels].
    """
    length, channels = tf.shape(x)[1], x.shape[-1]
    padded = tf.pad(x, [[0, 0], [count // 2, count // 2], [0, 0]])
    joined = tf.concat([padded[:, first : first + length] for first in range(count)], -1)
    return tf.ensure_shape(joined, [*x.shape[:2], count * channels])


def dense_kernel(kernel: Any, width: int, input_width: int | None = None) -> Any:
    """Returns the matrices that act on rows as convolution kernels act on an image padded with
    zeros.

    Args:
      kernel: [sets, size, size, inputs, outputs], the columns' dimension first.
      width: columns of the output.
      input_width: columns of the input, the first ones of as many as the output has; None: all.

    Returns:
      [sets, size * input_width * inputs, width * outputs], for ``neighbours``.
    """
    sets, size, _, inputs, outputs = kernel.shape
    input_width = width if input_width is None else input_width
    offsets = np.arange(input_width)[:, None] - np.arange(width)[None] + size // 2
    # Columns that are too far apart take zeros, behind the kernel's last column.
    columns = np.where((offsets < 0) | (offsets >= size), size, offsets)
    padded = tf.pad(kernel, [[0, 0], [0, 1], [0, 0], [0, 0], [0, 0]])
    spread = tf.transpose(tf.gather(padded, columns, axis=1), [0, 3, 1, 4, 2, 5])
    return tf.reshape(spread, [sets, size * input_width * inputs, width * outputs])


class _Repeated(keras.initializers.Initializer):  # type: ignore[misc]
    """Draws one set of kernels [sets, size, size, inputs, outputs] uniformly and repeats it; `name`
    as in ``kernel_initializer``.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        sets, height, width, inputs, outputs = shape
        fan_in, fan_out = height * width * inputs, height * width * outputs
        variance = 1.0 / fan_in if self.name == "unit_scaling" else 2.0 / (fan_in + fan_out)
        limit = (3.0 * variance) ** 0.5
        uniform = keras.initializers.RandomUniform(-limit, limit)
        return tf.tile(uniform((1, height, width, inputs, outputs), dtype), [sets, 1, 1, 1, 1])

    def get_config(self) -> dict[str, Any]:
        return {"name": self.name}
