"""Measures what halting saves: all positions computed at every step (dense) against those that have
not halted (compact), for given mean ponder times.

How it is used::

    python benchmarks/halting.py                # d 128, 256, 512; 10, 25, 50, 100 % of 12 steps
    python benchmarks/halting.py --hidden_sizes=256 --shares=25 --modes=inference,training
    python benchmarks/halting.py --hidden_sizes=256 --modes=greedy,beam

inference and training time an encoder's recurrence; greedy and beam (of 4) a search with encoder
and decoder, for outputs of a forced length. Weights are random; positions halt by chance with the
same probability at every step. The two take turns; the medians count. `ideal` is the mean ponder
time as a share of the steps. The last line on standard output is JSON.
"""

import argparse
import functools
import math
import statistics
import sys
from collections.abc import Callable, Sequence
from typing import Any

from decode import Shape, make_model, our_search
from measuring import Machine, in_turns, report

MODES = ("inference", "training", "greedy", "beam")
BEAM_SIZES = {"greedy": 1, "beam": 4}
VOCAB_SIZE = 1000
BY_CHANCE = "benchmark_by_chance"


def halting_probability(share: float, steps: int) -> float:
    """The chance per step at which the mean ponder time is `share` of `steps`, their most."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        mean = sum((1 - middle) ** step for step in range(steps))
        low, high = (middle, high) if mean > share * steps else (low, middle)
    return low


@functools.cache
def register_by_chance() -> None:
    """Registers a halting form whose positions halt at each step with the probability sigmoid(b),
    where b is act_halting_bias_init.
    """
    import tensorflow as tf

    from ut_tf import registry
    from ut_tf.models.universal_transformer.halting.adaptive_computation_time import Basic

    @registry.register_halting(BY_CHANCE)
    class ByChance(Basic):
        def __init__(self, act_halting_bias_init: float = -1.0, **options: Any) -> None:
            super().__init__(act_halting_bias_init=act_halting_bias_init, **options)
            self.probability = 1 / (1 + math.exp(-act_halting_bias_init))

        def probabilities(self, before: Any, after: Any, counted: Any, step: Any = 0) -> Any:
            draws = tf.random.uniform(tf.shape(before)[:-1])
            halts = tf.cast(draws < self.probability, tf.float32)
            # The form's own product counts, too.
            return super().probabilities(before, after, counted, step) * 0.0 + halts


def make_config(hidden_size: int, share: float, steps: int, compute: str) -> Any:
    """A configuration whose positions halt by chance after `share` of the steps in the mean."""
    from ut_tf.models.universal_transformer.config import UniversalTransformerConfig

    register_by_chance()
    # Neither 0 nor 1, of which there is no logit.
    probability = min(max(halting_probability(share, steps), 1e-9), 1 - 1e-9)
    return UniversalTransformerConfig(
        hidden_size=hidden_size,
        filter_size=4 * hidden_size,
        num_heads=max(hidden_size // 64, 1),
        halting=BY_CHANCE,
        act_max_steps=steps,
        act_halting_bias_init=math.log(probability / (1 - probability)),
        halting_compute=compute,
    )


def make_recurrence(hidden_size: int, share: float, steps: int, compute: str) -> Any:
    """A recurrence whose positions halt by chance, with random weights."""
    import keras

    from ut_tf.models.universal_transformer.parts import make_recurrence

    keras.utils.set_random_seed(1)
    recurrence = make_recurrence(make_config(hidden_size, share, steps, compute))
    recurrence.build((None, None, hidden_size))
    return recurrence


def searches(
    flags: argparse.Namespace, hidden_size: int, share: float, mode: str, compute: str
) -> Callable[[], float]:
    """A function that decodes a batch once and returns the expected ponder time."""
    config = make_config(hidden_size, share, flags.steps, compute)
    model = make_model("universal_transformer", config, VOCAB_SIZE, "float32")
    search = our_search(
        model, BEAM_SIZES[mode], Shape(flags.batch_size, flags.length, VOCAB_SIZE, flags.length)
    )

    def once() -> float:
        search()
        return share * flags.steps

    return once


def passes(
    flags: argparse.Namespace, hidden_size: int, share: float, mode: str, compute: str
) -> Callable[[], float]:
    """A function that runs the recurrence once and returns the mean ponder time."""
    import tensorflow as tf

    from ut_tf.layers.attention_weights import padding_bias
    from ut_tf.layers.block import BlockContext

    recurrence = make_recurrence(hidden_size, share, flags.steps, compute)
    mask = tf.ones([flags.batch_size, flags.length])
    states = tf.random.normal([flags.batch_size, flags.length, hidden_size], seed=1)
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

    def once() -> float:
        return float([value.numpy() for value in run(states, mask)][1])

    return once


def compare(flags: argparse.Namespace, hidden_size: int, share: float, mode: str) -> dict[str, Any]:
    """Dense and compact in turn."""
    make = searches if mode in BEAM_SIZES else passes
    runs = {
        compute: make(flags, hidden_size, share, mode, compute) for compute in ("dense", "compact")
    }
    means = [run() for run in runs.values()]
    seconds = in_turns(runs, flags.repetitions)
    dense, compact = (statistics.median(seconds[compute]) for compute in runs)
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
    parser.add_argument("--modes", default=",".join(MODES), help="default: %(default)s")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--length", type=int, default=40)
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument(
        "--peak_repetitions", type=int, default=8, help="products for the peak; 0: none"
    )
    flags = parser.parse_args(arguments)
    machine = Machine.now(["float32"], flags.peak_repetitions)
    rows = [
        compare(flags, int(size), float(share) / 100, mode)
        for size in flags.hidden_sizes.split(",")
        for mode in flags.modes.split(",")
        for share in flags.shares.split(",")
    ]
    report(machine.with_peaks_again(), rows, {})
    return 0


if __name__ == "__main__":
    sys.exit(main())
