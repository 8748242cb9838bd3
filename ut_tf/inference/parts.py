"""Batches of any size, computed in parts that fit the memory, in graph.

How it is used::

    scores = tf.TensorSpec([None], tf.float32)
    (result,) = in_parts(lambda part: (score(part),), features, [scores], most_positions=8192)
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf


def in_parts(
    function: Callable[[dict[str, Any]], Sequence[Any]],
    features: Mapping[str, Any],
    outputs: Sequence[tf.TensorSpec],
    most_positions: int,
) -> list[Any]:
    """The outputs of a function for a batch, computed for some examples after the others.

    Args:
      function: takes features of some examples and returns tensors [examples, ...].
      features: tensors [batch] or [batch, length, ...], of one example at least.
      outputs: of `function`, with the batch as None; a size must be the same in all parts.
      most_positions: of the examples of a part together, padding included, where one example has
        no more.

    Returns:
      The outputs for the whole batch.
    """
    batch = tf.shape(next(iter(features.values())))[0]
    lengths = [tf.shape(value)[1] for value in features.values() if value.shape.rank > 1]
    rows = tf.maximum(most_positions // tf.maximum(tf.reduce_max(lengths), 1), 1)
    count = tf.maximum((batch + rows - 1) // rows, 1)

    def step(number: Any, *arrays: Any) -> tuple[Any, ...]:
        first = number * rows
        part = {name: value[first : first + rows] for name, value in features.items()}
        pairs = zip(arrays, function(part), strict=True)
        return number + 1, *(array.write(number, value) for array, value in pairs)

    arrays = [
        tf.TensorArray(spec.dtype, count, infer_shape=False, element_shape=spec.shape)
        for spec in outputs
    ]
    _, *arrays = tf.while_loop(
        lambda number, *_: number < count, step, (0, *arrays), parallel_iterations=1
    )
    return [
        tf.ensure_shape(array.concat(), spec.shape)
        for array, spec in zip(arrays, outputs, strict=True)
    ]
