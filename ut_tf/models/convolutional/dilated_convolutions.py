"""ByteNet's encoder and decoder of dilated convolutions (arXiv 1610.10099).

num_layers blocks (``dilated_block.py``), whose convolutions see positions 1, 2, 4, … up to
max_dilation apart from block to block, then 1 again. The decoder's see no later position. A layer
norm follows the last block. ``DilatedDecoder`` says how the decoder reads the encoder.
"""

from typing import Any, ClassVar

import keras
import tensorflow as tf

from ut_tf.layers.composite import build_parts, keep_parts, kept_parts
from ut_tf.layers.linear import Linear
from ut_tf.layers.normalization import LayerNorm
from ut_tf.layers.stretch import stretched
from ut_tf.models.convolutional.convolution import masked
from ut_tf.models.convolutional.dilated_block import DilatedBlock, affine
from ut_tf.models.interfaces import Encoded, Memory


class DilatedStack(keras.layers.Layer):  # type: ignore[misc]
    """The blocks of an encoder or a decoder, and the norm behind them.

    Args:
      hidden_size: width of the states.
      num_layers: number of blocks.
      kernel_size: positions that a convolution sees.
      max_dilation: the largest distance between these, a power of two.
      dropout: rate on each block's output.
      norm_epsilon: as of ``LayerNorm``.
      kernel_init: as of ``Linear``.
    """

    causal: ClassVar[bool]
    """Whether convolutions see no later position."""

    def __init__(
        self,
        hidden_size: int,
        num_layers: int,
        kernel_size: int = 3,
        max_dilation: int = 16,
        dropout: float = 0.0,
        norm_epsilon: float = 1e-6,
        kernel_init: str = "glorot",
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.kernel_init = kernel_init
        policy = self.dtype_policy.name
        blocks = [
            DilatedBlock(
                hidden_size,
                kernel_size,
                # 1, 2, 4, ... up to the largest, and again.
                1 << number % max_dilation.bit_length(),
                self.causal,
                dropout,
                norm_epsilon,
                kernel_init,
                name=f"block_{number}",
                dtype=policy,
            )
            for number in range(num_layers)
        ]
        keep_parts(self, "block", blocks)
        self.final_norm = LayerNorm(norm_epsilon, name="final_norm", dtype=policy)

    def build(self, shape: Any, *_: Any) -> None:
        build_parts([*self.blocks, self.final_norm], shape)
        self.built = True

    @property
    def blocks(self) -> list[DilatedBlock]:
        """The blocks, the first one first."""
        return kept_parts(self, "block", self.num_layers)

    def run(self, x: Any, padding_mask: Any, training: bool) -> Any:
        """The states behind all blocks and the norm."""
        for block in self.blocks:
            x = block(x, padding_mask=padding_mask, training=training)
        return self.final_norm(x)


@keras.saving.register_keras_serializable("ut_tf")
class DilatedEncoder(DilatedStack):
    """ByteNet's source network.

    Args:
      stretch: positions of the representation per symbol; those behind the source are empty.
      others: as of ``DilatedStack``.

    Call arguments:
      inputs: [batch, length, hidden_size].
      padding_mask: float32 [batch, length], 0 on padding.
      training: whether to drop.

    Returns:
      Encoded, whose states are ⌈stretch · length⌉ positions long.
    """

    causal: ClassVar[bool] = False

    def __init__(self, stretch: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stretch = stretch

    def call(self, inputs: Any, padding_mask: Any, training: bool = False) -> Encoded:
        length = tf.shape(inputs)[1]
        total = stretched(length, self.stretch)
        # Words that are left out embed as zeros, like padding: only the lengths tell them apart.
        represented = (
            tf.range(total)[None] < stretched(tf.reduce_sum(padding_mask, 1), self.stretch)[:, None]
        )
        represented = tf.cast(represented, tf.float32)
        x = tf.pad(masked(inputs, padding_mask), [[0, 0], [0, total - length], [0, 0]])
        return Encoded(masked(self.run(x, represented, training), represented), represented)


@keras.saving.register_keras_serializable("ut_tf")
class DilatedDecoder(DilatedStack):
    """ByteNet's target network, or a language model.

    Dynamic unfolding: position t reads position t of the encoder's representation r beside its own
    symbol, x = W [r_t; y_t]. Behind the end of the representation r is zero, so an output may have
    any length. Time is linear in the lengths: there is no attention. A decoder that takes one
    position at a time keeps the inputs that its convolutions reach back to.

    Args:
      with_memory: whether the decoder reads an encoder's representation.
      others: as of ``DilatedStack``.

    Call arguments:
      inputs: [batch, length, hidden_size].
      memory: from ``read``; empty without an encoder.
      training: whether to drop.

    Returns:
      (states [batch, length, hidden_size], an empty list: there is no attention).
    """

    causal: ClassVar[bool] = True

    def __init__(self, with_memory: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.combine = None
        if with_memory:
            self.combine = Linear(
                self.hidden_size,
                True,
                self.kernel_init,
                name="combine",
                dtype=self.dtype_policy.name,
            )

    def build(self, shape: Any, *_: Any) -> None:
        if self.combine is not None:
            self.combine.build((None, None, 2 * self.hidden_size))
        super().build(shape)

    def call(self, inputs: Any, memory: Memory, training: bool = False) -> tuple[Any, list[Any]]:
        x = tf.cast(inputs, self.compute_dtype)
        if self.combine is not None:
            source, length = memory["source"], tf.shape(x)[1]
            missing = tf.maximum(length - tf.shape(source)[1], 0)
            unfolded = tf.pad(source, [[0, 0], [0, missing], [0, 0]])[:, :length]
            x = self.combine(tf.concat([unfolded, x], -1))
        return self.run(x, None, training), []

    def read(self, encoded: Encoded) -> dict[str, Any]:
        """The representation with an empty position at its end: "source" [batch, source_length +
        1, hidden_size].
        """
        return {
            "source": tf.pad(tf.cast(encoded.states, self.compute_dtype), [[0, 0], [0, 1], [0, 0]])
        }

    def prepare(self) -> dict[str, Any]:
        """The weights for ``step``."""
        weights = {
            "blocks": [block.prepare() for block in self.blocks],
            "final_norm": self.final_norm.prepare(),
        }
        return weights if self.combine is None else {**weights, "combine": self.combine.prepare()}

    def start(self, memory: Memory, batch_size: Any, beam_size: int) -> list[Any]:
        """The inputs of each convolution before the first position: zeros."""
        return [
            block.convolution.start(batch_size, beam_size, self.hidden_size // 2)
            for block in self.blocks
        ]

    def step(
        self, x: Any, index: Any, weights: dict[str, Any], memory: Memory, state: list[Any]
    ) -> tuple[Any, list[Any]]:
        """One new position; arguments and result are those of ``interfaces.DecoderPart.step``."""
        if self.combine is not None:
            source = memory["source"]
            here = source[:, tf.minimum(index, tf.shape(source)[1] - 1)][:, None]
            x = affine(tf.concat([tf.broadcast_to(here, tf.shape(x)), x], -1), weights["combine"])
        new = []
        layers = zip(self.blocks, weights["blocks"], state, strict=True)
        for block, block_weights, earlier in layers:
            x, earlier = block.step(x, block_weights, earlier)
            new.append(earlier)
        return self.final_norm.step(x, weights["final_norm"]), new
