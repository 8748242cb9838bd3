"""LSTMs as encoder and decoder: Keras' own, one above the other, with Luong's or Bahdanau's
attention or none.

How it is used::

    # inputs [batch, length, hidden_size]
    encoded = LSTMEncoder(network)(inputs, keep, training=True)
    decoder = LSTMDecoder(network, with_memory=True)
    states, attention = decoder(targets, decoder.read(encoded), training=True)

How it works: every layer is a Keras LSTM,

    i, f, g, o = x W + h U + b;  c' = σ(f) c + σ(i) tanh(g);  h' = σ(o) tanh(c')

with a forget bias that starts at 1. Dropout lies on what goes into a layer and on what comes out of
the last, not on what it carries along (arXiv 1409.2329). The decoder's layers start from the final
states of the encoder's (arXiv 1409.3215). With attention the states s that are handed on are the
attentional ones, tanh(W [c; h]) of the context c and the top layer's h:

- luong (arXiv 1508.04025): the top layer's h asks, at all positions at once; the context is not fed
  back into the layers.
- bahdanau (arXiv 1409.0473): the first layer's h of the position *before* asks, and the context
  goes into the first layer beside the
  symbol: s_t = LSTM([y_t; c_t], s_{t-1}). Positions then follow one another in a loop.

``network.lstm_direction`` says how the encoder reads: forward; backward, as tensor2tensor's
lstm_seq2seq; or both, with half of the width for either direction. Padding does not change what is
carried along. A decoder takes one position at a time by the equations above, with weights joined
once. Keras' cuDNN form is not used: what is exported on a machine with a GPU must run on one
without.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ut_tf.config.network import NetworkConfig
from ut_tf.layers.alignment import Alignment
from ut_tf.layers.dropout import Dropout
from ut_tf.layers.encoded import Encoded
from ut_tf.layers.linear import Linear, kernel_initializer, matmul

Carried = tuple[Any, Any]


def lstm_step(x: Any, carried: Carried, weights: dict[str, Any]) -> Carried:
    """Returns the next (h, c), each [..., units], of inputs x [..., width] and the (h, c) before;
    `weights` from ``joined``.
    """
    h, c = carried
    gates = matmul(tf.concat([x, h], -1), weights["kernel"]) + weights["bias"]
    take, keep, new, show = tf.split(gates, 4, -1)
    c = tf.sigmoid(keep) * c + tf.sigmoid(take) * tf.tanh(new)
    return tf.sigmoid(show) * tf.tanh(c), c


def joined(cell: Any, dtype: Any) -> dict[str, Any]:
    """Returns a Keras LSTM cell's weights for ``lstm_step``: one kernel [width + units, 4 * units]
    and a bias.
    """
    kernels = [tf.cast(kernel, dtype) for kernel in (cell.kernel, cell.recurrent_kernel)]
    return {"kernel": tf.concat(kernels, 0), "bias": tf.cast(cell.bias, dtype)}


def _initializers(network: NetworkConfig) -> dict[str, Any]:
    recurrent = (
        keras.initializers.Orthogonal()
        if network.kernel_init == "glorot"
        else kernel_initializer(network.kernel_init)
    )
    return {
        "kernel_initializer": kernel_initializer(network.kernel_init),
        "recurrent_initializer": recurrent,
    }


@keras.saving.register_keras_serializable("ut_tf")
class LSTMStack(keras.layers.Layer):  # type: ignore[misc]
    """Keras LSTMs one above the other.

    Args:
      network: its hidden_size, kernel_init and dropout are used.
      num_layers: how many.
      direction: "forward", "backward" or "both".

    Call arguments:
      x: [batch, length, hidden_size].
      keep: float32 [batch, length], 0 on padding, which changes nothing that is carried along;
        None: nothing is padding.
      initial: the (h, c) of each layer before the first position, [batch, hidden_size] each; None:
        zeros.
      training: whether to drop.

    Returns:
      (states [batch, length, hidden_size], the final (h, c) of each layer).
    """

    def __init__(
        self, network: NetworkConfig, num_layers: int, direction: str = "forward", **kwargs: Any
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.network = network
        self.num_layers = num_layers
        self.direction = direction
        self._directions = ("forward", "backward") if direction == "both" else (direction,)
        # Attributes of their own: TensorFlow's checkpoints find those.
        for number in range(num_layers):
            for one in self._directions:
                setattr(self, f"{one}_{number}", self._lstm(f"{one}_{number}", one == "backward"))
            setattr(
                self,
                f"dropout_{number}",
                Dropout(network.dropout, name=f"dropout_{number}", dtype=self.dtype_policy),
            )

    def build(self, shape: Any, *_: Any) -> None:
        del shape
        for number in range(self.num_layers):
            for one in self._at(number):
                one.build((None, None, self.network.hidden_size))
        self.built = True

    def call(
        self, x: Any, keep: Any = None, initial: Any = None, training: bool = False
    ) -> tuple[Any, list[Carried]]:
        mask = None if keep is None else keep > 0.5
        x = tf.cast(x, self.compute_dtype)
        final = []
        for number in range(self.num_layers):
            before = None if initial is None else list(initial[number])
            parts = zip(*(_outputs(one, x, mask, before) for one in self._at(number)), strict=True)
            states, h, c = (part[0] if len(part) == 1 else tf.concat(part, -1) for part in parts)
            x = getattr(self, f"dropout_{number}")(states, training=training)
            final.append((h, c))
        return x, final

    def prepare(self) -> list[dict[str, Any]]:
        """Returns the weights for ``step``."""
        return [
            joined(one.cell, self.compute_dtype)
            for number in range(self.num_layers)
            for one in self._at(number)
        ]

    def step(
        self, x: Any, carried: list[Carried], weights: list[dict[str, Any]]
    ) -> tuple[Any, list[Carried]]:
        """Returns (state [..., hidden_size], the new (h, c) of each layer) of one new position x
        [..., hidden_size]; forward only.
        """
        new = []
        for one, layer_weights in zip(carried, weights, strict=True):
            new.append(lstm_step(x, one, layer_weights))
            x = new[-1][0]
        return x, new

    def _at(self, number: int) -> list[Any]:
        return [getattr(self, f"{one}_{number}") for one in self._directions]

    def _lstm(self, name: str, backward: bool) -> Any:
        units = self.network.hidden_size // len(self._directions)
        options = {
            "return_sequences": True,
            "return_state": True,
            "go_backwards": backward,
            "use_cudnn": False,
        }
        return keras.layers.LSTM(
            units, **options, **_initializers(self.network), name=name, dtype=self.dtype_policy
        )

    def get_config(self) -> dict[str, Any]:
        own = {"num_layers": self.num_layers, "direction": self.direction}
        return {**super().get_config(), "network": self.network.to_dict(), **own}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> LSTMStack:
        return cls(**{**config, "network": NetworkConfig.from_dict(config["network"])})


def _outputs(lstm: Any, x: Any, mask: Any, initial: Any) -> tuple[Any, Any, Any]:
    states, h, c = lstm(x, mask=mask, initial_state=initial)
    # What Keras hands out carries the mask along, which the layers behind would warn of; a copy
    # does not.
    return tf.reverse(states, [1]) if lstm.go_backwards else tf.identity(states), h, c


@keras.saving.register_keras_serializable("ut_tf")
class LSTMEncoder(keras.layers.Layer):  # type: ignore[misc]
    """An encoder of num_layers LSTMs, in network.lstm_direction.

    Args:
      network: its num_layers, lstm_direction, hidden_size, kernel_init and dropout are used.

    Call arguments:
      inputs: [batch, length, hidden_size].
      keep: float32 [batch, length], 0 on padding.
      training: whether to drop.

    Returns:
      Encoded, with the top layer's final h as summary and the final (h, c) of each layer as extra.
    """

    def __init__(self, network: NetworkConfig, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.network = network
        self.stack = LSTMStack(
            network,
            network.num_layers,
            network.lstm_direction,
            name="stack",
            dtype=self.dtype_policy,
        )

    def build(self, shape: Any, *_: Any) -> None:
        self.stack.build(shape)
        self.built = True

    def call(self, inputs: Any, keep: Any, training: bool = False) -> Encoded:
        states, final = self.stack(inputs, keep=keep, training=training)
        return Encoded(states, keep, final[-1][0], final)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "network": self.network.to_dict()}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> LSTMEncoder:
        return cls(**{**config, "network": NetworkConfig.from_dict(config["network"])})


@keras.saving.register_keras_serializable("ut_tf")
class AttentiveLSTM(keras.layers.Layer):  # type: ignore[misc]
    """Bahdanau's layer: its state asks the encoder's, and reads the answer beside the next symbol.

    Args:
      network: its hidden_size and kernel_init are used.

    Call arguments:
      x: [batch, length, hidden_size].
      memory: what ``Alignment.read`` returned.
      initial: (h, c) before the first position, [batch, hidden_size] each.

    Returns:
      (states [batch, length, hidden_size], contexts of the same shape, weights float32 [batch,
      length, memory_length]).
    """

    def __init__(self, network: NetworkConfig, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.network = network
        self.alignment = Alignment(network, name="alignment", dtype=self.dtype_policy)
        self.cell = keras.layers.LSTMCell(
            network.hidden_size, **_initializers(network), name="cell", dtype=self.dtype_policy
        )

    def build(self, shape: Any, *_: Any) -> None:
        del shape
        width = self.network.hidden_size
        self.alignment.build((None, None, width))
        self.cell.build((None, 2 * width))
        self.built = True

    def call(self, x: Any, memory: dict[str, Any], initial: Carried) -> tuple[Any, Any, Any]:
        weights, length = self.prepare(), tf.shape(x)[1]
        symbols = tf.TensorArray(x.dtype, length).unstack(tf.transpose(x, [1, 0, 2]))
        arrays = tuple(tf.TensorArray(dtype, length) for dtype in (x.dtype, x.dtype, tf.float32))

        def body(index: Any, h: Any, c: Any, arrays: Any) -> Any:
            (h, c), *results = self.step(symbols.read(index)[:, None], (h, c), weights, memory)
            written = (
                array.write(index, one[:, 0])
                for array, one in zip(arrays, (h, *results), strict=True)
            )
            return index + 1, h, c, tuple(written)

        start = (tf.constant(0), *(tf.cast(one, x.dtype)[:, None] for one in initial), arrays)
        # maximum_iterations lets XLA take the gradient of the loop.
        *_, arrays = tf.while_loop(
            lambda index, *_: index < length, body, start, maximum_iterations=length
        )
        states, contexts, attention = (tf.transpose(array.stack(), [1, 0, 2]) for array in arrays)
        return tf.ensure_shape(states, x.shape), tf.ensure_shape(contexts, x.shape), attention

    def prepare(self) -> dict[str, Any]:
        """Returns the weights for ``step``."""
        return {
            "alignment": self.alignment.prepare(),
            "cell": joined(self.cell, self.compute_dtype),
        }

    def step(
        self, x: Any, carried: Carried, weights: dict[str, Any], memory: dict[str, Any]
    ) -> tuple[Carried, Any, Any]:
        """Returns (the new (h, c), context, weights) of one new position x [batch, n, hidden_size]
        of n hypotheses.
        """
        contexts, attention = self.alignment.attend(carried[0], memory, weights["alignment"])
        return (
            lstm_step(tf.concat([x, contexts], -1), carried, weights["cell"]),
            contexts,
            attention,
        )

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "network": self.network.to_dict()}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> AttentiveLSTM:
        return cls(**{**config, "network": NetworkConfig.from_dict(config["network"])})


@keras.saving.register_keras_serializable("ut_tf")
class LSTMDecoder(keras.layers.Layer):  # type: ignore[misc]
    """A decoder of num_layers LSTMs, with network.lstm_attention over an encoder's states.

    Args:
      network: its num_layers, lstm_attention, hidden_size, kernel_init and dropout are used.
      with_memory: whether there is an encoder; without one there is no attention.

    Call arguments:
      inputs: [batch, length, hidden_size].
      memory: what ``read`` returned; empty without an encoder.
      training: whether to drop.

    Returns:
      (states [batch, length, hidden_size], attention: a list of float32 [batch, length,
      memory_length], one or none).
    """

    def __init__(self, network: NetworkConfig, with_memory: bool, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.network = network
        self.with_memory = with_memory
        self.form = network.lstm_attention if with_memory else "none"
        policy, feeds = self.dtype_policy, self.form == "bahdanau"
        self.first = AttentiveLSTM(network, name="first", dtype=policy) if feeds else None
        self.first_dropout = (
            Dropout(network.dropout, name="first_dropout", dtype=policy) if feeds else None
        )
        self.stack = LSTMStack(network, network.num_layers - int(feeds), name="stack", dtype=policy)
        self.alignment = (
            Alignment(network, name="alignment", dtype=policy) if self.form == "luong" else None
        )
        self.combine = None
        if self.form != "none":
            self.combine = Linear(
                network.hidden_size, False, network.kernel_init, name="combine", dtype=policy
            )

    def build(self, shape: Any, *_: Any) -> None:
        del shape
        width = self.network.hidden_size
        for part in (self.first, self.stack, self.alignment):
            if part is not None:
                part.build((None, None, width))
        if self.combine is not None:
            self.combine.build((None, None, 2 * width))
        self.built = True

    def call(
        self, inputs: Any, memory: dict[str, Any], training: bool = False
    ) -> tuple[Any, list[Any]]:
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
        """Returns what the decoder reads of an encoder: its final (h, c), and with attention keys,
        values and bias.
        """
        alignment = self.alignment if self.first is None else self.first.alignment
        attended = {} if alignment is None else alignment.read(encoded.states, encoded.keep)
        return {"final": encoded.extra, **attended}

    def prepare(self) -> dict[str, Any]:
        """Returns the weights for ``step``."""
        parts = {
            "first": self.first,
            "stack": self.stack,
            "alignment": self.alignment,
            "combine": self.combine,
        }
        return {name: part.prepare() for name, part in parts.items() if part is not None}

    def start(self, memory: dict[str, Any], batch_size: Any, beam_size: int) -> list[Carried]:
        """Returns the (h, c) of each layer before the first position, [batch, beam_size,
        hidden_size] each.
        """
        if not memory:
            zeros = tf.zeros(
                tf.stack([batch_size, beam_size, self.network.hidden_size]), self.compute_dtype
            )
            return [(zeros, zeros)] * self.network.num_layers
        return [
            tuple(tf.tile(one[:, None], [1, beam_size, 1]) for one in carried)
            for carried in memory["final"]
        ]

    def step(
        self,
        x: Any,
        index: Any,
        weights: dict[str, Any],
        memory: dict[str, Any],
        state: list[Carried],
    ) -> tuple[Any, list[Carried]]:
        """Computes one new position of n hypotheses per example.

        Args:
          x: [batch, n, hidden_size].
          index: int32 [], the position; without effect here.
          weights: from ``prepare``.
          memory: from ``read``; empty without an encoder.
          state: from ``start`` or an earlier step.

        Returns:
          (states [batch, n, hidden_size], the new state).
        """
        del index
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

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "network": self.network.to_dict(),
            "with_memory": self.with_memory,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> LSTMDecoder:
        return cls(**{**config, "network": NetworkConfig.from_dict(config["network"])})


def _attentional_step(contexts: Any, states: Any, weights: dict[str, Any]) -> Any:
    return tf.tanh(matmul(tf.concat([contexts, states], -1), weights["combine"]["kernel"]))
