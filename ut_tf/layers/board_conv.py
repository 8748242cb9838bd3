"""Convolutions over boards, whose cells are the positions, row by row: what a cell sees is relative
to it, so that weights that are trained on small boards work on larger ones.
"""

import math
from typing import Any, ClassVar

import keras
import tensorflow as tf

from ut_tf.errors import UserError, marked
from ut_tf.layers.linear import Linear, kernel_initializer
from ut_tf.layers.transition import FeedForward, depthwise, without_padding

_SIDE = 3


@keras.saving.register_keras_serializable("ut_tf")
class SeparableBoardConv(keras.layers.Layer):  # type: ignore[misc]
    """A separable convolution over 3 x 3 cells: one kernel per channel, then an affine map of the
    channels. Outside the board there are zeros.

    Args:
      units: width of the output.
      kernel_init: "glorot" or "unit_scaling".

    Call arguments:
      x: [batch, side, side, channels] -> [batch, side, side, units].
      output_scale: constant factor on the output.
    """

    def __init__(self, units: int, kernel_init: str = "glorot", **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.units = units
        self.kernel_init = kernel_init
        self.pointwise = Linear(units, True, kernel_init, name="pointwise", dtype=self.dtype_policy)

    def build(self, input_shape: Any) -> None:
        self.depthwise_kernel = self.add_weight(
            shape=(_SIDE**2, input_shape[-1]),
            initializer=kernel_initializer(self.kernel_init),
            name="depthwise_kernel",
            autocast=False,
        )
        self.pointwise.build(input_shape)

    def call(self, x: Any, output_scale: float = 1.0) -> Any:
        padded = tf.pad(tf.cast(x, self.compute_dtype), [[0, 0], [1, 1], [1, 1], [0, 0]])
        kernel = tf.reshape(self.depthwise_kernel, [_SIDE, _SIDE, x.shape[-1]])
        mixed = depthwise(padded, tf.cast(kernel, padded.dtype))
        flat = tf.reshape(mixed, [tf.shape(x)[0], -1, x.shape[-1]])
        output = self.pointwise(flat, output_scale=output_scale)
        return tf.reshape(output, [*tf.unstack(tf.shape(x)[:3]), self.units])


@keras.saving.register_keras_serializable("ut_tf")
class BoardConvTransition(FeedForward):
    """Two separable convolutions over 3 x 3 cells of a square board, with a ReLU between.

    Arguments are those of ``Transition``, call arguments and result those of
    ``TransitionFunction``; length is the number of cells, the same of all examples of a batch.

    Raises:
      UserError: the length is no square number, or examples differ in it (in a graph an
        InvalidArgumentError with that sentence; XLA leaves it out), or `causal` is set.
    """

    sees_neighbours: ClassVar[bool] = True

    def _map_to(self, units: int, name: str) -> Any:
        if self.causal:
            raise UserError(
                "transition=sepconv2d sees the cells around a cell of a board, and here is a"
                " decoder, which writes one symbol after the other: choose sepconv."
            )
        return SeparableBoardConv(units, self.kernel_init, name=name, dtype=self.dtype_policy)

    def prepare(self) -> dict[str, Any]:
        """Nothing: no decoder has this transition."""
        return {}

    def call(
        self, x: Any, keep: Any = None, training: bool = False, output_scale: float = 1.0
    ) -> Any:
        side = _side(x, keep)
        board = tf.reshape(without_padding(x, keep), [tf.shape(x)[0], side, side, x.shape[-1]])
        hidden = self.dropout(tf.nn.relu(self.inner(board)), training=training)
        output = self.outer(hidden, output_scale=output_scale)
        return tf.reshape(output, [tf.shape(x)[0], tf.shape(x)[1], self.hidden_size])


def _side(x: Any, keep: Any) -> Any:
    """Returns the side of the boards that the positions x [batch, length, channels] are of."""
    sentence = "transition=sepconv2d needs square boards, all of a batch of one size, and here"
    if x.shape[1] is not None and math.isqrt(x.shape[1]) ** 2 != x.shape[1]:
        raise UserError(f"{sentence} are {x.shape[1]} positions: choose another transition.")
    length = tf.shape(x)[1]
    side = tf.cast(tf.round(tf.sqrt(tf.cast(length, tf.float32))), tf.int32)
    is_square = side * side == length
    # Rows that fill a batch up are padding alone.
    whole = True if keep is None else tf.reduce_all(keep == keep[:, :1])
    sentence = marked(f"{sentence} are others: choose another transition.")
    check = tf.debugging.Assert(is_square & whole, [sentence])
    with tf.control_dependencies([] if check is None else [check]):
        return tf.identity(side)
