"""Measures what refilling saves: boards per second in slots that refill, in batches that wait for
their slowest board, and at fixed depth.

How it is used::

    python benchmarks/refill.py                      # 6x6 boards, width 128, 16 steps, mean 3.5
    python benchmarks/refill.py --mean_steps=8 --slots=32 --steps_per_call=2

Weights are random; each board halts by chance, all its cells together, as by ``eval_exit=q``. The
three take turns; the least processor time counts. Milliseconds of a board are from the time at
which its batch, or its slot, takes it. The last line on standard output is JSON.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from halting import halting_probability
from measuring import Machine, report

CELLS, SYMBOLS, BY_CHANCE = 36, 9, "benchmark_board_by_chance"


def register_by_chance() -> None:
    """Registers an exit rule by which all positions of an example exit at once, with the threshold
    as the chance at each step.
    """
    import tensorflow as tf

    from ut_tf import registry
    from ut_tf.models.universal_transformer.exit_rules import ExitRule

    @registry.register_exit_rule(BY_CHANCE)
    class ByChance(ExitRule):
        def start(self, states: Any, vocab_size: int | None) -> Any:
            return tf.zeros_like(states[..., 0], tf.bool)

        def check(self, step: Any, states: Any, carried: Any, logits: Any) -> tuple[Any, Any]:
            draws = tf.random.uniform([tf.shape(states)[0], 1])
            return tf.logical_or(draws < self.threshold, carried), carried


def make_model(flags: argparse.Namespace, **options: Any) -> Any:
    """A network as ``ut_iterated_sudoku6``, of another width, with random weights."""
    import keras

    from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
    from ut_tf.models.universal_transformer.model import UniversalTransformer
    from ut_tf.problem_spec import ProblemSpec

    keras.utils.set_random_seed(1)
    config = UniversalTransformerConfig(
        hidden_size=flags.hidden_size,
        filter_size=4 * flags.hidden_size,
        num_heads=max(flags.hidden_size // 32, 1),
        recurrence_layers=2,
        step_encoding="none",
        eval_num_steps=flags.steps,
        **options,
    )
    return UniversalTransformer(config, ProblemSpec("tokens", "aligned", SYMBOLS, SYMBOLS))


def in_batches(model: Any, boards: Any, size: int) -> Callable[[], list[float]]:
    """A function that answers all boards, and returns the seconds of each."""
    import tensorflow as tf

    call = tf.function(lambda ids: model({"inputs": ids}, training=False), autograph=False)

    def run() -> list[float]:
        seconds = []
        for first in range(0, len(boards), size):
            began = time.perf_counter()
            batch = boards[first : first + size]
            call(tf.constant(batch)).numpy()
            seconds += [time.perf_counter() - began] * len(batch)
        return seconds

    return run


def in_slots(model: Any, boards: Any, size: int, steps_per_call: int) -> Callable[[], list[float]]:
    """The same with slots that refill."""
    from ut_tf.inference.refill import Refill

    refill = Refill(model, size, steps_per_call)

    def run() -> list[float]:
        began: list[float] = []

        def arriving() -> Iterator[dict[str, Any]]:
            for board in boards:
                began.append(time.perf_counter())
                yield {"inputs": board}

        return [time.perf_counter() - began[done.number] for done in refill(arriving())]

    return run


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a table and the same numbers as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hidden_size", type=int, default=128)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--mean_steps", type=float, default=3.5)
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--steps_per_call", type=int, default=1)
    parser.add_argument("--boards", type=int, default=1024)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument(
        "--peak_repetitions", type=int, default=8, help="products for the peak; 0: none"
    )
    flags = parser.parse_args(arguments)
    machine = Machine.now(["float32"], flags.peak_repetitions)
    register_by_chance()
    chance = halting_probability(flags.mean_steps / flags.steps, flags.steps)
    halting = make_model(flags, eval_exit=BY_CHANCE, eval_exit_threshold=chance)
    boards = np.random.default_rng(0).integers(2, SYMBOLS, [flags.boards, CELLS], np.int32)
    runs = {
        "fixed depth": in_batches(make_model(flags), boards, flags.slots),
        "batches that wait": in_batches(halting, boards, flags.slots),
        "slots that refill": in_slots(halting, boards, flags.slots, flags.steps_per_call),
    }
    rows = [{"boards": name, **best} for name, best in measured(runs, flags.repetitions).items()]
    for row in rows:
        row["times fixed"] = round(rows[0]["processor_s"] / row["processor_s"], 2)
    report(machine.with_peaks_again(), rows, vars(flags))
    return 0


def measured(
    runs: dict[str, Callable[[], list[float]]], repetitions: int
) -> dict[str, dict[str, float]]:
    """The least processor seconds of each run, which take turns, with what was seen then."""
    best: dict[str, dict[str, float]] = {}
    for turn in range(repetitions + 1):
        for name, run in runs.items():
            began, clock = time.process_time(), time.perf_counter()
            each = run()
            spent, seconds = time.process_time() - began, time.perf_counter() - clock
            # The first traces graphs.
            if turn and spent < best.get(name, {"processor_s": math.inf})["processor_s"]:
                middle, late = np.percentile(each, [50, 95])
                best[name] = {
                    "processor_s": round(spent, 2),
                    "per_second": round(len(each) / seconds, 1),
                    "p50_ms": round(1e3 * float(middle), 1),
                    "p95_ms": round(1e3 * float(late), 1),
                }
    return best


if __name__ == "__main__":
    sys.exit(main())
