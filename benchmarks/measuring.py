"""Frame of the benchmarks: the machine that they measure on, timing in turns, and their output.

::

    add_flags(parser, intra_op_threads=1)               # of threads and of the peak
    machine = Machine.now(["float32"], repetitions=8)   # before what is measured
    seconds = in_turns({"a": first, "b": second}, repetitions=3)
    report(machine.with_peaks_again(), rows, settings)  # after it: the better peaks count

Times of machines with different flags of the processor cannot be compared.
"""

import argparse
import dataclasses
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ut_tf.config.processor import speed_flags

PEAK_SIZE = 3000
BUSY_LOAD = 0.5


@dataclasses.dataclass(frozen=True)
class Machine:
    """The machine at the time of a measurement.

    Fields:
      load_average: of the minute before the start.
      peaks: FLOP/s of matrix products, by dtype; empty: not measured.
      repetitions: products for each peak.
    """

    load_average: float
    peaks: dict[str, float]
    repetitions: int

    @classmethod
    def now(cls, kinds: Sequence[str], repetitions: int) -> "Machine":
        """The machine before a measurement, with a warning on standard error if it is busy.

        Args:
          kinds: dtypes of the products.
          repetitions: products for each peak; 0: no peak is measured.
        """
        load = os.getloadavg()[0]
        if load > BUSY_LOAD:
            print(
                f"warning: the load average is {load:.1f}: with others at work here, neither peak"
                " nor speed means much.",
                file=sys.stderr,
            )
        return cls(load, machine_peaks(kinds, repetitions) if repetitions else {}, repetitions)

    def with_peaks_again(self) -> "Machine":
        """The machine with the better of its peaks and those of now."""
        if not self.peaks:
            return self
        again = machine_peaks(list(self.peaks), self.repetitions)
        peaks = {kind: max(peak, again[kind]) for kind, peak in self.peaks.items()}
        return dataclasses.replace(self, peaks=peaks)

    def row(self) -> dict[str, Any]:
        """The numbers, ready for JSON."""
        return {
            "cores": os.cpu_count(),
            "flags": speed_flags(),
            "load_average": round(self.load_average, 2),
            "peak_gflop_per_second": {
                kind: round(peak / 1e9, 1) for kind, peak in self.peaks.items()
            },
        }

    def header(self) -> str:
        """The numbers as one line."""
        row = self.row()
        flags = " ".join(row["flags"]) or "unknown"
        peaks = ", ".join(f"{kind} {peak}" for kind, peak in row["peak_gflop_per_second"].items())
        return (
            f"{row['cores']} cores; flags {flags}; peak in GFLOP/s, {PEAK_SIZE} x {PEAK_SIZE}:"
            f" {peaks or 'not measured'}; load average {row['load_average']}"
        )


def measure_peak(kind: str, repetitions: int) -> float:
    """The best FLOP/s of `repetitions` products of two 3000 x 3000 matrices of dtype `kind`."""
    import tensorflow as tf

    matrix = tf.cast(tf.random.normal([PEAK_SIZE, PEAK_SIZE]), kind)
    multiply = tf.function(lambda a, b: tf.reduce_sum(tf.matmul(a, b)[:1, :1]))
    multiply(matrix, matrix).numpy()
    best = math.inf
    for _ in range(repetitions):
        began = time.perf_counter()
        multiply(matrix, matrix).numpy()
        best = min(best, time.perf_counter() - began)
    return float(2 * PEAK_SIZE**3 / best)


def machine_peaks(kinds: Sequence[str], repetitions: int) -> dict[str, float]:
    """``measure_peak`` of each kind in its own process, with all threads whatever this one has."""
    command = [sys.executable, __file__, ",".join(kinds), str(repetitions)]
    printed = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ).stdout
    peaks: dict[str, float] = json.loads(printed.splitlines()[-1])
    return peaks


def in_turns(
    calls: Mapping[str, Callable[[], object]], repetitions: int, seconds: float = 0.0
) -> dict[str, list[float]]:
    """The seconds of each call, which take turns.

    Args:
      calls: by name; each is called once before anything is timed.
      repetitions: turns at least.
      seconds: that the turns go on for at least.
    """
    for call in calls.values():
        call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    began, turns = time.perf_counter(), 0
    while turns < repetitions or time.perf_counter() - began < seconds:
        turns += 1
        for name, call in calls.items():
            started = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - started)
    return times


def training_update(model: Any, inputs: Any, labels: Any) -> Callable[[], None]:
    """A function that updates a new model by Adam on one batch, as one graph.

    Args:
      model: keras.Model that takes {"inputs": ids}.
      inputs: int32 [batch, length].
      labels: int32 of the shape of the logits without their last axis.
    """
    import keras
    import tensorflow as tf

    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)

    @tf.function(autograph=False)
    def update() -> Any:
        with tf.GradientTape() as tape:
            logits = model({"inputs": inputs}, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    return lambda: update().numpy()


def add_flags(parser: argparse.ArgumentParser, intra_op_threads: int | None = None) -> None:
    """Adds the flags of threads and of the peak."""
    cores = os.cpu_count()
    parser.add_argument(
        "--peak_repetitions", type=int, default=8, help="products for the peak; 0: none"
    )
    parser.add_argument(
        "--intra_op_threads",
        type=int,
        default=intra_op_threads or cores,
        help="threads per operation",
    )
    parser.add_argument("--inter_op_threads", type=int, default=cores, help="operations at once")


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as aligned lines below their names; the first column stands to the left."""
    names = list(rows[0])
    cells = [[row.get(name) for name in names] for row in rows]
    sides = ["left", *["right"] * (len(names) - 1)]
    return tabulate(cells, names, tablefmt="plain", disable_numparse=True, colalign=sides)


def report(
    machine: Machine, rows: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]
) -> None:
    """Prints the machine, the table, and a line of JSON with all of it."""
    print(machine.header())
    print(table(rows))
    print(json.dumps({**settings, **machine.row(), "rows": rows}))


if __name__ == "__main__":
    names, count = sys.argv[1:]
    print(json.dumps({name: measure_peak(name, int(count)) for name in names.split(",")}))
