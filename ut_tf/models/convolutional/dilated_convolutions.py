"""ByteNet: residual blocks of dilated convolutions; a decoder on top of a representation as long as
the source (arXiv 1610.10099).

How it is used::

    # inputs [batch, length, hidden_size]
    encoded = DilatedEncoder(network, stretch=1.2)(inputs, keep, training=True)
    decoder = DilatedDecoder(network, with_memory=True)
    states, _ = decoder(targets, decoder.read(encoded), training=True)

How it works: a block is (the paper's figure 3, with ReLUs, and its width 2d as hidden_size)

    x' = x + W₂ ReLU(LN(conv(ReLU(LN(W₁ ReLU(LN(x)))))))

with W₁ from hidden_size to half of it, W₂ back, and between them a convolution that sees
conv_kernel positions, which lie 1, 2, 4, … up to max_dilation apart from block to block, then 1
again: num_layers blocks. The decoder's see no later position. A layer norm follows the last.

Dynamic unfolding: the encoder runs over ⌈source_stretch · m⌉ positions for m symbols, those behind
the source empty, and the decoder reads position t of it beside its own t-th symbol: x = W [r_t;
y_t]. Behind the end of the representation r is zero, so an output may be as long as it wants. There
is no attention: time is linear in the lengths. A decoder that takes one position at a time keeps
the inputs that its convolutions reach back to.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ut_tf.config.network import NetworkConfig
from ut_tf.layers.dropout import Dropout
from ut_tf.layers.encoded import Encoded
from ut_tf.layers.linear import Linear, matmul
from ut_tf.layers.normalization import LayerNorm
from ut_tf.models.convolutional.convolution import Convolution, masked


def dilation_of(number: int, largest: int) -> int:
    """Returns the dilation of the block `number` (from 0): 1, 2, 4, … up to `largest`,
    and again.
    """
    return 1 << number % largest.bit_length()


def stretched(lengths: Any, stretch: float) -> Any:
    """Returns int32, how many positions represent so many symbols: ⌈stretch · lengths⌉."""
    # In float32 1.2 · 25 is a little more than 30.
    return tf.cast(tf.math.ceil(stretch * tf.cast(lengths, tf.float32) - 1e-3), tf.int32)


@keras.saving.register_keras_serializable("ut_tf")
class DilatedBlock(keras.layers.Layer):  # type: ignore[misc]
    """A dilated convolution between two maps of single positions, with layer norms, ReLUs and a
    residual.

    Args:
      network: its hidden_size, conv_kernel, dropout, kernel_init and norm_epsilon are used.
      dilation: how far the positions lie apart that the convolution sees.
      causal: whether it sees no later position.

    Call arguments:
      x: [batch, length, hidden_size] -> the same shape.
      keep: float32 [batch, length], 0 on padding, which the convolution sees as zeros; None:
        nothing is padding.
      training: whether to drop.
    """

    def __init__(self, network: NetworkConfig, dilation: int, causal: bool, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.network = network
        self.dilation = dilation
        self.causal = causal
        width, policy, kernel_init = network.hidden_size, self.dtype_policy, network.kernel_init
        self.inner_norm = LayerNorm(network.norm_epsilon, name="inner_norm", dtype=policy)
        self.inner = Linear(width // 2, True, kernel_init, name="inner", dtype=policy)
        self.middle_norm = LayerNorm(network.norm_epsilon, name="middle_norm", dtype=policy)
        options = {
            "causal": causal,
            "kernel_init": kernel_init,
            "name": "convolution",
            "dtype": policy,
        }
        self.convolution = Convolution(width // 2, network.conv_kernel, dilation, **options)
        self.outer_norm = LayerNorm(network.norm_epsilon, name="outer_norm", dtype=policy)
        self.outer = Linear(width, True, kernel_init, name="outer", dtype=policy)
        self.dropout = Dropout(network.dropout, name="dropout", dtype=policy)

    def build(self, input_shape: Any) -> None:
        half = (*input_shape[:-1], self.network.hidden_size // 2)
        for part in (self.inner_norm, self.inner):
            part.build(input_shape)
        for part in (self.middle_norm, self.convolution, self.outer_norm, self.outer):
            part.build(half)

    def call(self, x: Any, keep: Any = None, training: bool = False) -> Any:
        y = self.inner(tf.nn.relu(self.inner_norm(x)))
        y = self.convolution(tf.nn.relu(self.middle_norm(y)), keep)
        y = self.outer(tf.nn.relu(self.outer_norm(y)))
        return x + self.dropout(y, training=training)

    def prepare(self) -> dict[str, Any]:
        """Returns the weights for ``step``."""
        names = ("inner_norm", "inner", "middle_norm", "convolution", "outer_norm", "outer")
        return {name: getattr(self, name).prepare() for name in names}

    def step(self, x: Any, weights: dict[str, Any], earlier: Any) -> tuple[Any, Any]:
        """Returns (state [batch, n, hidden_size], what lies before the next position) of one new
        position x [batch, n, hidden_size].
        """
        y = _mapped(tf.nn.relu(self.inner_norm.step(x, weights["inner_norm"])), weights["inner"])
        y, earlier = self.convolution.step(
            tf.nn.relu(self.middle_norm.step(y, weights["middle_norm"])),
            weights["convolution"],
            earlier,
        )
        return (
            x
            + _mapped(tf.nn.relu(self.outer_norm.step(y, weights["outer_norm"])), weights["outer"]),
            earlier,
        )

    def get_config(self) -> dict[str, Any]:
        own = {"dilation": self.dilation, "causal": self.causal}
        return {**super().get_config(), "network": self.network.to_dict(), **own}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> DilatedBlock:
        return cls(**{**config, "network": NetworkConfig.from_dict(config["network"])})


def _mapped(x: Any, weights: dict[str, Any]) -> Any:
    return matmul(x, weights["kernel"]) + weights["bias"]


class _DilatedStack(keras.layers.Layer):  # type: ignore[misc]
    """What encoder and decoder share: num_layers blocks and the norm behind them."""

    def __init__(self, network: NetworkConfig, causal: bool, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.network = network
        # Attributes of their own: TensorFlow's checkpoints find those.
        for number in range(network.num_layers):
            dilation = dilation_of(number, network.max_dilation)
            setattr(
                self,
                f"block_{number}",
                DilatedBlock(
                    network, dilation, causal, name=f"block_{number}", dtype=self.dtype_policy
                ),
            )
        self.final_norm = LayerNorm(
            network.norm_epsilon, name="final_norm", dtype=self.dtype_policy
        )

    def build(self, shape: Any, *_: Any) -> None:
        parts: list[Any] = [*self.blocks, self.final_norm]
        for part in parts:
            part.build(shape)
        self.built = True

    @property
    def blocks(self) -> list[DilatedBlock]:
        """The blocks, the first one first."""
        return [getattr(self, f"block_{number}") for number in range(self.network.num_layers)]

    def run(self, x: Any, keep: Any, training: bool) -> Any:
        """Returns the states behind all blocks and the norm."""
        for block in self.blocks:
            x = block(x, keep=keep, training=training)
        return self.final_norm(x)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "network": self.network.to_dict()}


@keras.saving.register_keras_serializable("ut_tf")
class DilatedEncoder(_DilatedStack):
    """ByteNet's source network.

    Args:
      network: NetworkConfig.
      stretch: positions of the representation per symbol; 1 for a classifier.

    Call arguments:
      inputs: [batch, length, hidden_size].
      keep: float32 [batch, length], 0 on padding.
      training: whether to drop.

    Returns:
      Encoded, whose states are ⌈stretch · length⌉ positions long.
    """

    def __init__(self, network: NetworkConfig, stretch: float = 1.0, **kwargs: Any) -> None:
        super().__init__(network, causal=False, **kwargs)
        self.stretch = stretch

    def call(self, inputs: Any, keep: Any, training: bool = False) -> Encoded:
        length = tf.shape(inputs)[1]
        total = stretched(length, self.stretch)
        # Words that are left out embed as zeros, like padding: only the lengths tell them apart.
        represented = (
            tf.range(total)[None] < stretched(tf.reduce_sum(keep, 1), self.stretch)[:, None]
        )
        represented = tf.cast(represented, tf.float32)
        x = tf.pad(masked(inputs, keep), [[0, 0], [0, total - length], [0, 0]])
        return Encoded(masked(self.run(x, represented, training), represented), represented)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "stretch": self.stretch}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> DilatedEncoder:
        return cls(**{**config, "network": NetworkConfig.from_dict(config["network"])})


@keras.saving.register_keras_serializable("ut_tf")
class DilatedDecoder(_DilatedStack):
    """ByteNet's target network, or a language model.

    Args:
      network: NetworkConfig.
      with_memory: whether it stands on an encoder's representation.

    Call arguments:
      inputs: [batch, length, hidden_size].
      memory: what ``read`` returned; empty without an encoder.
      training: whether to drop.

    Returns:
      (states [batch, length, hidden_size], an empty list: there is no attention).
    """

    def __init__(self, network: NetworkConfig, with_memory: bool, **kwargs: Any) -> None:
        super().__init__(network, causal=True, **kwargs)
        self.with_memory = with_memory
        policy = self.dtype_policy
        self.combine = (
            Linear(network.hidden_size, True, network.kernel_init, name="combine", dtype=policy)
            if with_memory
            else None
        )

    def build(self, shape: Any, *_: Any) -> None:
        if self.combine is not None:
            self.combine.build((None, None, 2 * self.network.hidden_size))
        super().build(shape)

    def call(
        self, inputs: Any, memory: dict[str, Any], training: bool = False
    ) -> tuple[Any, list[Any]]:
        x = tf.cast(inputs, self.compute_dtype)
        if self.combine is not None:
            source, length = memory["source"], tf.shape(x)[1]
            missing = tf.maximum(length - tf.shape(source)[1], 0)
            unfolded = tf.pad(source, [[0, 0], [0, missing], [0, 0]])[:, :length]
            x = self.combine(tf.concat([unfolded, x], -1))
        return self.run(x, None, training), []

    def read(self, encoded: Encoded) -> dict[str, Any]:
        """Returns the representation, with an empty position at its end: "source" [batch,
        source_length + 1, hidden_size].
        """
        return {
            "source": tf.pad(tf.cast(encoded.states, self.compute_dtype), [[0, 0], [0, 1], [0, 0]])
        }

    def prepare(self) -> dict[str, Any]:
        """Returns the weights for ``step``."""
        weights = {
            "blocks": [block.prepare() for block in self.blocks],
            "final_norm": self.final_norm.prepare(),
        }
        return weights if self.combine is None else {**weights, "combine": self.combine.prepare()}

    def start(self, memory: dict[str, Any], batch_size: Any, beam_size: int) -> list[Any]:
        """Returns the inputs of each convolution before the first position: zeros."""
        del memory
        return [
            block.convolution.start(batch_size, beam_size, self.network.hidden_size // 2)
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
        if self.combine is not None:
            source = memory["source"]
            here = source[:, tf.minimum(index, tf.shape(source)[1] - 1)][:, None]
            x = _mapped(tf.concat([tf.broadcast_to(here, tf.shape(x)), x], -1), weights["combine"])
        new = []
        for block, block_weights, earlier in zip(
            self.blocks, weights["blocks"], state, strict=True
        ):
            x, earlier = block.step(x, block_weights, earlier)
            new.append(earlier)
        return self.final_norm.step(x, weights["final_norm"]), new

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "with_memory": self.with_memory}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> DilatedDecoder:
        return cls(**{**config, "network": NetworkConfig.from_dict(config["network"])})
