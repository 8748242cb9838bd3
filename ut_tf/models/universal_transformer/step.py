"""One recurrent step as a function of a carry. Every loop repeats it.

::

    step = RecurrentStep(cell, coordinates, block)
    carry = step.start(inputs)
    for index in range(depth):                                    # figure 4 of arXiv 1807.03819
        carry, trace = step(carry, inputs, index, signal, context, training)

``loops.py`` repeats it over a whole sequence, ``compact_loop.py`` over the positions that have not
halted, ``position_loop.py`` over one new position. ``depth.py`` says how often.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import tensorflow as tf

from ut_tf.layers.block import Block, BlockContext
from ut_tf.layers.contracts import BlockLike
from ut_tf.layers.coordinates import Coordinates, add_signal
from ut_tf.layers.linear import matmul
from ut_tf.layers.transition import StepTransitions
from ut_tf.models.universal_transformer.cells import BasicCell, step_argument
from ut_tf.models.universal_transformer.initial_state import InitialState, drawing
from ut_tf.models.universal_transformer.injection import InputInjection


class Carry(NamedTuple):
    """The values that a step takes and returns.

    Fields:
      state: [batch, length, hidden_size]; of one new position or of rows [rows, hidden_size].
      memory: the cell's, a structure of tensors [batch, length, ...] or [rows, ...].
    """

    state: Any
    memory: Any


class Trace(NamedTuple):
    """The record of a step, besides its carry.

    Fields:
      block_input: [batch, length, hidden_size], what the block read, with its coordinates.
      attention_weights: (of the self-attention, over the memory), float32 or None each.
    """

    block_input: Any
    attention_weights: tuple[Any, Any]


def of_rows(rows: Any, chosen: Any, others: Any) -> Any:
    """Returns the values of `chosen` in `rows`, bool [batch], and those of `others` elsewhere, of
    structures of tensors [batch, ...].
    """

    def choose(one: Any, other: Any) -> Any:
        shape = tf.concat([tf.shape(rows), tf.ones([one.shape.rank - 1], tf.int32)], 0)
        return tf.where(tf.reshape(rows, shape), one, other)

    return tf.nest.map_structure(choose, chosen, others)


@dataclass(eq=False)
class RecurrentStep:
    """The step of a recurrence. Keras does not track it: its parts belong to the ``Recurrence``.

    Args:
      cell: decides where the state begins, what the block reads, and how states combine.
      coordinates: of position and step, added to what the block reads.
      block: attention and transition.
      injection: ``InputInjection`` of the inputs into what the block reads, or None.
      initial_state: ``InitialState``, or None: the cell decides.
      outer_norm: norm of the new state, or None.
      state_update: share of the cell's result in the new state (arXiv 2605.21488's λ).

    Attributes:
      feedback: makes what is added to a state before the next step; None: nothing.
    """

    cell: BasicCell
    coordinates: Coordinates
    block: BlockLike
    injection: InputInjection | None = None
    initial_state: InitialState | None = None
    outer_norm: Any = None
    state_update: float = 1.0
    feedback: Callable[[Any], Any] | None = field(default=None, init=False)

    @property
    def layers(self) -> list[Any]:
        """The Keras layers that a step calls."""
        parts = [self.block, self.cell, self.coordinates, self.injection, self.outer_norm]
        return [part for part in parts if part is not None]

    def start(self, inputs: Any, keys: Any = None, position: Any = None) -> Carry:
        """Returns the carry before the first step.

        Args:
          inputs: [batch, length, hidden_size] or [rows, hidden_size].
          keys: int64 [batch] or [rows], numbers of the examples, from which states are drawn.
          position: int32 [], of inputs [rows, hidden_size].
        """
        begin: Callable[[Any], Any] = self.cell.initial_state
        if self.initial_state is not None:
            begin = drawing(self.initial_state, keys, position=position)
        return Carry(begin(inputs), self.cell.initial_memory(inputs))

    def begun(self, inputs: Any, carry: Any, fresh: Any, keys: Any) -> Carry:
        """Returns the carry before the first step of a call: `carry`, or from ``start`` where it is
        None and for the examples that are `fresh`, bool [batch] or None.
        """
        if carry is None:
            return self.start(inputs, keys)
        given = Carry(*carry)
        if fresh is None:
            return given
        begun: Carry = of_rows(fresh, self.start(inputs, keys), given)
        return begun

    def __call__(
        self,
        carry: Carry,
        inputs: Any,
        index: Any,
        signal: Any,
        context: BlockContext,
        training: bool,
        with_trace: bool = True,
    ) -> tuple[Carry, Trace]:
        """Computes one step of all positions.

        Args:
          carry: from ``start`` or the step before.
          inputs: [batch, length, hidden_size], in the compute dtype.
          index: int32 [] or a number, the step, from 0; int32 [batch, 1] of each example.
          signal: float32 [batch or 1, length, hidden_size], of the positions, or None.
          context: of the block.
          training: whether to drop.
          with_trace: whether the trace holds anything. What a function of TensorFlow returns has a
            gradient, which takes time though it is zero.
        """
        carry = self.fed(carry, index)
        block_input, memory = self.cell.block_input(carry.state, carry.memory, inputs, index)
        if self.injection is not None:
            block_input = self.injection(block_input, inputs)
        block_input = self.coordinates(block_input, step=index, position_signal=signal)
        output, own, of_memory = self.block(
            block_input, context=context, training=training, step=index
        )
        state, memory = self.cell(
            output, carry.state, memory, inputs, **step_argument(self.cell.call, index)
        )
        state = self.updated(carry.state, state)
        trace = Trace(block_input, (own, of_memory)) if with_trace else Trace(None, (None, None))
        return Carry(state, memory), trace

    def fed(self, carry: Carry, index: Any) -> Carry:
        """Returns the carry with what the state answers with added to it, after the first step."""
        if self.feedback is None:
            return carry
        state = carry.state
        answered = tf.cast(tf.reshape(tf.cast(index, tf.int32) > 0, [-1, 1, 1]), state.dtype)
        return Carry(state + answered * tf.cast(self.feedback(state), state.dtype), carry.memory)

    @property
    def reads_state_alone(self) -> bool:
        """Whether the block reads the state as it is, whatever memory, inputs and step."""
        return self.cell.reads_state_alone

    @property
    def steps_are_alike(self) -> bool:
        """Whether all steps are the same operations on the same weights, which depend on the step's
        number as a tensor at most.
        """
        block = self.block
        if not isinstance(block, Block) or isinstance(block.transition, StepTransitions):
            return False
        # Layers of user code may do more than compute: add a loss, or take the step for a number.
        parts = [*block._flatten_layers(), *self.layers]
        if not all(type(part).__module__.startswith("ut_tf.") for part in parts):
            return False
        # A loss that is made in a shared graph cannot be read outside.
        if any(part.activity_regularizer is not None for part in parts):
            return False
        return self.reads_state_alone

    def updated(self, before: Any, state: Any) -> Any:
        """Returns the new state of the one before a step and what the step made of it."""
        state = self._mixed(before, state)
        return state if self.outer_norm is None else self.outer_norm(state)

    def _mixed(self, before: Any, state: Any) -> Any:
        """Returns (1 - state_update) before + state_update state."""
        if self.state_update == 1.0:
            return state
        before = tf.cast(before, state.dtype)
        return before + tf.cast(self.state_update, state.dtype) * (state - before)

    def low_state(self, carry: Carry) -> Any:
        """Returns the low state of a step of two levels; None: there is one level."""

    # Incremental decoding.

    def prepare(self, count: int) -> dict[str, Any]:
        """Returns the weights for `count` steps of one new position, read, joined and cast once."""
        weights: dict[str, Any] = {"block": self.block.prepare(), "cell": self.cell.prepare()}
        if self.injection is not None:
            weights["injection"] = self.injection.prepare()
        if self.outer_norm is not None:
            weights["outer_norm"] = self.outer_norm.prepare()
        if kernels := self.coordinates.prepare():
            weights["coordinates"] = kernels
        signals = self.coordinates.step_signals(count)
        if signals is not None:
            weights["steps"] = signals
        return weights

    def position_signals(
        self, signal: Any, weights: dict[str, Any], first: int, count: int
    ) -> list[Any]:
        """Returns the signal of one new position at each of `count` steps from `first` on: the
        position's, float32 [rows or 1, hidden_size] or None, plus the step's; or None.
        """
        steps = weights.get("steps")
        if kernels := weights.get("coordinates"):
            _, signal, steps = self.coordinates.projected(kernels, signal, signal, steps)
        if steps is None:
            return [signal] * count
        steps = steps[first : first + count, None]
        return list(tf.unstack(steps if signal is None else signal + steps, count))

    def position_input(
        self, carry: Carry, inputs: Any, index: int, signal: Any, weights: dict[str, Any]
    ) -> tuple[Any, Carry]:
        """Returns (the block's input of one new position, [rows, hidden_size]; the carry that
        ``advance`` takes).

        Args:
          carry: of [rows, hidden_size].
          inputs: [rows, hidden_size].
          index: the step, from 0.
          signal: the step's, from ``position_signals``.
          weights: from ``prepare``.
        """
        seen, memory = self.cell.block_input(carry.state, carry.memory, inputs, index)
        if self.injection is not None:
            seen = self.injection.injected(seen, inputs, weights["injection"])
        if kernels := weights.get("coordinates"):
            seen = matmul(tf.cast(seen, kernels[0].dtype), kernels[0])
        if signal is not None:
            seen = add_signal(seen, signal, self.coordinates.compute_dtype)
        return seen, Carry(carry.state, memory)

    def advance(
        self, block_output: Any, carry: Carry, inputs: Any, weights: dict[str, Any], index: int
    ) -> Carry:
        """Returns the carry of one new position after a step whose block gave `block_output`,
        [rows, hidden_size].
        """
        arguments = (block_output, carry.state, carry.memory, inputs, weights["cell"])
        state, memory = self.cell.step(*arguments, **step_argument(self.cell.step, index))
        state = self._mixed(carry.state, state)
        if self.outer_norm is not None:
            state = self.outer_norm.step(state, weights["outer_norm"])
        return Carry(state, memory)
