"""The graph of one recurrent step, which all steps of an unrolled recurrence share in training.

Tracing a graph takes time for each operation, forward and backward. The steps are the same
operations on the same weights: a function is traced for the first of them, and the others call it.
TensorFlow puts its operations in the place of the calls before the graph runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ut_tf.layers.block import Block
from ut_tf.layers.transition import StepTransitions

if TYPE_CHECKING:
    from ut_tf.models.universal_transformer.recurrence import Recurrence

Advance = Callable[[Any, Any, Any], tuple[Any, Any, Any, Any]]


def shared_by_all_steps(advance: Advance) -> Advance:
    """Returns ``advance`` as a function of tensors that is traced once.

    Args:
      advance: (step, state, memory) -> (prepared, new state, new memory, attention weights), of
        which the result has the new state and memory alone.
    """
    graph = tf.function(lambda *before: advance(*before)[1:3], autograph=False)

    def shared(step: Any, state: Any, memory: Any) -> tuple[Any, Any, Any, Any]:
        new_state, new_memory = graph(tf.constant(step), state, memory)
        return None, new_state, new_memory, (None, None)

    return shared


def steps_are_alike(recurrence: Recurrence) -> bool:
    """Whether all steps are the same operations on the same weights, which depend on the step's
    number as a tensor at most.
    """
    block, cell = recurrence.block, recurrence.cell
    if not isinstance(block, Block) or isinstance(block.transition, StepTransitions):
        return False
    # Layers of user code may do more than compute: add a loss, or take the step for a number.
    parts = [*block._flatten_layers(), cell, recurrence.coordinates]
    if not all(type(part).__module__.startswith("ut_tf.") for part in parts):
        return False
    # A loss that is made in the graph cannot be read outside.
    if any(part.activity_regularizer is not None for part in recurrence._flatten_layers()):
        return False
    return bool(cell.looks_at_state_alone)
