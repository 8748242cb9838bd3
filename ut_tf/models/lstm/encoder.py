"""The LSTM encoder."""

from typing import Any

import keras

from ut_tf.models.interfaces import Encoded
from ut_tf.models.lstm.stack import Direction, LSTMStack


@keras.saving.register_keras_serializable("ut_tf")
class LSTMEncoder(keras.layers.Layer):  # type: ignore[misc]
    """An encoder of num_layers LSTMs.

    Args:
      as of ``LSTMStack``.

    Call arguments:
      inputs: [batch, length, hidden_size].
      padding_mask: float32 [batch, length], 0 on padding.
      training: whether to drop.

    Returns:
      Encoded, with the top layer's final h as summary and the final (h, c) of each layer as extra.
    """

    def __init__(
        self,
        hidden_size: int,
        num_layers: int,
        direction: Direction = "forward",
        dropout: float = 0.0,
        kernel_init: str = "glorot",
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.stack = LSTMStack(
            hidden_size,
            num_layers,
            direction,
            dropout,
            kernel_init,
            name="stack",
            dtype=self.dtype_policy.name,
        )

    def build(self, shape: Any, *_: Any) -> None:
        self.stack.build(shape)
        self.built = True

    def call(self, inputs: Any, padding_mask: Any, training: bool = False) -> Encoded:
        states, final = self.stack(inputs, padding_mask=padding_mask, training=training)
        return Encoded(states, padding_mask, summary=final[-1][0], extra=final)
