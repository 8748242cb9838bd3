"""ConvS2S: blocks of gated convolutions with attention at every layer of the decoder (arXiv
1705.03122).

How it is used::

    # inputs [batch, length, hidden_size]
    encoded = GatedEncoder(network)(inputs, keep, training=True)
    decoder = GatedDecoder(network, with_memory=True)
    # attention: one per layer
    states, attention = decoder(targets, decoder.read(encoded), training=True)

How it works: e = w + p, embedded symbols w plus learned embeddings p of their positions; then
num_layers blocks

    y = GLU(conv(x));  in a decoder: y = (y + c) · √½;  x' = (y + x) · √½

where the convolution sees conv_kernel positions and gives twice the width for the gates. A
decoder's block asks with its y and its embedded symbol g, by scores (W y + b + g) · √½ · z with the
encoder's last states z; what it reads are z + e. Each sum of two is multiplied by √½, which keeps
its variance; the context c by √m, m the number of input symbols, as a mean over m has less. The
gradient that z gets is divided by num_layers, the number of attentions. Dropout lies on what goes
into a convolution, and on the decoder's output. Kernels start at variance 4 (1 - dropout) /
(conv_kernel · d), which a GLU halves twice. Where embeddings are large the scores are sharp from
the start: the paper has embeddings of deviation 0.1 (embedding_scale=none, embedding_stddev=0.1).

Left out: weight normalisation, and the maps between different widths of embeddings and states. A
decoder that takes one position at a time keeps the last conv_kernel - 1 inputs of each convolution.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import keras
import tensorflow as tf

from ut_tf.config.network import NetworkConfig
from ut_tf.layers.alignment import hidden_padding, mix
from ut_tf.layers.dropout import Dropout
from ut_tf.layers.embedding import TokenEmbedding
from ut_tf.layers.encoded import Encoded
from ut_tf.layers.linear import Linear, matmul
from ut_tf.models.convolutional.convolution import Convolution, gated

_HALF = 0.5**0.5


def divided_gradient(x: Any, count: int) -> Any:
    """Returns x, whose gradient is divided by `count`."""
    return x / count + tf.stop_gradient(x - x / count)


@keras.saving.register_keras_serializable("ut_tf")
class LearnedPositions(keras.layers.Layer):  # type: ignore[misc]
    """Adds a learned embedding of each position; those beyond network.learned_positions share the
    last.

    Args:
      network: its learned_positions, position ("none": nothing is added), hidden_size and the
        embedding's scale and deviation are used.

    Call arguments:
      x: [batch, length, hidden_size].
    """

    def __init__(self, network: NetworkConfig, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.network = network
        self.table = None
        if network.position != "none":
            # As symbols are embedded, those of words left out apart; id 0 would be padding.
            plain = dataclasses.replace(network, word_dropout=0.0)
            self.table = TokenEmbedding(
                network.learned_positions + 1, plain, name="embedding", dtype=self.dtype_policy
            )

    def build(self, input_shape: Any) -> None:
        if self.table is not None:
            self.table.build(input_shape)

    def call(self, x: Any) -> Any:
        if self.table is None:
            return x
        positions = 1 + tf.range(tf.shape(x)[1])
        return x + self.table(tf.minimum(positions, self.network.learned_positions)[None])

    def prepare(self) -> dict[str, Any]:
        """Returns the weights for ``step``."""
        return {} if self.table is None else self.table.prepare()

    def step(self, x: Any, index: Any, weights: dict[str, Any]) -> Any:
        """Returns x [batch, n, hidden_size], all at position `index`, with its embedding."""
        if self.table is None:
            return x
        return x + self.table.step(
            tf.minimum(index + 1, self.network.learned_positions)[None], weights
        )

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "network": self.network.to_dict()}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> LearnedPositions:
        return cls(**{**config, "network": NetworkConfig.from_dict(config["network"])})


@keras.saving.register_keras_serializable("ut_tf")
class GatedBlock(keras.layers.Layer):  # type: ignore[misc]
    """A gated convolution with residual, and with attention where there is a memory.

    Args:
      network: its hidden_size, conv_kernel, dropout and kernel_init are used.
      causal: whether positions see only earlier ones.
      with_memory: whether it attends over an encoder's states.

    Call arguments:
      x: [batch, length, hidden_size].
      keep: float32 [batch, length], 0 on padding; None: nothing is padding.
      embedded: [batch, length, hidden_size], the embedded symbols, where there is a memory.
      memory: what ``GatedDecoder.read`` returned; empty without one.
      training: whether to drop.

    Returns:
      (states [batch, length, hidden_size], attention weights float32 [batch, length, memory_length]
      or None).
    """

    def __init__(
        self, network: NetworkConfig, causal: bool, with_memory: bool, **kwargs: Any
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.network = network
        self.causal = causal
        self.with_memory = with_memory
        policy, width = self.dtype_policy, network.hidden_size
        gain = 4.0 * (1.0 - network.dropout)
        self.dropout = Dropout(network.dropout, name="dropout", dtype=policy)
        self.convolution = Convolution(
            2 * width,
            network.conv_kernel,
            causal=causal,
            gain=gain,
            name="convolution",
            dtype=policy,
        )
        self.query = (
            Linear(width, True, network.kernel_init, name="query", dtype=policy)
            if with_memory
            else None
        )

    def build(self, input_shape: Any) -> None:
        self.convolution.build(input_shape)
        if self.query is not None:
            self.query.build(input_shape)

    def call(
        self,
        x: Any,
        keep: Any = None,
        embedded: Any = None,
        memory: Any = None,
        training: bool = False,
    ) -> tuple[Any, Any]:
        y = gated(self.convolution(self.dropout(x, training=training), keep))
        return self._joined(
            y, x, embedded, memory, None if self.query is None else self.query.prepare()
        )

    def prepare(self) -> dict[str, Any]:
        """Returns the weights for ``step``."""
        weights = {"convolution": self.convolution.prepare()}
        return weights if self.query is None else {**weights, "query": self.query.prepare()}

    def step(
        self, x: Any, embedded: Any, weights: dict[str, Any], memory: dict[str, Any], earlier: Any
    ) -> tuple[Any, Any]:
        """Returns (state [batch, n, hidden_size], the inputs before the next position) of one new
        position x [batch, n, hidden_size].
        """
        y, earlier = self.convolution.step(x, weights["convolution"], earlier)
        return self._joined(gated(y), x, embedded, memory, weights.get("query"))[0], earlier

    def _joined(self, y: Any, x: Any, embedded: Any, memory: Any, query: Any) -> tuple[Any, Any]:
        attention = None
        if query is not None:
            asked = (matmul(y, query["kernel"]) + query["bias"] + embedded) * _HALF
            contexts, attention = mix(tf.matmul(asked, memory["keys"], transpose_b=True), memory)
            y = (y + contexts) * _HALF
        return (y + x) * _HALF, attention

    def get_config(self) -> dict[str, Any]:
        own = {"causal": self.causal, "with_memory": self.with_memory}
        return {**super().get_config(), "network": self.network.to_dict(), **own}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> GatedBlock:
        return cls(**{**config, "network": NetworkConfig.from_dict(config["network"])})


class _GatedStack(keras.layers.Layer):  # type: ignore[misc]
    """What encoder and decoder share: positions and num_layers blocks."""

    def __init__(
        self, network: NetworkConfig, causal: bool, with_memory: bool, **kwargs: Any
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.network = network
        self.with_memory = with_memory
        self.positions = LearnedPositions(network, name="positions", dtype=self.dtype_policy)
        # Attributes of their own: TensorFlow's checkpoints find those.
        for number in range(network.num_layers):
            block = GatedBlock(
                network, causal, with_memory, name=f"block_{number}", dtype=self.dtype_policy
            )
            setattr(self, f"block_{number}", block)

    def build(self, shape: Any, *_: Any) -> None:
        parts: list[Any] = [self.positions, *self.blocks]
        for part in parts:
            part.build(shape)
        self.built = True

    @property
    def blocks(self) -> list[GatedBlock]:
        """The blocks, the first one first."""
        return [getattr(self, f"block_{number}") for number in range(self.network.num_layers)]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "network": self.network.to_dict()}


@keras.saving.register_keras_serializable("ut_tf")
class GatedEncoder(_GatedStack):
    """ConvS2S's encoder.

    Args:
      network: NetworkConfig.

    Call arguments:
      inputs: [batch, length, hidden_size].
      keep: float32 [batch, length], 0 on padding.
      training: whether to drop.

    Returns:
      Encoded, with the embedded inputs and their positions as extra.
    """

    def __init__(self, network: NetworkConfig, **kwargs: Any) -> None:
        super().__init__(network, causal=False, with_memory=False, **kwargs)

    def call(self, inputs: Any, keep: Any, training: bool = False) -> Encoded:
        x = embedded = self.positions(inputs)
        for block in self.blocks:
            x, _ = block(x, keep=keep, training=training)
        return Encoded(x, keep, extra=embedded)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> GatedEncoder:
        return cls(**{**config, "network": NetworkConfig.from_dict(config["network"])})


@keras.saving.register_keras_serializable("ut_tf")
class GatedDecoder(_GatedStack):
    """ConvS2S's decoder.

    Args:
      network: NetworkConfig.
      with_memory: whether there is an encoder; without one there is no attention.

    Call arguments:
      inputs: [batch, length, hidden_size].
      memory: what ``read`` returned; empty without an encoder.
      training: whether to drop.

    Returns:
      (states [batch, length, hidden_size], attention: float32 [batch, length, memory_length] for
      each layer, or an empty list).
    """

    def __init__(self, network: NetworkConfig, with_memory: bool, **kwargs: Any) -> None:
        super().__init__(network, causal=True, with_memory=with_memory, **kwargs)
        self.dropout = Dropout(network.dropout, name="dropout", dtype=self.dtype_policy)

    def call(
        self, inputs: Any, memory: dict[str, Any], training: bool = False
    ) -> tuple[Any, list[Any]]:
        x = embedded = self.positions(inputs)
        attention = []
        for block in self.blocks:
            x, weights = block(x, embedded=embedded, memory=memory, training=training)
            attention += [] if weights is None else [weights]
        return self.dropout(x, training=training), attention

    def read(self, encoded: Encoded) -> dict[str, Any]:
        """Returns what the blocks read of an encoder: keys z, values (z + e) √m, and what hides
        padding.
        """
        keys = divided_gradient(encoded.states, self.network.num_layers)
        count = tf.cast(tf.sqrt(tf.maximum(tf.reduce_sum(encoded.keep, 1), 1.0)), keys.dtype)
        return {
            "keys": keys,
            "values": (keys + encoded.extra) * count[:, None, None],
            "bias": hidden_padding(encoded.keep),
        }

    def prepare(self) -> dict[str, Any]:
        """Returns the weights for ``step``."""
        return {
            "positions": self.positions.prepare(),
            "blocks": [block.prepare() for block in self.blocks],
        }

    def start(self, memory: dict[str, Any], batch_size: Any, beam_size: int) -> list[Any]:
        """Returns the inputs of each convolution before the first position: zeros."""
        del memory
        return [
            block.convolution.start(batch_size, beam_size, self.network.hidden_size)
            for block in self.blocks
        ]

    def step(
        self, x: Any, index: Any, weights: dict[str, Any], memory: dict[str, Any], state: list[Any]
    ) -> tuple[Any, list[Any]]:
        """Computes one new position of n hypotheses per example.

        Args:
          x: [batch, n, hidden_size].
          index: int32 [], the position, from 0.
          weights: from ``prepare``.
          memory: from ``read``; empty without an encoder.
          state: from ``start`` or an earlier step.

        Returns:
          (states [batch, n, hidden_size], the new state).
        """
        x = embedded = self.positions.step(x, index, weights["positions"])
        new = []
        for block, block_weights, earlier in zip(
            self.blocks, weights["blocks"], state, strict=True
        ):
            x, earlier = block.step(x, embedded, block_weights, memory, earlier)
            new.append(earlier)
        return x, new

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "with_memory": self.with_memory}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> GatedDecoder:
        return cls(**{**config, "network": NetworkConfig.from_dict(config["network"])})
