"""Measures how a training step's time grows with length, with a memory and with full attention.

    python benchmarks/memory.py  # d 128, 2 layers, 10 memory vectors, 256 to 2048 symbols
    python benchmarks/memory.py --lengths=1024,4096 --hparams=hidden_size=64,memory_size=32

Timed are forward and backward pass, with dropout, and the update of a classifier on random symbols.
Models take turns at each length; a step's time is the median of its turns. Growth is the time over
that at the length before: where the length doubles, 2 is linear and 4 quadratic. The last line on
standard output is JSON with all numbers. Times mean something on an idle machine only, ratios on
most.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from machine import Machine  # noqa: E402

from ut_tf import registry  # noqa: E402
from ut_tf.config.hparams import HParams, converted  # noqa: E402
from ut_tf.errors import UserError  # noqa: E402
from ut_tf.problem_spec import ProblemSpec  # noqa: E402
from ut_tf.training.threads import set_threads  # noqa: E402

MODELS = ("mem_bottleneck_transformer", "transformer")
SPEC = ProblemSpec(inputs="tokens", targets="class", input_vocab_size=64, target_vocab_size=10)


def training_step(
    model_name: str, network: Any, batch_size: int, length: int
) -> Callable[[], None]:
    """A function that trains a new model on one batch of random symbols and waits for its end."""
    import keras
    import tensorflow as tf

    model = registry.models.get(model_name)(network, SPEC)
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)
    inputs = tf.random.uniform([batch_size, length], 2, SPEC.input_vocab_size, tf.int32)
    labels = tf.random.uniform([batch_size], 0, SPEC.target_vocab_size, tf.int32)

    @tf.function(autograph=False)
    def update() -> Any:
        with tf.GradientTape() as tape:
            logits = model({"inputs": inputs}, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    return lambda: update().numpy()


def measure(steps: dict[str, Callable[[], None]], seconds: float) -> dict[str, float]:
    """The median time of each step, in seconds; they take turns for about `seconds` in all, at
    least once each.
    """
    times: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        step()
    began = time.perf_counter()
    while not all(times.values()) or time.perf_counter() - began < seconds:
        for name, step in steps.items():
            started = time.perf_counter()
            step()
            times[name].append(time.perf_counter() - started)
    return {name: statistics.median(seconds_of) for name, seconds_of in times.items()}


def rows_of(times: dict[int, dict[str, float]], models: Sequence[str]) -> list[dict[str, Any]]:
    """One row per length: each model's milliseconds and growth, and the last model's time in times
    of the first one's.
    """
    rows: list[dict[str, Any]] = []
    before: dict[str, float] = {}
    for length, times_of in times.items():
        row: dict[str, Any] = {"length": length}
        for model in models:
            row[f"{model}_ms"] = round(1e3 * times_of[model], 2)
            row[f"{model}_growth"] = round(times_of[model] / before[model], 2) if before else None
        row["ratio"] = round(times_of[models[-1]] / times_of[models[0]], 2)
        rows.append(row)
        before = times_of
    return rows


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as aligned lines."""
    cells = [
        list(rows[0]),
        *[["" if value is None else str(value) for value in row.values()] for row in rows],
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    return "\n".join("  ".join(map(str.rjust, line, widths)) for line in cells)


def numbers(text: str) -> list[int]:
    """The whole numbers in "256,512"."""
    return [int(number) for number in text.split(",")]


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The flags' values."""
    parser = argparse.ArgumentParser(
        description="Measures how a training step's time grows with the length of the inputs."
    )
    parser.add_argument(
        "--lengths",
        type=numbers,
        default="256,512,1024,2048",
        help="symbols (default: %(default)s)",
    )
    parser.add_argument(
        "--models",
        default=",".join(MODELS),
        help="compared with the first one (default: %(default)s)",
    )
    parser.add_argument(
        "--hparams",
        default="num_layers=2",
        help="changes of the default network (default: %(default)s)",
    )
    parser.add_argument("--batch_size", type=int, default=1, help="examples (default: %(default)s)")
    parser.add_argument(
        "--seconds",
        type=float,
        default=10.0,
        help="wall time for each length (default: %(default)s)",
    )
    parser.add_argument(
        "--peak_repetitions",
        type=int,
        default=4,
        help="products before, and after, for the peak; 0: none (default: %(default)s)",
    )
    parser.add_argument(
        "--intra_op_threads",
        type=int,
        default=1,
        help="threads per operation (default: %(default)s)",
    )
    parser.add_argument(
        "--inter_op_threads",
        type=int,
        default=os.cpu_count(),
        help="operations at once (default: the cores)",
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    flags = parse(argv)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        run(flags)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def run(flags: argparse.Namespace) -> None:
    """Measures and prints; raises UserError where a model is unknown, or refuses its network or
    what is asked of it here.
    """
    models = flags.models.split(",")
    for model in models:
        registry.models.check(model)
    hparams = HParams(models[0]).override(flags.hparams)
    networks = {name: converted(hparams, name)[0].resolve().network for name in models}
    machine = Machine.now(["float32"], flags.peak_repetitions)
    set_threads(flags.intra_op_threads, flags.inter_op_threads)
    times = {}
    for length in flags.lengths:
        times[length] = measure(
            {
                model: training_step(model, networks[model], flags.batch_size, length)
                for model in models
            },
            flags.seconds,
        )
    machine = machine.with_peaks_again()
    rows = rows_of(times, models)
    settings = {
        name: getattr(flags, name)
        for name in ("hparams", "batch_size", "intra_op_threads", "inter_op_threads")
    }
    print(machine.header())
    print(table(rows))
    print(json.dumps({**settings, **machine.row(), "rows": rows}))


if __name__ == "__main__":
    sys.exit(main())
