"""The parts of a batch whose gradients are computed at the same time, on a CPU.

::

    gradients = in_parts(gradients, 2)     # takes the same arguments

With one thread per operation (``threads.py``), a product of a batch mostly waits for the one
before; products of its two halves do not wait for each other (docs/performance.md). As on replicas,
each part divides its sums by the counts of all, and gradients are added up.
"""

import itertools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ut_tf.data.pipeline import WEIGHT


def in_parts(function: Callable[..., Any], parts: int) -> Callable[..., Any]:
    """Returns a function of the same arguments: the sum of what `function` returns for each part.

    Args:
      function: of (features, counts, carry), to (gradients, sums, carry). "update" of the features
        belongs to the whole batch, and the carry is ().
      parts: 1: `function` itself.
    """
    if parts == 1:
        return function

    def of_parts(features: dict[str, Any], counts: Any, carry: Any) -> Any:
        update = features["update"]
        rows = {name: value for name, value in features.items() if name != "update"}
        traced = tf.function(
            lambda part: function({**part, "update": update}, counts, carry)[:2],
            input_signature=[tf.nest.map_structure(_of_any_rows, rows)],
            autograph=False,
        )

        def of_part(start: Any, end: Any) -> Any:
            sums = traced({name: value[start:end] for name, value in rows.items()})
            # A mean over no rows, which a layer may have added, is no number.
            return tf.nest.map_structure(
                lambda value: tf.where(end > start, value, tf.zeros_like(value)), sums
            )

        bounds = [number * tf.shape(rows[WEIGHT])[0] // parts for number in range(parts + 1)]
        results = [of_part(start, end) for start, end in itertools.pairwise(bounds)]
        return *tf.nest.map_structure(lambda *values: tf.add_n(values), *results), carry

    return of_parts


def _of_any_rows(value: Any) -> tf.TensorSpec:
    return tf.TensorSpec([None, *value.shape[1:]], value.dtype)
