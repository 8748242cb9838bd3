"""Functions as graphs that are traced once."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def graph(function: Callable[..., Any], signature: list[Any]) -> Callable[..., Any]:
    """The function as a graph for arguments of one signature, traced when it is first called."""
    # Nothing here is written in Python's own loops and conditions, whose conversion takes longer
    # than all the rest of tracing.
    traced = tf.function(function, input_signature=signature, autograph=False)

    def call(*arguments: Any) -> Any:
        # Every translator has graphs of its own; where their calls traced them, TensorFlow would
        # warn of retracing after a few translators.
        if not tf.config.functions_run_eagerly():
            traced.get_concrete_function()
        return traced(*arguments)

    return call
