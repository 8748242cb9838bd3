"""Two levels: a step in which a low state thinks several times before a high state moves.

With x the embedded inputs, z_L the low and z_H the high state, and f and g blocks (the same one, or
two), a step is::

    repeat H_cycles times:
        repeat L_cycles times:
            z_L = f(z_L + (z_H + x))
        z_H = g(z_H + z_L)

as in TRM (one block, arXiv 2510.04871) and HRM (two, arXiv 2506.21734). What is answered from, and
what halting reads, is z_H; z_L is the carry's memory. In training a gradient flows through the last
calls of a step alone (``cycle_backprop``): those of its last cycle (TRM), or the last one of either
level (HRM).
"""

from typing import Any

import keras
import tensorflow as tf

from ut_tf.layers.block import BlockContext
from ut_tf.layers.composite import Composite, build_parts
from ut_tf.layers.transition import StepTransitions
from ut_tf.models.universal_transformer.initial_state import drawing
from ut_tf.models.universal_transformer.step import Carry, RecurrentStep, Trace


@keras.saving.register_keras_serializable("ut_tf")
class Levels(Composite):
    """The parts of a step of two levels, besides the block of the low one.

    Args:
      H_cycles: moves of the high state in a step.
      L_cycles: moves of the low state before each of them.
      high_block: block of the high state; None: that of the low one.
      initial_low_state: ``InitialState`` of the low state; None: zeros.
      cycle_backprop: "last_cycle", "last_call" or "all": which calls have a gradient.
    """

    def __init__(
        self,
        H_cycles: int,
        L_cycles: int,
        high_block: Any = None,
        initial_low_state: Any = None,
        cycle_backprop: str = "last_cycle",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.H_cycles = H_cycles
        self.L_cycles = L_cycles
        self.high_block = high_block
        self.initial_low_state = initial_low_state
        self.cycle_backprop = cycle_backprop

    def build(self, input_shape: Any) -> None:
        build_parts([self.high_block, self.initial_low_state], input_shape)

    @property
    def constants_before(self) -> tuple[int, int] | None:
        """The call (cycle, call of the low block) whose states have no gradient; None: there is
        none.
        """
        last = self.H_cycles - 1
        calls = {"last_cycle": (last, 0), "last_call": (last, self.L_cycles - 1)}
        return calls.get(self.cycle_backprop)


class TwoLevelStep(RecurrentStep):
    """A ``RecurrentStep`` of two levels; its cell, and its form for one new position, are unused.

    Args:
      levels: Levels.
      *parts: those of ``RecurrentStep``; block is that of the low state.
    """

    def __init__(self, levels: Levels, *parts: Any) -> None:
        super().__init__(*parts)
        self.levels = levels

    @property
    def layers(self) -> list[Any]:
        return [*super().layers, self.levels]

    @property
    def reads_state_alone(self) -> bool:
        return False

    @property
    def steps_are_alike(self) -> bool:
        parts = [part for layer in self.layers for part in layer._flatten_layers()]
        return all(
            type(part).__module__.startswith("ut_tf.")
            and not isinstance(part, StepTransitions)
            and part.activity_regularizer is None
            for part in parts
        )

    def start(self, inputs: Any, keys: Any = None, position: Any = None) -> Carry:
        high, begin = super().start(inputs, keys, position).state, self.levels.initial_low_state
        if begin is None:
            return Carry(high, tf.zeros_like(inputs))
        # The two states are drawn apart.
        return Carry(high, drawing(begin, keys, of_low=True)(inputs))

    def low_state(self, carry: Carry) -> Any:
        return carry.memory

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
        levels = self.levels
        high_block = self.block if levels.high_block is None else levels.high_block

        def called(block: Any, read: Any) -> tuple[Any, Trace]:
            read = self.coordinates(read, step=index, position_signal=signal)
            output, *weights = block(read, context=context, training=training, step=index)
            return output, Trace(read, tuple(weights))

        carry = self.fed(carry, index)
        (high, low), before = carry, carry.state
        for cycle in range(levels.H_cycles):
            for call in range(levels.L_cycles):
                if (cycle, call) == levels.constants_before:
                    high, low = tf.stop_gradient(high), tf.stop_gradient(low)
                low, _ = called(self.block, low + (high + inputs))
            high, trace = called(high_block, high + low)
        high = self.updated(before, high)
        return Carry(high, low), trace if with_trace else Trace(None, (None, None))
