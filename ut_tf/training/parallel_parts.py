"""The parts of a batch whose gradients are computed at the same time, on a CPU.

::

    parts = count_parts(hparams, strategy)     # 2 where two cores train a wide network
    gradients = in_parts(gradients, parts)     # takes the same arguments

With one thread per operation (``threads.py``), a product of a batch mostly waits for the one
before; products of its two halves do not wait for each other (docs/performance.md). As on replicas,
each part divides its sums by the counts of all, and gradients are added up.
"""

import itertools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ut_tf.config.hparams import HParams
from ut_tf.config.processor import usable_cores
from ut_tf.data.pipeline import WEIGHT
from ut_tf.training.distribution import on_accelerator

# Those that carry nothing from one update to the next.
_SUPERVISIONS = ("final", "each", "progressive")
# A narrower network trains too quickly to repay the graph of a second part.
_WIDE = 128


def count_parts(hparams: HParams, strategy: Any) -> int:
    """Returns the parts of a batch: ``parallel_parts``, or for 0 what suits network and machine."""
    training, network = hparams.training, hparams.network
    suits = (
        training.supervision in _SUPERVISIONS
        and not training.jit_compile
        # A loop that moves the rows of positions keeps two cores busy by itself.
        and getattr(network, "halting", "none") == "none"
        and network.hidden_size >= _WIDE
        and usable_cores() == 2
        and strategy.num_replicas_in_sync == 1
        and not on_accelerator(strategy)
    )
    return training.parallel_parts or 1 + suits


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
        bounds = [number * tf.shape(rows[WEIGHT])[0] // parts for number in range(parts + 1)]
        results = [
            traced({name: value[start:end] for name, value in rows.items()})
            for start, end in itertools.pairwise(bounds)
        ]
        return *tf.nest.map_structure(lambda *values: tf.add_n(values), *results), carry

    return of_parts


def _of_any_rows(value: Any) -> tf.TensorSpec:
    return tf.TensorSpec([None, *value.shape[1:]], value.dtype)
