"""Positions of inputs and targets in an attention model: the embedded signal, the rotation of
queries and keys, and the scale of logits.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf

from ut_tf.layers.attention_weights import causal_bias, length_scale, padding_bias
from ut_tf.layers.block import BlockContext, Rotation
from ut_tf.layers.block_cached import PositionContext
from ut_tf.layers.position_encodings import PositionEncoding
from ut_tf.layers.positions import Positions


class InputPositions(NamedTuple):
    """The inputs' positions, as far as a decoder needs them.

    Fields:
      lengths: float32 [batch], symbols of the inputs without the start symbol.
      assigned: from ``Positions``, for inputs and targets alike.
      rotation: of the inputs' positions, or None.
      steps: int32 [batch], depth where it follows from the length, or None.
    """

    lengths: Any
    assigned: Any
    rotation: Rotation | None
    steps: Any


@dataclass(frozen=True, eq=False)
class AttentionPositions:
    """Positions on both sides of an attention model.

    Args:
      network: the model's configuration.
      positions: the model's layer that assigns positions.
      encoding: what is done with them.
    """

    network: Any
    positions: Positions
    encoding: PositionEncoding

    def encoder_context(
        self, assigned: Any, mask: Any, lengths: Any, ids: Any
    ) -> tuple[Any, BlockContext]:
        """The inputs' positions and the context of the encoder's blocks.

        Args:
          assigned: from ``Positions``.
          mask: float32 [batch, length], the start symbol's position included.
          lengths: float32 [batch], symbols without the start symbol.
          ids: int32 [batch, length], or None where inputs are no tokens.

        Returns:
          (the encoder's position signal, BlockContext).
        """
        length = tf.shape(mask)[1]
        positions = self.positions.inputs(assigned, length, lengths, ids=ids)
        backward = self.positions.inputs(assigned, length, lengths, backward=True)
        context = BlockContext(
            bias=padding_bias(mask),
            keep=mask,
            rotation=self.encoding.rotation(positions, backward),
            logit_scale=self.memory_scale(mask),
        )
        return self.encoding.signal(positions, mask), context

    def decoder_context(self, assigned: Any, mask: Any, lengths: Any) -> tuple[Any, BlockContext]:
        """The targets' positions and the context of the decoder's blocks, without a memory.

        Args:
          assigned: from ``Positions``.
          mask: float32 [batch, target_length].
          lengths: float32 [batch], symbols of the inputs; None: there are none.

        Returns:
          (the decoder's position signal, BlockContext).
        """
        order = tf.range(tf.shape(mask)[1], dtype=tf.float32)
        positions = self.positions.targets(assigned, order[None], lengths)
        context = BlockContext(
            bias=causal_bias(tf.shape(mask)[1]),
            rotation=self.encoding.rotation(positions, positions),
            logit_scale=self.logit_scale((order + 1.0)[None, None, :, None]),
        )
        return self.encoding.signal(positions, mask), context

    def step_context(
        self, step: Any, beam_size: int, examples: dict[str, Any], table: Any
    ) -> tuple[Any, PositionContext]:
        """The position of one decoded symbol and its context.

        Args:
          step: int32 [], its order, from 0.
          beam_size: hypotheses for each example.
          examples: "lengths" float32 [batch] and "memory", both absent without an encoder.
          table: from ``prepare_table``.

        Returns:
          (the decoder's position signal of one step, PositionContext).
        """
        order = tf.cast(step, tf.float32)
        assigned = self.positions(batch_size=1, size=1)
        positions = self.positions.targets(assigned, order[None, None], examples.get("lengths"))
        context = PositionContext(
            self.encoding.rotation(positions, positions),
            self.logit_scale((order + 1.0)[None, None, None, None]),
            examples.get("memory"),
        )
        positions = positions[:, 0]
        # Positions that follow from the inputs differ between examples, not between an example's
        # hypotheses.
        if beam_size > 1 and positions.shape[0] != 1:
            positions = tf.repeat(positions, beam_size, 0)
        return self.encoding.step(positions, table), context

    def span_context(
        self, order: Any, examples: dict[str, Any], table: Any
    ) -> tuple[Any, PositionContext]:
        """The positions of several decoded symbols of each example and their context.

        Args:
          order: int32 [batch, count], from 0.
          examples, table: as of ``step_context``.

        Returns:
          (the decoder's position signal of one step, [batch * count, hidden_size] or None,
          PositionContext).
        """
        order = tf.cast(order, tf.float32)
        assigned = self.positions(batch_size=1, size=1)
        positions = self.positions.targets(assigned, order, examples.get("lengths"))
        context = PositionContext(
            self.encoding.rotation(positions, positions),
            self.logit_scale((order + 1.0)[:, None, :, None]),
            examples.get("memory"),
        )
        return self.encoding.step(tf.reshape(positions, [-1]), table), context

    def prepare_table(self) -> dict[str, Any]:
        """The weights "positions" of ``step_context``; empty where no position is learned."""
        table = self.encoding.prepare()
        return {} if table is None else {"positions": table}

    def memory_scale(self, mask: Any) -> Any | None:
        """The factor of logits that look at all positions of `mask`; None: there is none."""
        return self.logit_scale(tf.reduce_sum(mask, 1)[:, None, None, None])

    def logit_scale(self, visible: Any) -> Any | None:
        """The factor of logits that look at so many positions; None: there is none."""
        if self.network.attention_scale != "log_length":
            return None
        return length_scale(visible, self.network.attention_scale_length)
