"""A stack of layers with weights of their own: the Transformer's encoder or decoder, from the same
blocks as the recurrence.

How it is used::

    stack = LayerStack(NetworkConfig(num_layers=6))
    states, details = stack(inputs, symbol_mask=mask, positions=positions,
        context=BlockContext(bias=padding_bias(mask)))

Positions are added once, to the embedded inputs (arXiv 1706.03762, section 3.5).
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ut_tf.config.network import NetworkConfig
from ut_tf.layers.block import Block, BlockContext, PositionContext
from ut_tf.layers.block_sequence import each_block, project_memories, step_blocks
from ut_tf.layers.cache import CachePosition
from ut_tf.layers.coordinates import positioned
from ut_tf.layers.details import Observer, RecurrenceDetails, StepView
from ut_tf.layers.normalization import LayerNorm


@keras.saving.register_keras_serializable("ut_tf")
class LayerStack(keras.layers.Layer):  # type: ignore[misc]
    """A Transformer's encoder or decoder without its embedder and head.

    Args:
      network: NetworkConfig; num_layers blocks are stacked.
      causal: whether positions see only earlier ones (the context' bias must say so too).
      with_memory: whether the blocks attend over an encoder's states.
      with_final_norm: whether, pre-norm, one more norm ends the stack.

    Call arguments:
      inputs: [batch, length, hidden_size], embedded.
      symbol_mask: float32 [batch, length], 0 on padding.
      positions: float32 [batch or 1, length], from 1; with position="learned" their embeddings
        [batch or 1, length, hidden_size].
      context: BlockContext of the blocks; memory_keys and memory_values hold one entry per
        layer (``project_memory``).
      steps: None; the depth of a stack is fixed.
      training: whether to drop.
      return_attention: whether the details hold the attention weights of every layer.
      observer: called with a StepView after every layer; its step is the layer's number.

    Returns:
      (states [batch, length, hidden_size] in the compute dtype, RecurrenceDetails whose steps are
      layers).
    """

    def __init__(
        self,
        network: NetworkConfig,
        causal: bool = False,
        with_memory: bool = False,
        with_final_norm: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.network = network
        self.causal = causal
        self.with_memory = with_memory
        self.with_final_norm = with_final_norm
        policy = self.dtype_policy
        # Attributes of their own: TensorFlow's checkpoints find those.
        for number in range(network.num_layers):
            setattr(
                self,
                f"block_{number}",
                Block(network, causal, with_memory, name=f"block_{number}", dtype=policy),
            )
        normed = with_final_norm and network.norm == "pre"
        self.final_norm = (
            LayerNorm(network.norm_epsilon, name="final_norm", dtype=policy) if normed else None
        )

    @property
    def blocks(self) -> list[Block]:
        """The layers, the first one first."""
        return [getattr(self, f"block_{number}") for number in range(self.network.num_layers)]

    def build(self, input_shape: Any) -> None:
        parts: list[Any] = [*self.blocks, self.final_norm]
        for part in parts:
            if part is not None and not part.built:
                part.build(input_shape)

    def call(
        self,
        inputs: Any,
        symbol_mask: Any,
        positions: Any,
        context: BlockContext,
        steps: Any = None,
        training: bool = False,
        return_attention: bool = False,
        observer: Observer | None = None,
    ) -> tuple[Any, RecurrenceDetails]:
        del steps
        state = positioned(self.network, inputs, positions, self.compute_dtype)
        records: list[tuple[Any, Any]] = []
        for number, (output, own, memory) in enumerate(
            each_block(self.blocks, state, context, training)
        ):
            state = output
            records.append((own, memory))
            if observer is not None:
                observer(StepView(tf.constant(number), state, None, None, own, memory))
        mask = tf.cast(symbol_mask, tf.float32)
        parts = list(zip(*records, strict=True))[: 1 + self.with_memory] if return_attention else []
        attention = [tf.stack(part) for part in parts]
        details = RecurrenceDetails(
            float(len(records)) * mask, tf.zeros_like(mask), mask, None, *attention
        )
        return self._finish(state), details

    def project_memory(self, states: Any, rotation: Any = None) -> tuple[Any, Any]:
        """Returns keys and values of an encoder's states [batch, memory_length, hidden_size], each
        one entry per layer.
        """
        return project_memories(self.blocks, states, rotation)

    def prepare(self) -> dict[str, Any]:
        """Returns the weights for ``step``, read, joined and cast once for all positions."""
        weights: dict[str, Any] = {"blocks": [block.prepare() for block in self.blocks]}
        return (
            weights
            if self.final_norm is None
            else {**weights, "final_norm": self.final_norm.prepare()}
        )

    @property
    def cache_count(self) -> int:
        """How many caches ``step`` takes."""
        return self.network.num_layers

    def empty_caches(self, batch_size: Any, capacity: Any, beam_size: int) -> list[dict[str, Any]]:
        """Returns the caches of ``step`` before the first position: one per layer."""
        return [block.empty_cache(batch_size, capacity, beam_size) for block in self.blocks]

    def step(
        self,
        inputs: Any,
        weights: dict[str, Any],
        caches: list[dict[str, Any]],
        cache_position: CachePosition,
        positions: Any,
        context: PositionContext,
    ) -> tuple[Any, list[dict[str, Any]]]:
        """Computes one new position of each hypothesis, given the caches of the earlier ones:
        incremental decoding.

        Args:
          inputs: [batch * beam_size, hidden_size], embedded.
          weights: from ``prepare``.
          caches: one per layer, from ``empty_caches`` or an earlier call.
          cache_position: of the new position.
          positions: float32 [batch * beam_size or 1], its coordinate, or its learned embedding.
          context: of the new position; keys and values of its memory hold one entry per layer.

        Returns:
          (state [batch * beam_size, hidden_size], the new caches).
        """
        state = positioned(self.network, inputs, positions, self.compute_dtype)
        biases = [
            block.cache_bias(cache_position, own)
            for block, own in zip(self.blocks, weights["blocks"], strict=True)
        ]
        state, new_caches = step_blocks(
            self.blocks, state, weights["blocks"], caches, cache_position, biases, context
        )
        return (
            state if self.final_norm is None else self.final_norm.step(state, weights["final_norm"])
        ), new_caches

    def _finish(self, states: Any) -> Any:
        states = tf.cast(states, self.compute_dtype)
        return states if self.final_norm is None else self.final_norm(states)

    def get_config(self) -> dict[str, Any]:
        own = {
            "causal": self.causal,
            "with_memory": self.with_memory,
            "with_final_norm": self.with_final_norm,
        }
        return {**super().get_config(), "network": self.network.to_dict(), **own}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> LayerStack:
        return cls(**{**config, "network": NetworkConfig.from_dict(config["network"])})
