"""Blocks one after the other, each with weights of its own: the layers of a recurrent step, or of a
Transformer.

How it is used, in the place of one ``Block``, by a recurrence whose step has several layers::

    blocks = BlockSequence([Block(...), Block(...)])
    states, attention_weights, _ = blocks(states,
        context=BlockContext(bias=padding_bias(mask)))

How it works: block i has the caches, and the keys and values of an encoder's states, with number i.
The functions are what ``LayerStack`` (stack.py) has in common with it: there the blocks are the
whole network.
"""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import keras
import tensorflow as tf

from ut_tf.layers.block import Block, BlockContext
from ut_tf.layers.block_cached import PositionContext
from ut_tf.layers.composite import Composite, build_parts, keep_parts, kept_parts
from ut_tf.layers.key_value_cache import CachePosition


def each_block(
    blocks: Sequence[Block], x: Any, context: BlockContext, training: bool, step: Any = 0
) -> Iterator[tuple[Any, Any, Any]]:
    """Yields the result of each block, given the output of the one before it and, first, `x`."""
    for number, block in enumerate(blocks):
        x, own, memory = block(x, context=context.of_part(number), training=training, step=step)
        yield x, own, memory


def project_memories(
    blocks: Sequence[Any], states: Any, rotation: Any = None
) -> tuple[list[Any], list[Any]]:
    """Returns keys and values of an encoder's states [batch, memory_length, hidden_size], each one
    entry per block, or per other part that attends over them.
    """
    pairs = [block.project_memory(states, rotation) for block in blocks]
    return [keys for keys, _ in pairs], [values for _, values in pairs]


def step_blocks(
    blocks: Sequence[Block],
    x: Any,
    weights: list[dict[str, Any]],
    caches: list[dict[str, Any]],
    cache_position: CachePosition,
    biases: list[Any],
    context: PositionContext,
    step: int = 0,
) -> tuple[Any, list[dict[str, Any]]]:
    """Computes the blocks for one new position of each hypothesis; as ``Block.step``, with lists of
    one entry per block.
    """
    new_caches = []
    layers = zip(blocks, weights, caches, biases, strict=True)
    for number, (block, own, cache, bias) in enumerate(layers):
        x, cache = block.step(x, own, cache, cache_position, bias, context.of_part(number), step)
        new_caches.append(cache)
    return x, new_caches


@keras.saving.register_keras_serializable("ut_tf")
class BlockSequence(Composite):
    """Blocks one after the other.

    Args:
      blocks: the blocks, the first one first.

    Call arguments:
      as of ``Block``; memory_keys and memory_values of the context hold one entry per block
      (``project_memory``).

    Returns:
      as ``Block`` does, with the blocks on the first axis of all attention weights.
    """

    remembers_only_keys: ClassVar[bool] = False

    def __init__(self, blocks: Sequence[Block], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.count = len(blocks)
        self.with_memory = blocks[0].with_memory
        keep_parts(self, "block", blocks)

    @property
    def num_heads(self) -> int:
        """Heads of the self-attention."""
        return self.blocks[0].num_heads

    @property
    def layers_per_step(self) -> int | None:
        """The number of blocks."""
        return self.count

    @property
    def blocks(self) -> list[Block]:
        """The blocks, the first one first."""
        return kept_parts(self, "block", self.count)

    def build(self, input_shape: Any) -> None:
        build_parts(self.blocks, input_shape)

    def call(
        self, x: Any, context: BlockContext, training: bool = False, step: Any = 0
    ) -> tuple[Any, Any, Any]:
        outputs, own, memory = zip(
            *each_block(self.blocks, x, context, training, step), strict=True
        )
        weights = None if own[0] is None else tf.stack(own)
        return outputs[-1], weights, tf.stack(memory) if self.with_memory else None

    def project_memory(self, states: Any, rotation: Any = None) -> tuple[Any, Any]:
        """Returns keys and values of an encoder's states [batch, memory_length, hidden_size], each
        one entry per block.
        """
        return project_memories(self.blocks, states, rotation)

    def prepare(self) -> dict[str, Any]:
        """The weights for ``step``, read, joined and cast once for all positions."""
        return {"blocks": [block.prepare() for block in self.blocks]}

    def empty_cache(self, batch_size: Any, capacity: Any, beam_size: int) -> list[dict[str, Any]]:
        """The caches of ``step`` before the first position: one per block."""
        return [block.empty_cache(batch_size, capacity, beam_size) for block in self.blocks]

    def cache_bias(self, cache_position: CachePosition, weights: dict[str, Any]) -> list[Any]:
        """Every block's ``cache_bias``."""
        return [
            block.cache_bias(cache_position, own)
            for block, own in zip(self.blocks, weights["blocks"], strict=True)
        ]

    def step(
        self,
        x: Any,
        weights: dict[str, Any],
        cache: list[dict[str, Any]],
        cache_position: CachePosition,
        bias: list[Any],
        context: PositionContext,
        step: int = 0,
    ) -> tuple[Any, list[dict[str, Any]]]:
        """Computes the blocks for one new position of each hypothesis; as ``Block.step``, with
        lists of one entry per block.
        """
        return step_blocks(
            self.blocks, x, weights["blocks"], cache, cache_position, bias, context, step
        )
