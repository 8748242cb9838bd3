"""LSTM layers one above the other, over whole sequences or one position at a time.

Every layer is a Keras LSTM whose forget bias starts at 1:

    i, f, g, o = x W + h U + b;  c' = σ(f) c + σ(i) tanh(g);  h' = σ(o) tanh(c')

Each layer drops its output, not the state that it carries along (arXiv 1409.2329).
Keras' cuDNN form is not used: what is exported on a machine with a GPU must run on one without.
"""

from typing import Any, Literal

import keras
import tensorflow as tf

from ut_tf.layers.dropout import Dropout
from ut_tf.layers.linear import kernel_initializer, matmul

Carried = tuple[Any, Any]
Direction = Literal["forward", "backward", "both"]


def lstm_step(x: Any, carried: Carried, weights: dict[str, Any]) -> Carried:
    """One step of an LSTM.

    Args:
      x: [..., width].
      carried: (h, c) before the step, each [..., units].
      weights: from ``joined_weights``.

    Returns:
      (h, c) after the step.
    """
    h, c = carried
    gates = matmul(tf.concat([x, h], -1), weights["kernel"]) + weights["bias"]
    input_gate, forget_gate, candidate, output_gate = tf.split(gates, 4, -1)
    c = tf.sigmoid(forget_gate) * c + tf.sigmoid(input_gate) * tf.tanh(candidate)
    return tf.sigmoid(output_gate) * tf.tanh(c), c


def joined_weights(cell: Any, dtype: Any) -> dict[str, Any]:
    """The weights of a Keras LSTM cell for ``lstm_step``: one kernel [width + units, 4 * units] and
    a bias.
    """
    kernels = [tf.cast(kernel, dtype) for kernel in (cell.kernel, cell.recurrent_kernel)]
    return {"kernel": tf.concat(kernels, 0), "bias": tf.cast(cell.bias, dtype)}


def initializers(kernel_init: str) -> dict[str, Any]:
    """Keras' arguments for the initial kernels of an LSTM; "glorot" has orthogonal recurrent ones,
    as Keras' default.
    """
    if kernel_init == "glorot":
        recurrent = keras.initializers.Orthogonal()
    else:
        recurrent = kernel_initializer(kernel_init)
    return {
        "kernel_initializer": kernel_initializer(kernel_init),
        "recurrent_initializer": recurrent,
    }


@keras.saving.register_keras_serializable("ut_tf")
class LSTMStack(keras.layers.Layer):  # type: ignore[misc]
    """Keras LSTMs one above the other.

    Args:
      hidden_size: width of inputs and states.
      num_layers: how many.
      direction: "forward", "backward" or "both", with half of the width for either direction.
      dropout: rate on each layer's output.
      kernel_init: "glorot" or "unit_scaling".

    Call arguments:
      x: [batch, length, hidden_size].
      padding_mask: float32 [batch, length], 0 on padding, which leaves the carried state as it is;
        None: nothing is padding.
      initial: the (h, c) of each layer before the first position, [batch, hidden_size] each; None:
        zeros.
      training: whether to drop.

    Returns:
      (states [batch, length, hidden_size], the final (h, c) of each layer).
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
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.kernel_init = kernel_init
        self._directions = ("forward", "backward") if direction == "both" else (direction,)
        policy = self.dtype_policy.name
        # TensorFlow's checkpoints find layers by their attributes.
        for number in range(num_layers):
            for way in self._directions:
                setattr(self, f"{way}_{number}", self._lstm(f"{way}_{number}", way == "backward"))
            name = f"dropout_{number}"
            setattr(self, name, Dropout(dropout, name=name, dtype=policy))

    def build(self, shape: Any, *_: Any) -> None:
        for number in range(self.num_layers):
            for lstm in self.layer(number):
                lstm.build((None, None, self.hidden_size))
        self.built = True

    def call(
        self, x: Any, padding_mask: Any = None, initial: Any = None, training: bool = False
    ) -> tuple[Any, list[Carried]]:
        unpadded = None if padding_mask is None else padding_mask > 0.5
        x = tf.cast(x, self.compute_dtype)
        final = []
        for number in range(self.num_layers):
            before = None if initial is None else list(initial[number])
            outputs = [_outputs(lstm, x, unpadded, before) for lstm in self.layer(number)]
            states, h, c = (
                part[0] if len(part) == 1 else tf.concat(part, -1)
                for part in zip(*outputs, strict=True)
            )
            x = getattr(self, f"dropout_{number}")(states, training=training)
            final.append((h, c))
        return x, final

    def layer(self, number: int) -> list[Any]:
        """The Keras LSTMs of layer `number`, from 0: one for each direction."""
        return [getattr(self, f"{way}_{number}") for way in self._directions]

    def prepare(self) -> list[dict[str, Any]]:
        """The weights for ``step``."""
        return [
            joined_weights(lstm.cell, self.compute_dtype)
            for number in range(self.num_layers)
            for lstm in self.layer(number)
        ]

    def step(
        self, x: Any, carried: list[Carried], weights: list[dict[str, Any]]
    ) -> tuple[Any, list[Carried]]:
        """One new position x [..., hidden_size] of a forward stack.

        Returns:
          (state [..., hidden_size], the new (h, c) of each layer).
        """
        new = []
        for layer_carried, layer_weights in zip(carried, weights, strict=True):
            new.append(lstm_step(x, layer_carried, layer_weights))
            x = new[-1][0]
        return x, new

    def _lstm(self, name: str, backward: bool) -> Any:
        return keras.layers.LSTM(
            self.hidden_size // len(self._directions),
            return_sequences=True,
            return_state=True,
            go_backwards=backward,
            use_cudnn=False,
            **initializers(self.kernel_init),
            name=name,
            dtype=self.dtype_policy.name,
        )


def _outputs(lstm: Any, x: Any, padding_mask: Any, initial: Any) -> tuple[Any, Any, Any]:
    states, h, c = lstm(x, mask=padding_mask, initial_state=initial)
    # Keras' outputs carry the mask along, of which later layers would warn; a copy does not.
    return tf.reverse(states, [1]) if lstm.go_backwards else tf.identity(states), h, c
