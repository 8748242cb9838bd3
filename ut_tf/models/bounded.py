"""Bounds on a model's variables: a large size in somebody's file is refused before it fills memory.

::

    with bounded_variables(stored):
        model = make(hyperparameters)    # UserError at the first variable beyond
"""

import contextlib
import math
from typing import Any

from ut_tf.errors import UserError

# Numbers in the states of random generators and metrics, which are no parameters.
_MOST_OF_SEEDS = 1000
# Fields that say how many layers are made.
_LAYERS = frozenset(
    {
        "num_layers",
        "num_steps",
        "recurrence_layers",
        "mix_layers_before",
        "mix_layers_after",
        "relaxed_sets",
    }
)
# Steps that share their weights need no parameters: so many may be taken by any model.
_SHARED_STEPS = 1000


class TooLargeError(UserError):
    """A configuration makes a model of more numbers than are stored."""


def too_large(most: int) -> TooLargeError:
    """Returns the error about a configuration that makes more than the numbers that are stored."""
    return TooLargeError(
        f"the configuration makes a model of more than the {most:,} parameters that are"
        " stored: copy or download the whole of it again."
    )


def check_layers(values: Any, most: int) -> None:
    """Raises UserError where a configuration asks for more layers than `most` parameters can be
    divided among: layers are made before their variables are.

    Args:
      values: of JSON, nested in any way.
      most: parameters that are stored.
    """
    waiting = [values]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            width = value.get("hidden_size")
            least = width if isinstance(width, int) and width > 0 else 1
            if any(_exceeds(name, value[name], most // least) for name in _LAYERS & value.keys()):
                raise too_large(most)
            waiting += value.values()
        elif isinstance(value, list | tuple):
            waiting += value


def _exceeds(name: str, count: Any, most: int) -> bool:
    """Whether a field asks for more layers than `most`."""
    free = _SHARED_STEPS if name == "num_steps" else 0
    return isinstance(count, int | float) and count > max(most, free)


def bounded_variables(most: int | None) -> contextlib.AbstractContextManager[None]:
    """A context in which variables have at most that many numbers in all; None: any.

    Raises:
      UserError: in the context, for the first variable beyond, before it takes memory.
    """
    if most is None:
        return contextlib.nullcontext()
    import tensorflow as tf

    made = -_MOST_OF_SEEDS

    def create(next_creator: Any, **options: Any) -> Any:
        nonlocal made
        value = options["initial_value"]
        if callable(value):
            # In a graph that never runs, the value has a shape and takes no memory.
            with tf.__internal__.FuncGraph("shape").as_default():
                made += math.prod(tf.convert_to_tensor(value()).shape)
        if made > most:
            raise too_large(most)
        return next_creator(**options)

    scope: contextlib.AbstractContextManager[None] = tf.variable_creator_scope(create)
    return scope
