"""The LSTM decoder, with Luong's or Bahdanau's attention or none.

The decoder's layers start from the final states of the encoder's (arXiv 1409.3215). With attention
the decoder's states are the attentional ones, tanh(W [c; h]) of the context c and the top layer's
h:

- luong (arXiv 1508.04025): the top layer's h is the query, at all positions at once; the context is
  not fed back into the layers.
- bahdanau (arXiv 1409.0473): the first layer's h of the position *before* is the query, and the
  context enters the first layer beside the symbol: s_t = LSTM([y_t; c_t], s_{t-1}). Positions then
  follow one another in a loop.
"""

from typing import Any, Literal

import keras
import tensorflow as tf

from ut_tf.layers.dropout import Dropout
from ut_tf.layers.linear import Linear, matmul
from ut_tf.models.interfaces import Encoded, Memory
from ut_tf.models.lstm.attention import BahdanauAttention, LuongAttention
from ut_tf.models.lstm.stack import Carried, LSTMStack, initializers, joined_weights, lstm_step


@keras.saving.register_keras_serializable("ut_tf")
class AttentiveLSTM(keras.layers.Layer):  # type: ignore[misc]
    """Bahdanau's first layer: an LSTM that reads the context of its last state beside each symbol.

    Args:
      hidden_size: width of inputs, states and contexts.
      kernel_init: "glorot" or "unit_scaling".

    Call arguments:
      x: [batch, length, hidden_size].
      memory: from ``alignment.read``.
      initial: (h, c) before the first position, [batch, hidden_size] each.

    Returns:
      (states [batch, length, hidden_size], contexts of the same shape, weights float32 [batch,
      length, memory_length]).
    """

    def __init__(self, hidden_size: int, kernel_init: str = "glorot", **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.hidden_size = hidden_size
        policy = self.dtype_policy.name
        self.alignment = BahdanauAttention(hidden_size, kernel_init, name="alignment", dtype=policy)
        self.cell = keras.layers.LSTMCell(
            hidden_size, **initializers(kernel_init), name="cell", dtype=policy
        )

    def build(self, shape: Any, *_: Any) -> None:
        self.alignment.build((None, None, self.hidden_size))
        self.cell.build((None, 2 * self.hidden_size))
        self.built = True

    def call(self, x: Any, memory: Memory, initial: Carried) -> tuple[Any, Any, Any]:
        weights, length = self.prepare(), tf.shape(x)[1]
        symbols = tf.TensorArray(x.dtype, length).unstack(tf.transpose(x, [1, 0, 2]))
        arrays = tuple(tf.TensorArray(dtype, length) for dtype in (x.dtype, x.dtype, tf.float32))

        def body(index: Any, h: Any, c: Any, arrays: Any) -> Any:
            (h, c), *results = self.step(symbols.read(index)[:, None], (h, c), weights, memory)
            written = (
                array.write(index, result[:, 0])
                for array, result in zip(arrays, (h, *results), strict=True)
            )
            return index + 1, h, c, tuple(written)

        start = (tf.constant(0), *(tf.cast(part, x.dtype)[:, None] for part in initial), arrays)
        # maximum_iterations lets XLA take the gradient of the loop.
        *_, arrays = tf.while_loop(
            lambda index, *_: index < length, body, start, maximum_iterations=length
        )
        states, contexts, attention = (tf.transpose(array.stack(), [1, 0, 2]) for array in arrays)
        return tf.ensure_shape(states, x.shape), tf.ensure_shape(contexts, x.shape), attention

    def prepare(self) -> dict[str, Any]:
        """The weights for ``step``."""
        return {
            "alignment": self.alignment.prepare(),
            "cell": joined_weights(self.cell, self.compute_dtype),
        }

    def step(
        self, x: Any, carried: Carried, weights: dict[str, Any], memory: Memory
    ) -> tuple[Carried, Any, Any]:
        """One new position x [batch, n, hidden_size] of n hypotheses.

        Returns:
          (the new (h, c), contexts, attention weights).
        """
        contexts, attention = self.alignment.attend(carried[0], memory, weights["alignment"])
        new = lstm_step(tf.concat([x, contexts], -1), carried, weights["cell"])
        return new, contexts, attention


@keras.saving.register_keras_serializable("ut_tf")
class LSTMDecoder(keras.layers.Layer):  # type: ignore[misc]
    """A decoder of num_layers LSTMs.

    Args:
      hidden_size: width of inputs and states.
      num_layers: how many LSTMs, AttentiveLSTM included.
      attention: over an encoder's states: "none", "luong" or "bahdanau".
      dropout: rate on each layer's output.
      kernel_init: "glorot" or "unit_scaling".

    Call arguments:
      inputs: [batch, length, hidden_size].
      memory: from ``read``; empty without an encoder.
      training: whether to drop.

    Returns:
      (states [batch, length, hidden_size], attention: a list of float32 [batch, length,
      memory_length], one or none).
    """

    def __init__(
        self,
        hidden_size: int,
        num_layers: int,
        attention: Literal["none", "luong", "bahdanau"] = "none",
        dropout: float = 0.0,
        kernel_init: str = "glorot",
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        policy = self.dtype_policy.name
        self.first = self.first_dropout = self.alignment = self.combine = None
        if attention == "bahdanau":
            self.first = AttentiveLSTM(hidden_size, kernel_init, name="first", dtype=policy)
            self.first_dropout = Dropout(dropout, name="first_dropout", dtype=policy)
        self.stack = LSTMStack(
            hidden_size,
            num_layers - (attention == "bahdanau"),
            dropout=dropout,
            kernel_init=kernel_init,
            name="stack",
            dtype=policy,
        )
        if attention == "luong":
            self.alignment = LuongAttention(
                hidden_size, kernel_init, name="alignment", dtype=policy
            )
        if attention != "none":
            self.combine = Linear(hidden_size, False, kernel_init, name="combine", dtype=policy)

    def build(self, shape: Any, *_: Any) -> None:
        for part in (self.first, self.stack, self.alignment):
            if part is not None:
                part.build((None, None, self.hidden_size))
        if self.combine is not None:
            self.combine.build((None, None, 2 * self.hidden_size))
        self.built = True

    def call(self, inputs: Any, memory: Memory, training: bool = False) -> tuple[Any, list[Any]]:
        if self.first is not None:
            assert self.first_dropout is not None
            initial = memory["final"]
            states, contexts, attention = self.first(
                tf.cast(inputs, self.compute_dtype), memory, initial[0]
            )
            states, _ = self.stack(
                self.first_dropout(states, training=training),
                initial=initial[1:],
                training=training,
            )
            return self._attentional(contexts, states), [attention]
        states, _ = self.stack(inputs, initial=memory.get("final"), training=training)
        if self.alignment is None:
            return states, []
        contexts, attention = self.alignment.attend(states, memory, self.alignment.prepare())
        return self._attentional(contexts, states), [attention]

    def read(self, encoded: Encoded) -> dict[str, Any]:
        """The encoder's final (h, c) of each layer and, with attention, keys, values and bias."""
        alignment = self.alignment if self.first is None else self.first.alignment
        attended = {} if alignment is None else alignment.read(encoded.states, encoded.mask)
        return {"final": encoded.extra, **attended}

    def prepare(self) -> dict[str, Any]:
        """The weights for ``step``."""
        parts = {
            "first": self.first,
            "stack": self.stack,
            "alignment": self.alignment,
            "combine": self.combine,
        }
        return {name: part.prepare() for name, part in parts.items() if part is not None}

    def start(self, memory: Memory, batch_size: Any, beam_size: int) -> list[Carried]:
        """The (h, c) of each layer before the first position, [batch, beam_size, hidden_size]
        each.
        """
        if not memory:
            zeros = tf.zeros(
                tf.stack([batch_size, beam_size, self.hidden_size]), self.compute_dtype
            )
            return [(zeros, zeros)] * self.num_layers
        return [
            tuple(tf.tile(part[:, None], [1, beam_size, 1]) for part in carried)
            for carried in memory["final"]
        ]

    def step(
        self, x: Any, index: Any, weights: dict[str, Any], memory: Memory, state: list[Carried]
    ) -> tuple[Any, list[Carried]]:
        """One new position; arguments and result are those of ``interfaces.DecoderPart.step``."""
        if self.first is not None:
            carried, contexts, _ = self.first.step(x, state[0], weights["first"], memory)
            x, others = self.stack.step(carried[0], state[1:], weights["stack"])
            return _attentional_step(contexts, x, weights), [carried, *others]
        x, state = self.stack.step(x, state, weights["stack"])
        if self.alignment is None:
            return x, state
        contexts, _ = self.alignment.attend(x, memory, weights["alignment"])
        return _attentional_step(contexts, x, weights), state

    def _attentional(self, contexts: Any, states: Any) -> Any:
        assert self.combine is not None
        return tf.tanh(self.combine(tf.concat([contexts, states], -1)))


def _attentional_step(contexts: Any, states: Any, weights: dict[str, Any]) -> Any:
    return tf.tanh(matmul(tf.concat([contexts, states], -1), weights["combine"]["kernel"]))
