"""The block: what a recurrent step repeats. Self-attention, attention over the encoder (in a
decoder), transition.

Post-norm (the paper's equations 4 and 5): A = LayerNorm(x + Attention(x)); H = LayerNorm(A +
Transition(A)). Pre-norm (tensor2tensor): A = x + Attention(LayerNorm(x)); H = A +
Transition(LayerNorm(A)); one more norm follows the recurrence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import keras

from ut_tf.layers.active_positions import ActivePositions
from ut_tf.layers.composite import Composite
from ut_tf.layers.dropout import Dropout
from ut_tf.layers.key_value_cache import CachePosition
from ut_tf.layers.normalization import LayerNorm
from ut_tf.layers.optional_outputs import OptionalOutputs
from ut_tf.layers.transition import StepTransitions

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

    def of_part(self, number: int) -> BlockContext:
        """The context of one of several parts, where keys and values of the memory are lists of one
        entry per part.
        """
        if self.memory_keys is None:
            return self
        return self._replace(
            memory_keys=self.memory_keys[number], memory_values=self.memory_values[number]
        )


class PositionContext(NamedTuple):
    """The same for one new position in incremental decoding.

    Fields:
      rotation: of the position, for rotary attention, or None.
      logit_scale: of the self-attention, or None.
      memory: what ``MultiHeadAttention.attend_memory_cached`` reads, or None.
    """

    rotation: Rotation | None = None
    logit_scale: Any = None
    memory: dict[str, Any] | None = None

    def of_part(self, number: int) -> PositionContext:
        """The context of one of several parts, where keys and values of the memory are lists of one
        entry per part.
        """
        if self.memory is None:
            return self
        own = {name: self.memory[name][number] for name in ("keys", "values")}
        return self._replace(memory={**self.memory, **own})


@keras.saving.register_keras_serializable("ut_tf")
class Block(OptionalOutputs, Composite):
    """Attention and transition with residuals, dropout and layer norms.

    Args:
      self_attention: ``MultiHeadAttention``; None: positions attend over the memory alone (and are
        not decoded).
      memory_attention: ``MultiHeadAttention`` over an encoder's states, or None.
      transition: a ``TransitionFunction``, ``StepTransitions``, or None (the gru and lstm
        recurrences go without).
      norm: "post" or "pre".
      norm_epsilon: of the layer norms.
      dropout: rate, on the output of each part.

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
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.self_attention = self_attention
        self.memory_attention = memory_attention
        self.transition = transition
        self.norm = norm
        self.norm_epsilon = norm_epsilon
        self.dropout = dropout
        self.with_memory = memory_attention is not None
        policy = self.dtype_policy
        for name in self._sublayers():
            setattr(
                self, f"{name}_norm", LayerNorm(norm_epsilon, name=f"{name}_norm", dtype=policy)
            )
            setattr(self, f"{name}_dropout", Dropout(dropout, name=f"{name}_dropout", dtype=policy))

    @property
    def num_heads(self) -> int:
        """Heads of the self-attention."""
        heads: int = self.self_attention.num_heads
        return heads

    @property
    def layers_per_step(self) -> int | None:
        """None: one layer, without an axis of its own."""
        return None

    @property
    def remembers_only_keys(self) -> bool:
        """Whether later positions read of a position nothing but what ``append`` computes."""
        return self.transition is None or not self.transition.sees_neighbours

    def build(self, input_shape: Any) -> None:
        for name in self._sublayers():
            getattr(self, name).build(input_shape)
            getattr(self, f"{name}_norm").build(input_shape)

    def call(
        self,
        x: Any,
        context: BlockContext | None = None,
        training: bool = False,
        step: Any = 0,
    ) -> tuple[Any, Any, Any]:
        weights: list[Any] = [None, None]
        context = BlockContext() if context is None else BlockContext(*context)

        def attend(y: Any) -> Any:
            s = context
            options = {
                "training": training,
                "output_scale": self.self_attention_dropout.scale(training),
            }
            output, weights[0] = self.self_attention(
                y,
                keys=s.keys,
                values=s.values,
                value_shift=s.value_shift,
                bias=s.bias,
                rotation=s.rotation,
                logit_scale=s.logit_scale,
                active=s.active,
                **options,
            )
            return output

        def attend_memory(y: Any) -> Any:
            output, weights[1] = self._attend_memory(y, context, training)
            return output

        def transform(y: Any) -> Any:
            scale = self.transition_dropout.scale(training)
            options = {
                "keep": None if context.active is not None else context.keep,
                "training": training,
                "output_scale": scale,
                **self._of_step(step),
            }
            return self.transition(y, **options)

        if self.self_attention is not None:
            x = self._sublayer("self_attention", attend, x, training)
        if self.with_memory:
            x = self._sublayer("memory_attention", attend_memory, x, training)
        if self.transition is not None:
            x = self._sublayer("transition", transform, x, training)
        return x, weights[0], weights[1]

    def project_memory(self, states: Any, rotation: Any = None) -> tuple[Any, Any]:
        """Returns keys and values of an encoder's states [batch, memory_length, hidden_size], for
        the context.
        """
        keys_values: tuple[Any, Any] = self.memory_attention.keys_values(states, rotation)
        return keys_values

    def prepare(self) -> dict[str, Any]:
        """The weights for ``append`` and ``finish``, read, joined and cast once for all
        positions.
        """
        weights = {
            f"{name}_norm": getattr(self, f"{name}_norm").prepare() for name in self._sublayers()
        }
        weights["self_attention"] = self.self_attention.prepare()
        if self.with_memory:
            weights["memory_attention"] = self.memory_attention.prepare(("query",))
        if self.transition is not None:
            weights["transition"] = self.transition.prepare()
        return weights

    def empty_cache(self, batch_size: Any, capacity: Any, beam_size: int) -> dict[str, Any]:
        """The cache of ``step`` before the first position: the histories of "attention" and
        "transition" of each hypothesis.
        """
        transition = (
            {} if self.transition is None else self.transition.empty_cache(batch_size, beam_size)
        )
        return {
            "attention": self.self_attention.empty_cache(batch_size, capacity, beam_size),
            "transition": transition,
        }

    def cache_bias(self, cache_position: CachePosition, weights: dict[str, Any]) -> Any:
        """The self-attention's ``cache_bias`` for the new position; the same at every recurrent
        step.
        """
        return self.self_attention.cache_bias(cache_position, weights["self_attention"])

    def step(
        self,
        x: Any,
        weights: dict[str, Any],
        cache: dict[str, Any],
        cache_position: CachePosition,
        bias: Any,
        context: PositionContext,
        step: int = 0,
    ) -> tuple[Any, dict[str, Any]]:
        """Computes the block for one new position of each hypothesis, given what it remembers of
        the earlier ones.

        Args:
          x: [batch * beam_size, hidden_size].
          weights: from ``prepare``.
          cache: from ``empty_cache`` or an earlier position.
          cache_position: of the new position.
          bias: from ``cache_bias``.
          context: of the new position.
          step: as in the call.

        Returns:
          (output [batch * beam_size, hidden_size], the new cache).
        """
        queries, cache = self.append(x, weights, cache, cache_position, context)
        return self.finish(x, queries, weights, cache, cache_position, bias, context, step)

    def append(
        self,
        x: Any,
        weights: dict[str, Any],
        cache: dict[str, Any],
        cache_position: CachePosition,
        context: PositionContext,
    ) -> tuple[Any, dict[str, Any]]:
        """Does the part of ``step`` that later positions read: (queries, the cache with keys and
        values of the new position).
        """
        y = (
            self.self_attention_norm.step(x, weights["self_attention_norm"])
            if self.norm == "pre"
            else x
        )
        queries, attention = self.self_attention.append(
            y, weights["self_attention"], cache["attention"], cache_position, context.rotation
        )
        return queries, {**cache, "attention": attention}

    def finish(
        self,
        x: Any,
        queries: Any,
        weights: dict[str, Any],
        cache: dict[str, Any],
        cache_position: CachePosition,
        bias: Any,
        context: PositionContext,
        step: int = 0,
        active: ActivePositions | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Does the rest of ``step``, from the queries of all hypotheses on; where `active` is
        given x and the output are those of the active hypotheses, [rows, hidden_size].
        """
        s = context
        new_cache = dict(cache)

        def attend_memory(y: Any) -> Any:
            return self.memory_attention.attend_memory_cached(
                y,
                weights["memory_attention"],
                s.memory,
                cache_position.beam_size,
                s.rotation,
                active,
            )

        def transform(y: Any) -> Any:
            output, new_cache["transition"] = self.transition.step(
                y, weights["transition"], cache["transition"], **self._of_step(step)
            )
            return output

        attended = self.self_attention.attend_cached(
            queries,
            weights["self_attention"],
            cache["attention"],
            cache_position,
            bias,
            s.logit_scale,
            active,
        )
        x = self._sublayer_step("self_attention", lambda _: attended, x, weights)
        if self.with_memory:
            x = self._sublayer_step("memory_attention", attend_memory, x, weights)
        if self.transition is not None:
            x = self._sublayer_step("transition", transform, x, weights)
        return x, new_cache

    def _sublayers(self) -> list[str]:
        names = ("self_attention", "memory_attention", "transition")
        return [name for name in names if getattr(self, name) is not None]

    def _of_step(self, step: Any) -> dict[str, Any]:
        return {"step": step} if isinstance(self.transition, StepTransitions) else {}

    def _attend_memory(self, y: Any, s: BlockContext, training: bool) -> tuple[Any, Any]:
        output: tuple[Any, Any] = self.memory_attention(
            y,
            keys=s.memory_keys,
            values=s.memory_values,
            bias=s.memory_bias,
            rotation=s.memory_rotation,
            logit_scale=s.memory_scale,
            training=training,
            output_scale=self.memory_attention_dropout.scale(training),
            active=s.active,
        )
        return output

    def _sublayer(self, name: str, function: Callable[[Any], Any], x: Any, training: bool) -> Any:
        """A sublayer with residual, dropout and norm; `function` has scaled its output for the
        dropout already.
        """
        norm, dropout = getattr(self, f"{name}_norm"), getattr(self, f"{name}_dropout")
        if self.norm == "pre":
            return x + dropout.drop(function(norm(x)), training)
        return norm(x + dropout.drop(function(x), training))

    def _sublayer_step(
        self, name: str, function: Callable[[Any], Any], x: Any, weights: dict[str, Any]
    ) -> Any:
        norm, norm_weights = getattr(self, f"{name}_norm"), weights[f"{name}_norm"]
        if self.norm == "post":
            return norm.step(x + function(x), norm_weights)
        # The norm before self-attention is part of ``append``.
        return x + function(x if name == "self_attention" else norm.step(x, norm_weights))
