"""Measures what halting saves: all positions computed at every step (dense) against those that have
not halted (compact), for given mean ponder times.

How it is used::

    python benchmarks/halting.py                # d 128, 256, 512; 10, 25, 50, 100 % of 12 steps
    python benchmarks/halting.py --hidden_sizes=256 --shares=25 --modes=inference,training

What is timed is an encoder's recurrence with random weights, whose positions halt by chance with
the same probability at every step. The two take turns; the medians count. `ideal` is the mean
ponder time as a share of the steps. The last line on standard output is JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from machine import header

MODES = ("inference", "training")


def halting_probability(share: float, steps: int) -> float:
    """The chance per step at which the mean ponder time is `share` of `steps`, their most."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        mean = sum((1 - middle) ** step for step in range(steps))
        low, high = (middle, high) if mean > share * steps else (low, middle)
    return low


def make_recurrence(hidden_size: int, share: float, steps: int, compute: str) -> Any:
    """A recurrence whose positions halt by chance, with random weights."""
    import keras
    import tensorflow as tf

    from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
    from ut_tf.models.universal_transformer.halting.adaptive_computation_time import Basic
    from ut_tf.models.universal_transformer.parts import make_recurrence

    probability = halting_probability(share, steps)

    class ByChance(Basic):
        def probabilities(self, before: Any, after: Any, counted: Any, step: Any = 0) -> Any:
            draws = tf.random.uniform(tf.shape(before)[:-1])
            return super().probabilities(before, after, counted, step) * 0.0 + tf.cast(
                draws < probability, tf.float32
            )

    keras.utils.set_random_seed(1)
    config = UniversalTransformerConfig(
        hidden_size=hidden_size,
        filter_size=4 * hidden_size,
        num_heads=hidden_size // 64,
        halting="basic",
        act_max_steps=steps,
        halting_compute=compute,
    )
    recurrence = make_recurrence(config)
    recurrence.halting_unit = ByChance(act_max_steps=steps)
    recurrence.build((None, None, hidden_size))
    return recurrence


def passes(
    recurrence: Any, batch_size: int, length: int, hidden_size: int, mode: str
) -> Callable[[], tuple[float, float]]:
    """A function that runs the recurrence once: (seconds, mean ponder time)."""
    import tensorflow as tf

    from ut_tf.layers.attention import padding_bias
    from ut_tf.layers.block import BlockContext

    mask = tf.ones([batch_size, length])
    states = tf.random.normal([batch_size, length, hidden_size], seed=1)
    training = mode == "training"
    signature = [tf.TensorSpec([None, None, hidden_size]), tf.TensorSpec([None, None])]

    @tf.function(autograph=False, input_signature=signature)
    def run(states: Any, mask: Any) -> Any:
        context = BlockContext(bias=padding_bias(mask))
        with tf.GradientTape() as tape:
            output, details = recurrence(states, mask, None, context, training=training)
            loss = tf.reduce_sum(output**2)
        weights = recurrence.trainable_variables
        gradients = tape.gradient(loss, weights, unconnected_gradients="zero") if training else []
        return [loss, tf.reduce_mean(details.ponder_times), *map(tf.reduce_sum, gradients)]

    def once() -> tuple[float, float]:
        began = time.perf_counter()
        values = [value.numpy() for value in run(states, mask)]
        return time.perf_counter() - began, float(values[1])

    return once


def compare(flags: argparse.Namespace, hidden_size: int, share: float, mode: str) -> dict[str, Any]:
    """Dense and compact in turn."""
    runs = {
        compute: passes(
            make_recurrence(hidden_size, share, flags.steps, compute),
            flags.batch_size,
            flags.length,
            hidden_size,
            mode,
        )
        for compute in ("dense", "compact")
    }
    for run in runs.values():
        run(), run()
    seconds: dict[str, list[float]] = {compute: [] for compute in runs}
    means = []
    for _ in range(flags.repetitions):
        for compute, run in runs.items():
            elapsed, mean = run()
            seconds[compute].append(elapsed)
            means.append(mean)
    dense, compact = (statistics.median(seconds[compute]) for compute in ("dense", "compact"))
    return {
        "hidden_size": hidden_size,
        "mode": mode,
        "ideal": round(statistics.mean(means) / flags.steps, 3),
        "dense_ms": round(1e3 * dense, 1),
        "compact_ms": round(1e3 * compact, 1),
        "ratio": round(compact / dense, 3),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a table and the same numbers as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hidden_sizes", default="128,256,512")
    parser.add_argument("--shares", default="10,25,50,100", help="percent of the steps")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--length", type=int, default=40)
    parser.add_argument("--repetitions", type=int, default=7)
    flags = parser.parse_args(arguments)
    print(header())
    rows = [
        compare(flags, int(size), float(share) / 100, mode)
        for size in flags.hidden_sizes.split(",")
        for mode in flags.modes.split(",")
        for share in flags.shares.split(",")
    ]
    names = list(rows[0])
    print(" ".join(f"{name:>11}" for name in names))
    for row in rows:
        print(" ".join(f"{row[name]:>11}" for name in names))
    print(json.dumps({"rows": rows}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
