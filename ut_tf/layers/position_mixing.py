"""Mixing of positions by a SwiGLU over them, in attention's place (TRM's mlp_t, arXiv 2510.04871).

It belongs to boards: every input has the same number of positions, and a position means the same in
all of them.
"""

from typing import Any

import keras
import tensorflow as tf

from ut_tf.errors import UserError
from ut_tf.layers.swiglu import SwiGLU


def _turned(x: Any) -> Any:
    return tf.transpose(x, [0, 2, 1])


@keras.saving.register_keras_serializable("ut_tf")
class PositionMixing(keras.layers.Layer):  # type: ignore[misc]
    """SwiGLU over the positions of each channel; takes the place of ``MultiHeadAttention`` in a
    ``Block``, whose norm behind it then is over the positions of each channel, too.

    Args:
      mix_positions: number of positions.
      mix_filter_size: width of either half of the inner layer.
      kernel_init: "glorot" or "unit_scaling".

    Call arguments:
      x: [batch, mix_positions, hidden_size].
      training: unused.
      output_scale: constant factor on the output.
      **attention: what attention is given besides, unused.

    Returns:
      (output like x, None in the place of attention weights).
    """

    # It has no attention weights.
    num_heads = 0
    qk_norm = False

    def __init__(
        self, mix_positions: int, mix_filter_size: int, kernel_init: str = "glorot", **kwargs: Any
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.mix_positions = mix_positions
        self.mix_filter_size = mix_filter_size
        self.kernel_init = kernel_init
        self.mixer = SwiGLU(
            mix_positions,
            mix_filter_size,
            kernel_init=kernel_init,
            name="mixer",
            dtype=self.dtype_policy,
        )

    def build(self, input_shape: Any) -> None:
        self.mixer.build((input_shape[0], input_shape[-1], self.mix_positions))

    def call(
        self, x: Any, training: bool = False, output_scale: float = 1.0, **attention: Any
    ) -> tuple[Any, None]:
        if x.shape[1] not in (None, self.mix_positions):
            raise UserError(
                f"mix_positions={self.mix_positions}, and an input has {x.shape[1]} positions, the"
                " memory's included: expected boards of one size."
            )
        x = tf.ensure_shape(x, [None, self.mix_positions, None])
        mixed = self.mixer(_turned(x), training=training, output_scale=output_scale)
        return _turned(mixed), None


@keras.saving.register_keras_serializable("ut_tf")
class PositionNorm(keras.layers.Layer):  # type: ignore[misc]
    """A norm over the positions of each channel.

    Args:
      norm: over the last axis; its weights, if it has any, are those of positions.
      mix_positions: number of positions.
    """

    def __init__(self, norm: Any, mix_positions: int, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.norm = norm
        self.mix_positions = mix_positions

    def build(self, input_shape: Any) -> None:
        self.norm.build((input_shape[0], input_shape[-1], self.mix_positions))

    def call(self, x: Any) -> Any:
        return _turned(self.norm(_turned(x)))
