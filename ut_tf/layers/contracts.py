"""The protocols of encoders and decoders (stacks) and of their blocks.

::

    given = StackInputs(symbol_mask=mask, position_signal=signal, context=BlockContext(bias=bias))
    states, details = stack(inputs, given=given, training=True)

A ``Stack`` is a Keras layer between embedder and head: ``LayerStack``, ``Recurrence``,
``MixedStack`` and the stacks with memory. A ``BlockLike`` is what one of its steps computes:
``Block`` or ``BlockSequence``.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from ut_tf.layers.attention_weights import padding_bias
from ut_tf.layers.block import BlockContext
from ut_tf.layers.block_cached import PositionContext
from ut_tf.layers.key_value_cache import CachePosition
from ut_tf.layers.recurrence_details import Observer, RecurrenceDetails


@dataclasses.dataclass(frozen=True)
class StackInputs:
    """The inputs of a stack besides its embedded symbols. Keras takes it for one value, since it
    refuses structures of tensors and other values.

    Args:
      symbol_mask: float32 [batch, length], 0 on padding; None: no padding.
      position_signal: float32 [batch or 1, length, hidden_size], from a ``PositionEncoding``, or
        None.
      context: BlockContext of the blocks; None: self-attention over all symbols of symbol_mask.
      steps: int32 [batch], depth of each example where depth follows from its input's length, or
        None.
      return_attention: whether the details hold the attention weights of every step or layer.
      observer: called with a StepView inside every step or after every layer (in graph mode: while
        it is traced), or None.
      head: makes float32 logits [..., vocab_size] of what the stack returns, for exit rules that
        read logits, or None.
      update: int64 [2], the seed of the run and the number of the update, from which a depth is
        drawn in training; None: from the recurrence's own random numbers.
      carry: Carry that the first step takes, in the place of what the cell begins with; the
        details then hold the carry after the last step. None: the cell begins.
      depth: int32 [2], steps without and with gradient in training, or None.
      every_step: whether, in training, the details hold the states after all steps of a fixed
        depth, with equal shares.
      to_depth: ``GivenDepth`` in the place of the depth of evaluation, or None.
      fresh: bool [batch], the examples that begin anew in the place of their `carry`, or None.
      puzzles: int32 [batch], whose vectors a memory has, or None.
      feedback: makes [..., hidden_size] of the probabilities that `head` gives each position; it is
        added to the state before the next step. None: nothing is.
      keys: int64 [batch], numbers of the examples, from which initial states are drawn; None: their
        places in the batch.
      exit_steps: int32 [batch, symbols], at inference the step, from 1, after which a symbol exits
        besides its halting; None: none does.
    """

    symbol_mask: Any = None
    position_signal: Any = None
    context: BlockContext | None = None
    steps: Any = None
    return_attention: bool = False
    observer: Observer | None = None
    head: Callable[[Any], Any] | None = None
    update: Any = None
    carry: Any = None
    depth: Any = None
    every_step: bool = False
    to_depth: Any = None
    puzzles: Any = None
    fresh: Any = None
    keys: Any = None
    feedback: Callable[[Any], Any] | None = None
    exit_steps: Any = None

    def replace(self, **fields: Any) -> "StackInputs":
        """Returns the same with other values of some fields."""
        return dataclasses.replace(self, **fields)

    def block_context(self) -> BlockContext:
        """Returns the context of the blocks, which by default follows from the mask."""
        if self.context is not None:
            return BlockContext(*self.context)
        if self.symbol_mask is None:
            return BlockContext()
        return BlockContext(bias=padding_bias(self.symbol_mask), keep=self.symbol_mask)


class PositionInputs(NamedTuple):
    """The inputs of a stack in incremental decoding, besides one embedded symbol of each
    hypothesis.

    Fields:
      cache_position: of the new position.
      position_signal: float32 [batch * beam_size or 1, hidden_size], of the new position, or None.
      context: PositionContext of the new position.
      head: as of ``StackInputs``, of [rows, hidden_size].
      keys: as of ``StackInputs``, int64 [rows].
    """

    cache_position: CachePosition
    position_signal: Any = None
    context: PositionContext = PositionContext()
    head: Callable[[Any], Any] | None = None
    keys: Any = None


class Stack(Protocol):
    """A Keras layer from embedded symbols to states."""

    def __call__(
        self, inputs: Any, given: StackInputs, training: bool = False
    ) -> tuple[Any, RecurrenceDetails]:
        """Computes a whole sequence.

        Args:
          inputs: [batch, length, hidden_size], embedded.
          given: StackInputs.
          training: whether to drop, and which of the training's and the evaluation's depth holds.

        Returns:
          (states [batch, length, hidden_size] in the compute dtype, RecurrenceDetails).
        """

    def project_memory(self, states: Any, rotation: Any = None) -> tuple[Any, Any]:
        """Returns keys and values of an encoder's states [batch, memory_length, hidden_size], for
        the context.
        """

    def prepare(self) -> dict[str, Any]:
        """Returns the weights for ``step``, read, joined and cast once for all positions."""

    def empty_caches(self, batch_size: Any, capacity: Any, beam_size: int) -> list[dict[str, Any]]:
        """Returns the caches of ``step`` before the first position."""

    def step(
        self,
        inputs: Any,
        weights: dict[str, Any],
        caches: list[dict[str, Any]],
        given: PositionInputs,
    ) -> tuple[Any, list[dict[str, Any]]]:
        """Computes one new position of each hypothesis: incremental decoding.

        Args:
          inputs: [batch * beam_size, hidden_size], embedded.
          weights: from ``prepare``.
          caches: from ``empty_caches`` or an earlier call.
          given: PositionInputs.

        Returns:
          (states [batch * beam_size, hidden_size], the new caches).
        """


class BlockLike(Protocol):
    """A Keras layer that a recurrent step calls once.

    Attributes:
      with_memory: whether it attends over an encoder's states.
      num_heads: heads of the self-attention; 0: it has no weights.
      remembers_only_keys: whether later positions read of a position nothing but keys and values.
      layers_per_step: how many layers it has, on the first axis of its attention weights and as
        entries of its cache and of the memory's keys and values; None: one, without that axis.
    """

    with_memory: bool

    @property
    def num_heads(self) -> int: ...

    @property
    def remembers_only_keys(self) -> bool: ...

    @property
    def layers_per_step(self) -> int | None: ...

    def __call__(
        self, x: Any, context: BlockContext, training: bool = False, step: Any = 0
    ) -> tuple[Any, Any, Any]:
        """Computes all positions; see ``Block``."""

    def project_memory(self, states: Any, rotation: Any = None) -> tuple[Any, Any]:
        """Returns keys and values of an encoder's states, for the context."""

    def prepare(self) -> dict[str, Any]:
        """Returns the weights for ``step``, read, joined and cast once for all positions."""

    def empty_cache(self, batch_size: Any, capacity: Any, beam_size: int) -> Any:
        """Returns the cache of ``step`` before the first position."""

    def cache_bias(self, cache_position: CachePosition, weights: dict[str, Any]) -> Any:
        """Returns the bias of the self-attention for a new position."""

    def step(
        self,
        x: Any,
        weights: dict[str, Any],
        cache: Any,
        cache_position: CachePosition,
        bias: Any,
        context: PositionContext,
        step: int = 0,
    ) -> tuple[Any, Any]:
        """Computes one new position of each hypothesis; see ``Block.step``."""
