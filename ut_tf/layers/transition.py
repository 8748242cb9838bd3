"""The transition function, applied to every position with the same weights: fully connected, with
the position before or without it, or separable convolution.

``StepTransitions`` holds one for each recurrent step, where they are to have weights of their own.
"""

import functools
from collections.abc import Sequence
from typing import Any, ClassVar

import keras
import tensorflow as tf

from ut_tf.layers.composite import Composite, build_parts, keep_parts, kept_parts
from ut_tf.layers.custom_gradient import custom_gradient
from ut_tf.layers.dropout import Dropout
from ut_tf.layers.key_value_cache import LayerCache, StepWeights
from ut_tf.layers.linear import Linear, affine, flatten, kernel_initializer, unflatten


class TransitionFunction(keras.layers.Layer):  # type: ignore[misc]
    """Base class of the transition functions, which a block applies to the output of its attention.

    A function of your own is registered with ``registry.register_transition`` and defines
    ``build`` and ``call``. If it transforms each position by itself, that is all: ``step`` then
    calls the layer. Otherwise it sets ``sees_neighbours`` and defines ``step`` and ``empty_cache``.

    Call arguments:
      x: [batch, length, hidden_size].
      keep: float32 [batch, length], 0 on padding, which no other position may see; None: nothing
        is padding.
      training: whether to drop.
      output_scale: constant factor on the output, of the dropout that follows.

    Returns:
      [batch, length, hidden_size].
    """

    sees_neighbours: ClassVar[bool] = False

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)

    def prepare(self) -> dict[str, Any]:
        """The weights for ``step``, read, joined and cast once."""
        return {}

    def step(self, x: Any, weights: StepWeights, cache: LayerCache) -> tuple[Any, LayerCache]:
        """Returns (the transition of the newest position [rows, hidden_size], the new cache)."""
        return self(x[:, None])[:, 0], cache

    def empty_cache(self, batch_size: Any, beam_size: int) -> dict[str, Any]:
        """Returns the cache of ``step`` before the first position, tensors [batch, beam_size, ...];
        default: nothing.
        """
        return {}


class FeedForward(TransitionFunction):
    """Base class of the transition functions that are made of two maps, affine ones by default:
    ``inner``, whatever a subclass does with its output, and ``outer``.

    Args:
      hidden_size, filter_size, relu_dropout, kernel_init: as of ``Transition``.
      causal: whether a position may see earlier ones alone (the decoder's form); of no effect where
        it sees itself, or the one before, in any case.
    """

    _inner_parts: ClassVar[int] = 1
    _read_positions: ClassVar[int] = 1

    def __init__(
        self,
        hidden_size: int,
        filter_size: int,
        relu_dropout: float = 0.0,
        kernel_init: str = "glorot",
        causal: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.filter_size = filter_size
        self.kernel_init = kernel_init
        self.causal = causal
        self.inner = self._map_to(self._inner_parts * filter_size, "inner")
        self.outer = self._map_to(hidden_size, "outer")
        self.dropout = Dropout(relu_dropout, name="dropout", dtype=self.dtype_policy)

    def _map_to(self, units: int, name: str) -> Any:
        """Returns the map "inner" or "outer", to a width of `units`."""
        return Linear(units, True, self.kernel_init, name=name, dtype=self.dtype_policy)

    def build(self, input_shape: Any) -> None:
        self.inner.build((*input_shape[:-1], self._read_positions * input_shape[-1]))
        self.outer.build((*input_shape[:-1], self.filter_size))

    def prepare(self) -> dict[str, Any]:
        """The weights for ``step``."""
        return {"inner": self.inner.prepare(), "outer": self.outer.prepare()}

    def _of_hidden(self, hidden: Any, x: Any, training: bool, output_scale: float) -> Any:
        """Returns the outer map of hidden [batch * length, filter_size], in x's shape."""
        scale = self.dropout.scale(training)
        return unflatten(self.outer(hidden, input_scale=scale, output_scale=output_scale), x)


@keras.saving.register_keras_serializable("ut_tf")
class Transition(FeedForward):
    """Two affine maps with a ReLU between: max(0, x W1 + b1) W2 + b2.

    Args:
      hidden_size: width of the output.
      filter_size: width of the inner layer.
      relu_dropout: rate, on the inner layer.
      kernel_init: "glorot" or "unit_scaling".
      causal: of no effect: a position sees itself alone.

    Call arguments and result are those of ``TransitionFunction``.
    """

    def call(
        self, x: Any, keep: Any = None, training: bool = False, output_scale: float = 1.0
    ) -> Any:
        hidden = self.dropout.drop_relu(self.inner(flatten(x)), training)
        return self._of_hidden(hidden, x, training, output_scale)

    def step(self, x: Any, weights: StepWeights, cache: LayerCache) -> tuple[Any, LayerCache]:
        """Returns (the transition of the newest position [rows, hidden_size], the cache)."""
        return affine(tf.nn.relu(affine(x, weights["inner"])), weights["outer"]), cache


@keras.saving.register_keras_serializable("ut_tf")
class ShiftTransition(FeedForward):
    """``Transition`` of each position together with the one before it: max(0, [x_t, x_(t-1)] W1 +
    b1) W2 + b2, zeros before the first (the token shift of arXiv 2305.13048, with dense weights).

    Arguments are those of ``Transition``, call arguments and result those of
    ``TransitionFunction``; padding is not read.
    """

    sees_neighbours: ClassVar[bool] = True
    _read_positions: ClassVar[int] = 2

    def call(
        self, x: Any, keep: Any = None, training: bool = False, output_scale: float = 1.0
    ) -> Any:
        read = without_padding(x, keep)
        joined = tf.concat([read, tf.pad(read, [[0, 0], [1, 0], [0, 0]])[:, :-1]], -1)
        hidden = self.dropout.drop_relu(self.inner(flatten(joined)), training)
        return self._of_hidden(hidden, x, training, output_scale)

    def step(self, x: Any, weights: StepWeights, cache: LayerCache) -> tuple[Any, LayerCache]:
        """Returns (the transition of the newest position [batch * beam_size, hidden_size], the
        cache).
        """
        before = cache["before"]
        newest = tf.reshape(tf.cast(x, before.dtype), tf.shape(before))
        joined = tf.reshape(tf.concat([newest, before], -1), [-1, 2 * self.hidden_size])
        hidden = tf.nn.relu(affine(joined, weights["inner"]))
        return affine(hidden, weights["outer"]), {"before": newest}

    def empty_cache(self, batch_size: Any, beam_size: int) -> dict[str, Any]:
        """The cache of ``step`` before the first position: zeros."""
        shape = tf.stack([batch_size, beam_size, self.hidden_size])
        return {"before": tf.zeros(shape, self.compute_dtype)}


@custom_gradient
def depthwise(padded: Any, kernel: Any) -> Any:
    """The sums over neighbouring positions of a board, each channel with weights of its own.

    Args:
      padded: [batch, rows + kernel_rows - 1, columns + kernel_columns - 1, channels].
      kernel: [kernel_rows, kernel_columns, channels], of the same dtype.

    Returns:
      [batch, rows, columns, channels]; position i, j sees the padded positions from i, j on.
    """
    height, width, channels = kernel.shape

    def gradient(upstream: Any) -> tuple[Any, Any]:
        around = [[0, 0], [height - 1, height - 1], [width - 1, width - 1], [0, 0]]
        rows, columns = tf.unstack(tf.shape(upstream)[1:3])
        products = [
            tf.reshape(
                padded[:, row : row + rows, column : column + columns] * upstream, [-1, channels]
            )
            for row in range(height)
            for column in range(width)
        ]
        # A product with ones adds up columns; TensorFlow's own gradient and its sums over leading
        # axes take many times as long on a CPU.
        ones = tf.ones([1, tf.shape(products[0])[0]], upstream.dtype)
        sums = tf.concat([tf.matmul(ones, product) for product in products], 0)
        return (
            _correlate(tf.pad(upstream, around), kernel[::-1, ::-1]),
            tf.reshape(sums, kernel.shape),
        )

    return _correlate(padded, kernel), gradient


def _correlate(padded: Any, kernel: Any) -> Any:
    return tf.nn.depthwise_conv2d(padded, kernel[..., None], [1, 1, 1, 1], "VALID")


@keras.saving.register_keras_serializable("ut_tf")
class SeparableConv(keras.layers.Layer):  # type: ignore[misc]
    """A separable convolution over positions: one kernel per channel, then an affine map of the
    channels.

    Args:
      units: width of the output.
      kernel_size: positions that an output sees.
      causal: whether it sees only the newest `kernel_size` positions, or as many on both sides.
      kernel_init: "glorot" or "unit_scaling".

    Call arguments:
      x: [batch, length, channels] -> [batch, length, units].
      output_scale: constant factor on the output.
    """

    def __init__(
        self, units: int, kernel_size: int, causal: bool, kernel_init: str = "glorot", **kwargs: Any
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.units = units
        self.kernel_size = kernel_size
        self.causal = causal
        self.kernel_init = kernel_init
        self.pointwise = Linear(units, True, kernel_init, name="pointwise", dtype=self.dtype_policy)

    def build(self, input_shape: Any) -> None:
        initializer = kernel_initializer(self.kernel_init)
        self.depthwise_kernel = self.add_weight(
            shape=(self.kernel_size, input_shape[-1]),
            initializer=initializer,
            name="depthwise_kernel",
            autocast=False,
        )
        self.pointwise.build(input_shape)

    def call(self, x: Any, output_scale: float = 1.0) -> Any:
        before = self.kernel_size - 1 if self.causal else (self.kernel_size - 1) // 2
        padded = tf.pad(
            tf.cast(x, self.compute_dtype),
            [[0, 0], [before, self.kernel_size - 1 - before], [0, 0]],
        )
        kernel = tf.cast(self.depthwise_kernel, padded.dtype)
        mixed = depthwise(padded[:, None], kernel[None])[:, 0]
        return self.pointwise(mixed, output_scale=output_scale)

    def prepare(self) -> dict[str, Any]:
        """The weights for ``step``."""
        return {
            "depthwise": tf.cast(self.depthwise_kernel, self.compute_dtype),
            "pointwise": self.pointwise.prepare(),
        }

    def step(self, x: Any, weights: dict[str, Any], earlier: Any) -> tuple[Any, Any]:
        """Computes the newest position.

        Args:
          x: [batch * beam_size, channels].
          weights: from ``prepare``.
          earlier: [batch, beam_size, kernel_size - 1, channels], the positions before it.

        Returns:
          (output [batch * beam_size, units], the same of the next position).
        """
        size = tf.shape(earlier)
        newest = tf.reshape(tf.cast(x, earlier.dtype), [size[0], size[1], 1, size[3]])
        window = tf.concat([earlier, newest], 2)
        mixed = tf.reshape(tf.reduce_sum(window * weights["depthwise"], 2), [-1, x.shape[-1]])
        return affine(mixed, weights["pointwise"]), window[:, :, 1:]


@keras.saving.register_keras_serializable("ut_tf")
class SeparableConvTransition(FeedForward):
    """Separable convolution (kernel 3), ReLU, separable convolution (kernel 5): tensor2tensor's
    sepconv transition.

    Arguments are those of ``Transition``, but causal decides whether a position sees earlier ones
    alone (the decoder's form). Call arguments and result are those of ``TransitionFunction``;
    padding enters neither convolution.
    """

    sees_neighbours: ClassVar[bool] = True

    def _map_to(self, units: int, name: str) -> Any:
        size, policy = 3 if name == "inner" else 5, self.dtype_policy
        return SeparableConv(units, size, self.causal, self.kernel_init, name=name, dtype=policy)

    def call(
        self, x: Any, keep: Any = None, training: bool = False, output_scale: float = 1.0
    ) -> Any:
        hidden = self.dropout(tf.nn.relu(self.inner(without_padding(x, keep))), training=training)
        return self.outer(without_padding(hidden, keep), output_scale=output_scale)

    def step(self, x: Any, weights: StepWeights, cache: LayerCache) -> tuple[Any, LayerCache]:
        """Returns (the transition of the newest position [batch * beam_size, hidden_size], the
        cache).
        """
        hidden, inner = self.inner.step(x, weights["inner"], cache["inner"])
        output, outer = self.outer.step(tf.nn.relu(hidden), weights["outer"], cache["outer"])
        return output, {"inner": inner, "outer": outer}

    def empty_cache(self, batch_size: Any, beam_size: int) -> dict[str, Any]:
        """The cache of ``step`` before the first position: the inputs that the convolutions reach
        back to.
        """
        sizes = {"inner": (2, self.hidden_size), "outer": (4, self.filter_size)}
        return {
            name: tf.zeros(tf.stack([batch_size, beam_size, *size]), self.compute_dtype)
            for name, size in sizes.items()
        }


def without_padding(x: Any, keep: Any) -> Any:
    """Returns x [batch, length, channels] with zeros where keep [batch, length] is 0; None keeps
    all.
    """
    return x if keep is None else x * tf.cast(keep, x.dtype)[..., None]


@keras.saving.register_keras_serializable("ut_tf")
class StepTransitions(Composite):
    """A transition with weights of its own for each recurrent step.

    Args:
      transitions: one transition function per step.

    Call arguments:
      step: int [], from 0; which transition is taken.
      All else as for the transition itself.
    """

    def __init__(self, transitions: Sequence[Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.count = len(transitions)
        keep_parts(self, "transition", transitions)

    @property
    def sees_neighbours(self) -> bool:
        """Whether a position's transition depends on other positions."""
        return bool(self.transitions[0].sees_neighbours)

    @property
    def transitions(self) -> list[Any]:
        """The transitions, the first step's first."""
        return kept_parts(self, "transition", self.count)

    def build(self, input_shape: Any) -> None:
        build_parts(self.transitions, input_shape)

    def call(
        self,
        x: Any,
        keep: Any = None,
        training: bool = False,
        output_scale: float = 1.0,
        step: Any = 0,
    ) -> Any:
        options = {"keep": keep, "training": training, "output_scale": output_scale}
        if isinstance(step, int):
            return self.transitions[step](x, **options)
        # Inside a loop over the steps.
        return tf.switch_case(
            step, [functools.partial(transition, x, **options) for transition in self.transitions]
        )

    def prepare(self) -> list[dict[str, Any]]:
        """The weights for ``step``, the first step's first."""
        return [transition.prepare() for transition in self.transitions]

    def step(
        self, x: Any, weights: list[dict[str, Any]], cache: dict[str, Any], step: int = 0
    ) -> tuple[Any, dict[str, Any]]:
        """Returns (the transition of recurrent step `step` of the newest position [rows,
        hidden_size], the cache).
        """
        output: tuple[Any, dict[str, Any]] = self.transitions[step].step(x, weights[step], cache)
        return output

    def empty_cache(self, batch_size: Any, beam_size: int) -> dict[str, Any]:
        """One step's cache before the first position."""
        cache: dict[str, Any] = self.transitions[0].empty_cache(batch_size, beam_size)
        return cache
