"""ConvS2S' encoder and decoder of gated convolutions (arXiv 1705.03122).

Embedded symbols w plus learned embeddings p of their positions, e = w + p, pass num_layers blocks
(``gated_block.py``); those of the decoder attend over the encoder's states. Left out of the paper:
weight normalization, and maps between different widths of embeddings and states.
"""

from typing import Any, ClassVar

import keras
import tensorflow as tf

from ut_tf.layers.composite import build_parts, keep_parts, kept_parts
from ut_tf.layers.dropout import Dropout
from ut_tf.layers.embedding import Scale
from ut_tf.layers.single_head_attention import padding_scores
from ut_tf.models.convolutional.gated_block import GatedBlock
from ut_tf.models.convolutional.learned_positions import LearnedPositions
from ut_tf.models.interfaces import Encoded, Memory


def divided_gradient(x: Any, count: int) -> Any:
    """The identity x, whose gradient is divided by `count`."""
    return x / count + tf.stop_gradient(x - x / count)


class GatedStack(keras.layers.Layer):  # type: ignore[misc]
    """The positions and blocks of an encoder or a decoder.

    Args:
      hidden_size: width of the states.
      num_layers: number of blocks.
      with_memory: whether the blocks attend over an encoder's states.
      kernel_size: positions that a convolution sees.
      num_positions, scale, stddev: as of ``LearnedPositions``.
      dropout: rate on each block's input.
      kernel_init: as of ``Linear``, of the queries.
    """

    causal: ClassVar[bool]
    """Whether positions see only earlier ones."""

    def __init__(
        self,
        hidden_size: int,
        num_layers: int,
        with_memory: bool = False,
        kernel_size: int = 3,
        num_positions: int = 512,
        scale: Scale = "sqrt",
        stddev: float | None = None,
        dropout: float = 0.0,
        kernel_init: str = "glorot",
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        policy = self.dtype_policy.name
        self.positions = LearnedPositions(
            hidden_size, num_positions, scale, stddev, name="positions", dtype=policy
        )
        blocks = [
            GatedBlock(
                hidden_size,
                kernel_size,
                self.causal,
                with_memory,
                dropout,
                kernel_init,
                name=f"block_{number}",
                dtype=policy,
            )
            for number in range(num_layers)
        ]
        keep_parts(self, "block", blocks)

    def build(self, shape: Any, *_: Any) -> None:
        build_parts([self.positions, *self.blocks], shape)
        self.built = True

    @property
    def blocks(self) -> list[GatedBlock]:
        """The blocks, the first one first."""
        return kept_parts(self, "block", self.num_layers)


@keras.saving.register_keras_serializable("ut_tf")
class GatedEncoder(GatedStack):
    """ConvS2S's encoder.

    Args:
      as of ``GatedStack``, without memory.

    Call arguments:
      inputs: [batch, length, hidden_size].
      padding_mask: float32 [batch, length], 0 on padding.
      training: whether to drop.

    Returns:
      Encoded, with the embedded inputs and their positions as extra.
    """

    causal: ClassVar[bool] = False

    def call(self, inputs: Any, padding_mask: Any, training: bool = False) -> Encoded:
        x = embedded = self.positions(inputs)
        for block in self.blocks:
            x, _ = block(x, padding_mask=padding_mask, training=training)
        return Encoded(x, padding_mask, extra=embedded)


@keras.saving.register_keras_serializable("ut_tf")
class GatedDecoder(GatedStack):
    """ConvS2S's decoder.

    A block's queries follow from its y and its embedded symbol g: scores are (W y + b + g) · √½ ·
    z of the encoder's last states z, and the values are z + e. The context is multiplied by √m, m
    the number of input symbols, as a mean over m has less variance. The gradient of z is divided by
    num_layers, the number of attentions. Large embeddings make sharp scores from the start: the
    paper's have the standard deviation 0.1 (scale="none", stddev=0.1).

    A decoder that takes one position at a time keeps the last kernel_size - 1 inputs of each
    convolution.

    Args:
      dropout: rate on each block's input and on the decoder's output.
      others: as of ``GatedStack``; without memory there is no attention.

    Call arguments:
      inputs: [batch, length, hidden_size].
      memory: from ``read``; empty without an encoder.
      training: whether to drop.

    Returns:
      (states [batch, length, hidden_size], attention: float32 [batch, length, memory_length] for
      each layer, or an empty list).
    """

    causal: ClassVar[bool] = True

    def __init__(self, dropout: float = 0.0, **kwargs: Any) -> None:
        super().__init__(dropout=dropout, **kwargs)
        self.dropout = Dropout(dropout, name="dropout", dtype=self.dtype_policy.name)

    def call(self, inputs: Any, memory: Memory, training: bool = False) -> tuple[Any, list[Any]]:
        x = embedded = self.positions(inputs)
        attention = []
        for block in self.blocks:
            x, weights = block(x, embedded=embedded, memory=memory, training=training)
            attention += [] if weights is None else [weights]
        return self.dropout(x, training=training), attention

    def read(self, encoded: Encoded) -> dict[str, Any]:
        """Keys z, values (z + e) √m, and the bias that hides padding."""
        keys = divided_gradient(encoded.states, self.num_layers)
        count = tf.cast(tf.sqrt(tf.maximum(tf.reduce_sum(encoded.mask, 1), 1.0)), keys.dtype)
        return {
            "keys": keys,
            "values": (keys + encoded.extra) * count[:, None, None],
            "bias": padding_scores(encoded.mask),
        }

    def prepare(self) -> dict[str, Any]:
        """The weights for ``step``."""
        return {
            "positions": self.positions.prepare(),
            "blocks": [block.prepare() for block in self.blocks],
        }

    def start(self, memory: Memory, batch_size: Any, beam_size: int) -> list[Any]:
        """The inputs of each convolution before the first position: zeros."""
        return [
            block.convolution.start(batch_size, beam_size, self.hidden_size)
            for block in self.blocks
        ]

    def step(
        self, x: Any, index: Any, weights: dict[str, Any], memory: Memory, state: list[Any]
    ) -> tuple[Any, list[Any]]:
        """One new position; arguments and result are those of ``interfaces.DecoderPart.step``."""
        x = embedded = self.positions.step(x, index, weights["positions"])
        new = []
        layers = zip(self.blocks, weights["blocks"], state, strict=True)
        for block, block_weights, earlier in layers:
            x, earlier = block.step(x, embedded, block_weights, memory, earlier)
            new.append(earlier)
        return x, new
