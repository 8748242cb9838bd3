"""Measures how an update's time and memory grow with length, batch, width, depth and vocabulary.

    python benchmarks/growth.py                       # five axes, four values each
    python benchmarks/growth.py --axes=length --hparams=halting=basic
    python benchmarks/growth.py --axes=length --model=mem_bottleneck_transformer

An encoder alone, by default of a Universal Transformer, answers at every position of random
symbols. One axis is varied, the others stay. Each point has a process of its own, whose memory is
the most that it held above what TensorFlow takes; its time is the least processor time of an
update. The exponent is the slope of a line through the logarithms: 1 is linear, 2 quadratic. The
last line on standard output is JSON.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from measuring import Machine, add_flags, report, training_update

BASE = {"length": 64, "batch": 8, "width": 128, "depth": 4, "vocabulary": 1000}
AXES = {
    "length": (128, 256, 512, 1024),
    "batch": (8, 16, 32, 64),
    "width": (128, 256, 512, 1024),
    "depth": (4, 8, 16, 32),
    "vocabulary": (4000, 8000, 16000, 32000),
}
SETTINGS = ("model", "hparams", "seconds", "intra_op_threads", "inter_op_threads")


def measure(point: dict[str, int], flags: argparse.Namespace) -> dict[str, float]:
    """Milliseconds of processor time of an update, and megabytes above those of TensorFlow."""
    import tensorflow as tf

    from ut_tf.factories import make_hparams, make_model
    from ut_tf.problem_spec import ProblemSpec

    ids = tf.random.uniform([point["batch"], point["length"]], 2, point["vocabulary"], tf.int32)
    held = _most_megabytes()
    width = point["width"]
    depth = "num_steps" if flags.model == "universal_transformer" else "num_layers"
    sizes = f"hidden_size={width},filter_size={4 * width},{depth}={point['depth']},dropout=0"
    spec = ProblemSpec("tokens", "aligned", *[point["vocabulary"]] * 2, shared_vocab=True)
    changes = ",".join(filter(None, [sizes, flags.hparams]))
    model = make_model(make_hparams("universal_transformer_tiny", changes, flags.model), spec, 0)
    update = training_update(model, ids, ids)
    update()
    times, began = [], time.perf_counter()
    while len(times) < 3 or time.perf_counter() - began < flags.seconds:
        started = time.process_time()
        update()
        times.append(time.process_time() - started)
    return {"ms": 1e3 * min(times), "megabytes": _most_megabytes() - held}


def _most_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def exponent(values: Sequence[float], figures: Sequence[float]) -> float:
    """The slope of the line through the logarithms of figures over values, by least squares."""
    import numpy as np

    return float(np.polyfit(np.log(values), np.log(figures), 1)[0])


def rows_of(axis: str, found: dict[int, dict[str, float]]) -> list[dict[str, Any]]:
    """A row for each value of an axis; the last one has the exponents."""
    names = ("ms", "megabytes")
    rows: list[dict[str, Any]] = [
        {"axis": axis, "value": value, **{name: round(point[name], 1) for name in names}}
        | {f"{name}_exponent": None for name in names}
        for value, point in found.items()
    ]
    for name in names:
        slope = exponent(list(found), [point[name] for point in found.values()])
        rows[-1][f"{name}_exponent"] = round(slope, 2)
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--axes", default=",".join(AXES), help="default: %(default)s")
    parser.add_argument("--model", default="universal_transformer", help="default: %(default)s")
    parser.add_argument("--hparams", default="", help="changes of universal_transformer_tiny")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each point")
    parser.add_argument("--point", help="measures one point in this process: JSON")
    add_flags(parser, intra_op_threads=1)
    flags = parser.parse_args(argv)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if flags.point:
        from ut_tf.training.threads import set_threads

        set_threads(flags.intra_op_threads, flags.inter_op_threads)
        print(json.dumps(measure(json.loads(flags.point), flags)))
        return 0
    machine = Machine.now(["float32"], flags.peak_repetitions)
    rows = []
    for axis in flags.axes.split(","):
        found = {}
        for value in AXES[axis]:
            point = json.dumps({**BASE, axis: value})
            settings = (f"--{name}={getattr(flags, name)}" for name in SETTINGS)
            command = [sys.executable, __file__, f"--point={point}", *settings]
            printed = subprocess.run(command, check=True, stdout=subprocess.PIPE)
            found[value] = json.loads(printed.stdout.splitlines()[-1])
        rows += rows_of(axis, found)
    report(machine.with_peaks_again(), rows, vars(flags))
    return 0


if __name__ == "__main__":
    sys.exit(main())
