"""A stack of layers with weights of their own: the Transformer's encoder or decoder, from the same
blocks as the recurrence.

How it is used::

    stack = LayerStack([make_block(config) for _ in range(6)])
    given = StackInputs(mask, signal, BlockContext(bias=padding_bias(mask)))
    states, details = stack(inputs, given=given)

Positions are added once, to the embedded inputs (arXiv 1706.03762, section 3.5).
"""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from ut_tf.layers.block import Block
from ut_tf.layers.block_sequence import each_block, project_memories, step_blocks
from ut_tf.layers.composite import Composite, build_parts, keep_parts, kept_parts
from ut_tf.layers.contracts import PositionInputs, StackInputs
from ut_tf.layers.coordinates import add_signal
from ut_tf.layers.recurrence_details import RecurrenceDetails, StepView, details_of_layers


@keras.saving.register_keras_serializable("ut_tf")
class LayerStack(Composite):
    """A Transformer's encoder or decoder without its embedder and head.

    Args:
      blocks: ``Block`` layers, the first one first.
      final_norm: ``LayerNorm`` that ends the stack, or None.

    Call arguments:
      inputs: [batch, length, hidden_size], embedded.
      given: StackInputs with symbol_mask and context, whose memory_keys and memory_values hold one
        entry per layer (``project_memory``); depth is fixed, whatever its steps. The step of a
        StepView is the layer's number.
      training: whether to drop.

    Returns:
      (states [batch, length, hidden_size] in the compute dtype, RecurrenceDetails whose steps are
      layers).
    """

    def __init__(self, blocks: Sequence[Block], final_norm: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cache_count = len(blocks)
        self.with_memory = blocks[0].with_memory
        keep_parts(self, "block", blocks)
        self.final_norm = final_norm

    @property
    def blocks(self) -> list[Block]:
        """The layers, the first one first."""
        return kept_parts(self, "block", self.cache_count)

    def build(self, input_shape: Any) -> None:
        build_parts([*self.blocks, self.final_norm], input_shape)

    def call(
        self, inputs: Any, given: StackInputs, training: bool = False
    ) -> tuple[Any, RecurrenceDetails]:
        context = given.block_context()
        state = add_signal(inputs, given.position_signal, self.compute_dtype)
        records: list[tuple[Any, Any]] = []
        layers = each_block(self.blocks, state, context, training)
        for number, (output, own, memory) in enumerate(layers):
            previous, state = state, output
            records.append((own, memory))
            if given.observer is not None:
                view = StepView(tf.constant(number), state, None, None, own, memory, previous)
                given.observer(view._replace(output=self._finish(state)))
        kept = [weights[: 1 + self.with_memory] for weights in records]
        kept = kept if given.return_attention else []
        return self._finish(state), details_of_layers(len(records), given.symbol_mask, kept)

    def project_memory(self, states: Any, rotation: Any = None) -> tuple[Any, Any]:
        """Returns keys and values of an encoder's states [batch, memory_length, hidden_size], each
        one entry per layer.
        """
        return project_memories(self.blocks, states, rotation)

    def prepare(self) -> dict[str, Any]:
        """The weights for ``step``, read, joined and cast once for all positions."""
        weights: dict[str, Any] = {"blocks": [block.prepare() for block in self.blocks]}
        if self.final_norm is None:
            return weights
        return {**weights, "final_norm": self.final_norm.prepare()}

    def empty_caches(self, batch_size: Any, capacity: Any, beam_size: int) -> list[dict[str, Any]]:
        """The caches of ``step`` before the first position: one per layer."""
        return [block.empty_cache(batch_size, capacity, beam_size) for block in self.blocks]

    def step(
        self,
        inputs: Any,
        weights: dict[str, Any],
        caches: list[dict[str, Any]],
        given: PositionInputs,
    ) -> tuple[Any, list[dict[str, Any]]]:
        """Computes one new position of each hypothesis; arguments are those of
        ``contracts.Stack.step``. Caches, and keys and values of the memory, have one entry per
        layer.
        """
        state = add_signal(inputs, given.position_signal, self.compute_dtype)
        biases = [
            block.cache_bias(given.cache_position, own)
            for block, own in zip(self.blocks, weights["blocks"], strict=True)
        ]
        state, new_caches = step_blocks(
            self.blocks,
            state,
            weights["blocks"],
            caches,
            given.cache_position,
            biases,
            given.context,
        )
        return (
            state if self.final_norm is None else self.final_norm.step(state, weights["final_norm"])
        ), new_caches

    def _finish(self, states: Any) -> Any:
        states = tf.cast(states, self.compute_dtype)
        return states if self.final_norm is None else self.final_norm(states)
