"""Measures how a training step's time grows with length, with a memory and with full attention.

    python benchmarks/memory.py  # d 128, 2 layers, 10 memory vectors, 256 to 2048 symbols
    python benchmarks/memory.py --lengths=1024,4096 --hparams=hidden_size=64,memory_size=32

Timed are forward and backward pass, with dropout, and the update of a classifier on random symbols.
The two take turns at each length; a step's time is the median of its turns. Growth is the time over
that at the length before: where the length doubles, 2 is linear and 4 quadratic. The last line on
standard output is JSON. Times mean something on an idle machine only, ratios on most.
"""

import argparse
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from measuring import Machine, add_flags, in_turns, report, training_update  # noqa: E402

from ut_tf import registry  # noqa: E402
from ut_tf.config.hparams import HParams, converted  # noqa: E402
from ut_tf.problem_spec import ProblemSpec  # noqa: E402
from ut_tf.training.threads import set_threads  # noqa: E402

MODELS = ("mem_bottleneck_transformer", "transformer")
SPEC = ProblemSpec(inputs="tokens", targets="class", input_vocab_size=64, target_vocab_size=10)


def training_step(model_name: str, network: Any, length: int) -> Callable[[], None]:
    """A function that updates a new model on one sequence of random symbols."""
    import tensorflow as tf

    model = registry.models.get(model_name)(network, SPEC)
    inputs = tf.random.uniform([1, length], 2, SPEC.input_vocab_size, tf.int32)
    labels = tf.random.uniform([1], 0, SPEC.target_vocab_size, tf.int32)
    return training_update(model, inputs, labels)


def rows_of(times: dict[int, dict[str, float]]) -> list[dict[str, Any]]:
    """One row per length: each model's milliseconds and growth, and the last model's time in times
    of the first one's.
    """
    rows: list[dict[str, Any]] = []
    before: dict[str, float] = {}
    for length, seconds in times.items():
        row: dict[str, Any] = {"length": length}
        for model, value in seconds.items():
            row[f"{model}_ms"] = round(1e3 * value, 2)
            row[f"{model}_growth"] = round(value / before[model], 2) if before else None
        first, *_, last = seconds.values()
        rows.append({**row, "ratio": round(last / first, 2)})
        before = seconds
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lengths", default="256,512,1024,2048", help="default: %(default)s")
    parser.add_argument("--hparams", default="num_layers=2", help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each length")
    add_flags(parser, intra_op_threads=1)
    flags = parser.parse_args(argv)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    set_threads(flags.intra_op_threads, flags.inter_op_threads)
    hparams = HParams(MODELS[0]).override(flags.hparams)
    networks = {name: converted(hparams, name)[0].resolve().network for name in MODELS}
    machine = Machine.now(["float32"], flags.peak_repetitions)
    times = {}
    for length in map(int, flags.lengths.split(",")):
        steps = {name: training_step(name, networks[name], length) for name in MODELS}
        seconds = in_turns(steps, 1, flags.seconds)
        times[length] = {name: statistics.median(values) for name, values in seconds.items()}
    report(machine.with_peaks_again(), rows_of(times), vars(flags))
    return 0


if __name__ == "__main__":
    sys.exit(main())
