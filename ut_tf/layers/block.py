"""The block: what a recurrent step repeats. Self-attention, attention over the encoder (in a decoder), transition.

Post-norm (the paper's equations 4 and 5): A = LayerNorm(x + Attention(x)); H = LayerNorm(A + Transition(A)).
Pre-norm (tensor2tensor): A = x + Attention(LayerNorm(x)); H = A + Transition(LayerNorm(A)); one more norm follows the recurrence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import keras

from ut_tf.config import NetworkConfig
from ut_tf.layers.attention import MultiHeadAttention
from ut_tf.layers.dropout import Dropout
from ut_tf.layers.normalization import LayerNorm
from ut_tf.layers.transition import TRANSITIONS

Rotation = tuple[Any, Any]


class Surroundings(NamedTuple):
    """What a block sees besides its states; the same at every recurrent step, so computed once.

    Fields:
      bias: of the self-attention's logits, float32, broadcast to [batch, num_heads, length, length], or None.
      keep: float32 [batch, length], 0 on padding, for convolutions; or None.
      rotation: of the positions, for rotary self-attention, or None.
      logit_scale: of the self-attention, or None.
      memory_keys, memory_values: [batch, num_heads, memory_length, head_size] of the encoder's states, or None.
      memory_bias: float32 [batch, 1, 1, memory_length], or None.
      memory_rotation: of the queries of the attention over the memory, or None.
      memory_scale: logit scale of the attention over the memory, or None.
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


@keras.saving.register_keras_serializable("ut_tf")
class Block(keras.layers.Layer):  # type: ignore[misc]
    """Attention and transition with residuals, dropout and layer norms.

    Args:
      network: its sizes, norm, transition and dropouts are used.
      causal: whether convolutions see only earlier positions (attention is hidden by the surroundings' bias).
      with_memory: whether there is attention over an encoder's states.
      with_transition: whether the transition follows (the gru and lstm recurrences go without).

    Call arguments:
      x: [batch, length, hidden_size].
      surroundings: Surroundings.
      training: whether to drop.

    Returns:
      (output [batch, length, hidden_size], self-attention weights float32 [batch, num_heads, length, length],
      weights over the memory float32 [batch, num_heads, length, memory_length] or None).
    """

    def __init__(
        self, network: NetworkConfig, causal: bool = False, with_memory: bool = False, with_transition: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.network = network
        self.causal = causal
        self.with_memory = with_memory
        self.with_transition = with_transition
        policy = self.dtype_policy
        self.self_attention = MultiHeadAttention(network, relative=True, name="self_attention", dtype=policy)
        self.memory_attention: Any = MultiHeadAttention(network, name="memory_attention", dtype=policy) if with_memory else None
        make_transition = TRANSITIONS[network.transition]
        self.transition: Any = make_transition(network, causal=causal, name="transition", dtype=policy) if with_transition else None
        for name in self._sublayers():
            setattr(self, f"{name}_norm", LayerNorm(network.norm_epsilon, name=f"{name}_norm", dtype=policy))
            setattr(self, f"{name}_dropout", Dropout(network.dropout, name=f"{name}_dropout", dtype=policy))

    def build(self, input_shape: Any) -> None:
        for name in self._sublayers():
            getattr(self, name).build(input_shape)
            getattr(self, f"{name}_norm").build(input_shape)

    def call(self, x: Any, surroundings: Surroundings, training: bool = False) -> tuple[Any, Any, Any]:
        weights: list[Any] = [None, None]

        def attend(y: Any) -> Any:
            s = surroundings
            options = {"training": training, "output_scale": self.self_attention_dropout.scale(training)}
            output, weights[0] = self.self_attention(y, bias=s.bias, rotation=s.rotation, logit_scale=s.logit_scale, **options)
            return output

        def remember(y: Any) -> Any:
            output, weights[1] = self._attend_memory(y, surroundings, training)
            return output

        def transform(y: Any) -> Any:
            scale = self.transition_dropout.scale(training)
            return self.transition(y, keep=surroundings.keep, training=training, output_scale=scale)

        x = self._sublayer("self_attention", attend, x, training)
        if self.with_memory:
            x = self._sublayer("memory_attention", remember, x, training)
        if self.transition is not None:
            x = self._sublayer("transition", transform, x, training)
        return x, weights[0], weights[1]

    def step(self, x: Any, surroundings: Surroundings, cache: dict[str, Any], index: Any) -> tuple[Any, dict[str, Any]]:
        """Computes the block for one new position, given what it remembers of the earlier ones.

        Args:
          x: [batch, 1, hidden_size].
          surroundings: of the new position; its bias is not used (all earlier positions are seen).
          cache: from ``empty_cache`` or an earlier step.
          index: int32 [], the new position, from 0.

        Returns:
          (output [batch, 1, hidden_size], the new cache).
        """
        new_cache: dict[str, Any] = {}

        def attend(y: Any) -> Any:
            s = surroundings
            output, new_cache["attention"] = self.self_attention.step(y, cache["attention"], index, s.rotation, s.logit_scale)
            return output

        def transition(y: Any) -> Any:
            output, new_cache["transition"] = self.transition.step(y, cache["transition"])
            return output

        x = self._sublayer("self_attention", attend, x, False)
        if self.with_memory:
            x = self._sublayer("memory_attention", lambda y: self._attend_memory(y, surroundings, False)[0], x, False)
        if self.transition is not None:
            x = self._sublayer("transition", transition, x, False)
        return x, new_cache

    def empty_cache(self, batch_size: Any, max_length: Any) -> dict[str, Any]:
        """Returns the cache of ``step`` before the first position."""
        cache = {"attention": self.self_attention.empty_cache(batch_size, max_length)}
        if self.transition is not None:
            cache["transition"] = self.transition.empty_cache(batch_size)
        return cache

    def _sublayers(self) -> list[str]:
        return ["self_attention", *["memory_attention"] * self.with_memory, *["transition"] * self.with_transition]

    def _attend_memory(self, y: Any, s: Surroundings, training: bool) -> tuple[Any, Any]:
        output: tuple[Any, Any] = self.memory_attention(
            y,
            keys=s.memory_keys,
            values=s.memory_values,
            bias=s.memory_bias,
            rotation=s.memory_rotation,
            logit_scale=s.memory_scale,
            training=training,
            output_scale=self.memory_attention_dropout.scale(training),
        )
        return output

    def _sublayer(self, name: str, function: Callable[[Any], Any], x: Any, training: bool) -> Any:
        """Returns a sublayer with residual, dropout and norm; `function` has scaled its output for the dropout already."""
        norm, dropout = getattr(self, f"{name}_norm"), getattr(self, f"{name}_dropout")
        if self.network.norm == "pre":
            return x + dropout.drop(function(norm(x)), training)
        return norm(x + dropout.drop(function(x), training))

    def get_config(self) -> dict[str, Any]:
        own = {"causal": self.causal, "with_memory": self.with_memory, "with_transition": self.with_transition}
        return {**super().get_config(), "network": self.network.to_dict(), **own}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Block:
        return cls(**{**config, "network": NetworkConfig.from_dict(config["network"])})
