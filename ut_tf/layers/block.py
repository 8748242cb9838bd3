"""The block, which a recurrent step calls: self-attention, attention over the encoder (in a
decoder), transition.

With F the attention or the transition, s the residual scale and N, N' norms of their own::

    post      N(x + s F(x))          (the paper's equations 4 and 5)
    pre       x + s F(N(x))          (tensor2tensor)
    sandwich  N'(x + s F(N(x)))      (Huginn, arXiv 2502.05171)
    peri      x + s N'(F(N(x)))      (Peri-LN, arXiv 2502.02732; Ouro, arXiv 2510.25741)

Where sums leave the block as they are (pre, peri), one more norm follows the recurrence.
"""

from typing import Any, NamedTuple

import keras

from ut_tf.errors import UserError, did_you_mean
from ut_tf.layers.active_positions import ActivePositions
from ut_tf.layers.block_cached import NORMS_BEFORE, CachedBlock
from ut_tf.layers.composite import Composite
from ut_tf.layers.dropout import Dropout
from ut_tf.layers.normalization import make_norm
from ut_tf.layers.optional_outputs import OptionalOutputs
from ut_tf.layers.position_mixing import PositionMixing, PositionNorm

Rotation = tuple[Any, Any]


class BlockContext(NamedTuple):
    """The input of a block besides its states: the same at every recurrent step, so computed once.

    Fields:
      bias: of the self-attention's logits, float32, broadcast to [batch, num_heads, length,
        length], or None.
      keep: float32 [batch, length], 0 on padding, for convolutions; or None.
      rotation: of the positions, for rotary self-attention, or None.
      logit_scale: of the self-attention, or None.
      memory_keys, memory_values: [batch, num_heads, memory_length, head_size] of the encoder's
        states, or None.
      memory_bias: float32 [batch, 1, 1, memory_length], or None.
      memory_rotation: of the queries of the attention over the memory, or None.
      memory_scale: logit scale of the attention over the memory, or None.
      keys, values: [batch, num_heads, length, head_size] of the self-attention, where only active
        positions are computed, or None.
      value_shift: added to these values, or None; see ``MultiHeadAttention``.
      active: ActivePositions, where the states are their rows alone, [1, rows, hidden_size].
    """

    bias: Any = None
    keep: Any = None
    rotation: Rotation | None = None
    logit_scale: Any = None
    memory_keys: Any = None
    memory_values: Any = None
    memory_bias: Any = None
    memory_rotation: Rotation | None = None
    memory_scale: Any = None
    keys: Any = None
    values: Any = None
    value_shift: Any = None
    active: ActivePositions | None = None

    def of_part(self, number: int) -> "BlockContext":
        """The context of one of several parts, where keys and values of the memory are lists of one
        entry per part.
        """
        if self.memory_keys is None:
            return self
        return self._replace(
            memory_keys=self.memory_keys[number], memory_values=self.memory_values[number]
        )


@keras.saving.register_keras_serializable("ut_tf")
class Block(CachedBlock, OptionalOutputs, Composite):
    """Attention and transition with residuals, dropout and layer norms.

    Args:
      self_attention: ``MultiHeadAttention``, or ``PositionMixing``; None: positions do not see each
        other by it (and are not decoded).
      memory_attention: ``MultiHeadAttention`` over an encoder's states, or None.
      transition: a ``TransitionFunction``, ``StepTransitions``, or None (the gru and lstm
        recurrences go without).
      norm: "post", "pre", "sandwich" or "peri".
      norm_epsilon: of the norms.
      dropout: rate, on the output of each part.
      norm_type: "layer", "rms" or "rms_plain".
      residual_scale: factor on what each part adds.

    Call arguments:
      x: [batch, length, hidden_size].
      context: BlockContext; None: self-attention over all positions.
      training: whether to drop.
      step: int [], from 0, the recurrent step, where each has a transition of its own.

    Returns:
      (output [batch, length, hidden_size], self-attention weights float32 [batch, num_heads,
      length, length] or None, weights over the memory float32 [batch, num_heads, length,
      memory_length] or None).
    """

    def __init__(
        self,
        self_attention: Any,
        memory_attention: Any = None,
        transition: Any = None,
        norm: str = "post",
        norm_epsilon: float = 1e-6,
        dropout: float = 0.0,
        norm_type: str = "layer",
        residual_scale: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if norm not in (places := ("post", *NORMS_BEFORE)):
            hint = did_you_mean(str(norm), places)
            raise UserError(f"norm={norm!r}: expected one of {', '.join(places)}{hint or '.'}")
        self.self_attention = self_attention
        self.memory_attention = memory_attention
        self.transition = transition
        self.norm = norm
        self.norm_epsilon = norm_epsilon
        self.dropout = dropout
        self.norm_type = norm_type
        self.residual_scale = residual_scale
        self.with_memory = memory_attention is not None
        policy = self.dtype_policy
        for name in self._norms():
            layer: Any = make_norm(norm_type, norm_epsilon, name=name, dtype=policy)
            if name.startswith("self_") and isinstance(self_attention, PositionMixing):
                layer = PositionNorm(layer, self_attention.mix_positions, name=name, dtype=policy)
            setattr(self, name, layer)
        for name in self._sublayers():
            setattr(self, f"{name}_dropout", Dropout(dropout, name=f"{name}_dropout", dtype=policy))

    @property
    def num_heads(self) -> int:
        """Heads of the self-attention; 0: there is none, and there are no weights of it."""
        return 0 if self.self_attention is None else int(self.self_attention.num_heads)

    @property
    def layers_per_step(self) -> int | None:
        """None: one layer, without an axis of its own."""
        return None

    @property
    def remembers_only_keys(self) -> bool:
        """Whether later positions see a position only through the result of ``append``."""
        if isinstance(self.self_attention, PositionMixing):
            return False
        return self.transition is None or not self.transition.sees_neighbours

    def build(self, input_shape: Any) -> None:
        for name in (*self._sublayers(), *self._norms()):
            getattr(self, name).build(input_shape)

    def call(
        self, x: Any, context: BlockContext | None = None, training: bool = False, step: Any = 0
    ) -> tuple[Any, Any, Any]:
        context = BlockContext() if context is None else BlockContext(*context)
        own = of_memory = None
        if self.self_attention is not None:
            output, own = self.self_attention(
                self._before("self_attention", x),
                keys=context.keys,
                values=context.values,
                value_shift=context.value_shift,
                bias=context.bias,
                rotation=context.rotation,
                logit_scale=context.logit_scale,
                active=context.active,
                training=training,
                output_scale=self._output_scale("self_attention", training),
            )
            x = self._after("self_attention", x, output, training)
        if self.with_memory:
            output, of_memory = self.memory_attention(
                self._before("memory_attention", x),
                keys=context.memory_keys,
                values=context.memory_values,
                bias=context.memory_bias,
                rotation=context.memory_rotation,
                logit_scale=context.memory_scale,
                training=training,
                output_scale=self._output_scale("memory_attention", training),
                active=context.active,
            )
            x = self._after("memory_attention", x, output, training)
        if self.transition is not None:
            output = self.transition(
                self._before("transition", x),
                keep=None if context.active is not None else context.keep,
                training=training,
                output_scale=self._output_scale("transition", training),
                **self._of_step(step),
            )
            x = self._after("transition", x, output, training)
        return x, own, of_memory

    def project_memory(self, states: Any, rotation: Any = None) -> tuple[Any, Any]:
        """Returns keys and values of an encoder's states [batch, memory_length, hidden_size], for
        the context.
        """
        keys_values: tuple[Any, Any] = self.memory_attention.keys_values(states, rotation)
        return keys_values

    def _output_scale(self, name: str, training: bool) -> float:
        """Returns the factor on a sublayer's output, where no norm comes between the two."""
        if self.norm == "peri":
            return 1.0
        scale: float = getattr(self, f"{name}_dropout").scale(training)
        return self.residual_scale * scale

    def _before(self, name: str, x: Any) -> Any:
        """Returns a sublayer's input: x, through the norm if the norm comes first."""
        return getattr(self, f"{name}_norm")(x) if self.norm in NORMS_BEFORE else x

    def _after(self, name: str, x: Any, output: Any, training: bool) -> Any:
        """Returns x with the output of a sublayer, which has been scaled for its dropout."""
        dropout = getattr(self, f"{name}_dropout")
        if self.norm == "peri":
            output = getattr(self, f"{name}_norm_after")(output)
            return x + self.residual_scale * dropout(output, training=training)
        x = x + dropout.drop(output, training)
        if self.norm == "pre":
            return x
        return getattr(self, self._last_norm(name))(x)
