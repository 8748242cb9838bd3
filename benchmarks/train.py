"""Measures the training step: steps per second, and FLOP/s against the machine's peak.

    python benchmarks/train.py  # universal_transformer_tiny, 4 steps, reversal, 2048 tokens
    python benchmarks/train.py --hparams_set=universal_transformer_base --hparams=batch_size=1024

Timed is what ut-trainer does between two log points, without writing. A product of [m, k] and
[k, n] is 2mkn FLOP, the backward pass twice the forward pass. Counted are all matrix products,
padding included. The peak is that of 3000 x 3000 matrices, the best of several before and after the
training. The last line on standard output is JSON with all numbers. They mean something on an idle
machine only: the load average is printed beside them, with a warning where others are at work.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ut_tf.config.hparams import HParams
from ut_tf.errors import UserError
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
from ut_tf.problem_spec import ProblemSpec
from ut_tf.run import Run
from ut_tf.training.threads import set_threads

PEAK_SIZE = 3000
BUSY_LOAD = 0.5
PEAK_KINDS = {"float32": "float32", "mixed_bfloat16": "bfloat16"}
DEFAULTS = {
    "problem": "algorithmic_reverse_decimal40",
    "hparams_set": "universal_transformer_tiny",
    "hparams": "num_steps=4,batch_size=2048",
}
# tensor2tensor 1.15.7 with the default settings above, on a machine of this float32 peak.
TENSOR2TENSOR_STEPS_PER_SECOND = 3.16
TENSOR2TENSOR_PEAK = 217e9


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One training that was timed.

    Fields:
      dtype_policy: float32, mixed_bfloat16 or mixed_float16.
      steps: updates.
      seconds: wall time of them all.
      cpu_seconds: processor time of this process, all threads together.
      flop: matrix multiplications of them all.
      tokens: targets that are not padding.
      padding: share of the batches' target positions that is padding.
      loss: of the last update.
    """

    dtype_policy: str
    steps: int
    seconds: float
    cpu_seconds: float
    flop: float
    tokens: float
    padding: float
    loss: float

    @property
    def steps_per_second(self) -> float:
        return self.steps / self.seconds

    @property
    def flop_per_second(self) -> float:
        return self.flop / self.seconds


def training_flop(
    network: UniversalTransformerConfig,
    spec: ProblemSpec,
    batch: int,
    length: int,
    target_length: int,
) -> int:
    """The matrix multiplications of one forward and backward pass, in FLOP.

    Args:
      network: of a fixed depth.
      spec: of the problem.
      batch: examples.
      length: of the padded inputs; 0 without inputs.
      target_length: of the padded targets; 0 for classes.
    """
    width, steps = network.hidden_size, network.num_steps
    decodes = spec.targets == "tokens"
    products = steps * _block_products(network, batch, length, 0) if spec.inputs != "none" else 0
    if decodes:
        memory = length if spec.inputs != "none" else 0
        products += steps * _block_products(network, batch, target_length, memory)
        # Keys and values of the encoder's states serve all steps.
        products += batch * memory * 2 * width**2
    products += batch * (target_length if decodes else 1) * width * spec.target_vocab_size
    return 3 * 2 * products


def _block_products(
    network: UniversalTransformerConfig, batch: int, length: int, memory: int
) -> int:
    """The multiplications of one recurrent step's forward pass over `length` positions that also
    read `memory` others.
    """
    width, positions = network.hidden_size, batch * length
    attention = positions * (4 * width**2 + 2 * length * width)
    if memory:
        attention += positions * (2 * width**2 + 2 * memory * width)
    if network.recurrence == "basic":
        return attention + positions * 2 * width * network.filter_size
    gates = {"gru": 3, "lstm": 4}[network.recurrence]
    return attention + positions * gates * 2 * width**2


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
    """Returns ``measure_peak`` of each kind in a process of its own, with all threads, whatever
    this process is set to.
    """
    command = [
        sys.executable,
        __file__,
        f"--only_peak={','.join(kinds)}",
        f"--peak_repetitions={repetitions}",
    ]
    printed = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ).stdout
    peaks: dict[str, float] = json.loads(printed.splitlines()[-1])
    return peaks


def measure_training(run: Run, seconds: float, warmup_steps: int) -> Measurement:
    """Trains a new model on the run's problem for about `seconds` and says how fast that was.

    Args:
      run: with prepared data.
      seconds: wall time to measure for; at least one update.
      warmup_steps: updates before, the first of which traces the step.
    """
    import keras

    from ut_tf.data.pipeline import train_batches
    from ut_tf.training.batches import TrainingBatches
    from ut_tf.training.distribution import Workers, make_strategy
    from ut_tf.training.optimizer import Optimizer
    from ut_tf.training.step import TrainingStep

    assert run.spec is not None
    hparams, problem, workers = run.hparams, run.make_problem(), Workers.of(make_strategy(0))
    keras.utils.set_random_seed(run.seed)
    model = run.make_model()
    optimizer = Optimizer(model.trainable_variables, hparams.training, hparams.network.hidden_size)

    def make_dataset(epoch: int, skip_batches: int) -> Any:
        return train_batches(
            problem, run.data_dir, hparams.training, 1, run.seed, epoch, skip_batches
        )

    batches = TrainingBatches(make_dataset, workers)
    step = TrainingStep(model, optimizer, hparams, workers, batches.element_spec)
    flop, positions = 0, 0
    pending: list[Any] = []
    try:
        step.read([step.update([batches.next()]) for _ in range(max(warmup_steps, 1))])
        began, cpu_began = time.perf_counter(), time.process_time()
        while not pending or time.perf_counter() - began < seconds:
            batch = batches.next()
            pending.append(step.update([batch]))
            size, length, target_length = _shape(batch)
            flop += training_flop(hparams.network, run.spec, size, length, target_length)
            positions += size * max(target_length, 1)
        reports = step.read(pending)
        elapsed, cpu_elapsed = time.perf_counter() - began, time.process_time() - cpu_began
    finally:
        batches.close()
    tokens = sum(report.tokens for report in reports)
    policy = hparams.training.dtype_policy
    return Measurement(
        policy,
        len(pending),
        elapsed,
        cpu_elapsed,
        flop,
        tokens,
        1.0 - tokens / positions,
        reports[-1].loss,
    )


def _shape(batch: dict[str, Any]) -> tuple[int, int, int]:
    """Returns (examples, length of the inputs or 0, length of the targets or 0) of a
    padded batch.
    """
    length = int(batch["inputs"].shape[1]) if "inputs" in batch else 0
    targets = batch["targets"].shape
    return int(targets[0]), length, int(targets[1]) if targets.rank > 1 else 0


def check(hparams: HParams) -> None:
    """Raises UserError where the depth, and so the number of operations, is not known beforehand,
    or batches are added up.
    """
    if hparams.network.halting != "none" or hparams.network.steps_per_position:
        raise UserError(
            "hparams: FLOP are counted for a fixed depth; set halting=none and"
            " steps_per_position=0."
        )
    if hparams.training.accumulate_steps > 1:
        raise UserError(
            f"accumulate_steps={hparams.training.accumulate_steps}: one batch makes one step here;"
            " set it to 1."
        )


def summary(
    measurements: Sequence[Measurement], peaks: dict[str, float], reference: bool
) -> dict[str, Any]:
    """All numbers, ready for JSON; with `reference`, beside tensor2tensor's speed scaled by the
    float32 peak.
    """
    numbers: dict[str, Any] = {
        "peak_gflop_per_second": {kind: round(peak / 1e9, 1) for kind, peak in peaks.items()}
    }
    scale = peaks["float32"] / TENSOR2TENSOR_PEAK
    if reference:
        numbers["tensor2tensor_steps_per_second"] = round(scale * TENSOR2TENSOR_STEPS_PER_SECOND, 3)
    for measured in measurements:
        values = {
            "steps": measured.steps,
            "seconds": round(measured.seconds, 2),
            "steps_per_second": round(measured.steps_per_second, 3),
            "tokens_per_second": round(measured.tokens / measured.seconds, 1),
            "cpu_ms_per_step": round(1e3 * measured.cpu_seconds / measured.steps, 1),
            "gflop_per_step": round(measured.flop / measured.steps / 1e9, 2),
            "gflop_per_second": round(measured.flop_per_second / 1e9, 1),
            "share_of_float32_peak": round(measured.flop_per_second / peaks["float32"], 3),
            "padding": round(measured.padding, 3),
            "loss": round(measured.loss, 4),
        }
        kind = PEAK_KINDS.get(measured.dtype_policy, "float32")
        if kind != "float32":
            values[f"share_of_{kind}_peak"] = round(measured.flop_per_second / peaks[kind], 3)
        if reference:
            values["times_tensor2tensor"] = round(
                measured.steps_per_second / (scale * TENSOR2TENSOR_STEPS_PER_SECOND), 2
            )
        numbers[measured.dtype_policy] = values
    return numbers


def table(numbers: dict[str, Any], policies: Sequence[str]) -> str:
    """The numbers as lines: a row for each quantity, a column for each dtype policy."""
    names = list(dict.fromkeys(name for policy in policies for name in numbers[policy]))
    rows = [
        ["", *policies],
        *[[name, *[str(numbers[policy].get(name, "")) for policy in policies]] for name in names],
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    ]
    peaks = ", ".join(f"{kind} {peak}" for kind, peak in numbers["peak_gflop_per_second"].items())
    return "\n".join(
        [
            (
                f"peak in GFLOP/s, {PEAK_SIZE} x {PEAK_SIZE}: {peaks}; load average"
                f" {numbers['load_average']}"
            ),
            *lines,
        ]
    )


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The flags' values."""
    parser = argparse.ArgumentParser(
        description="Measures the training step and the machine's matrix multiplication peak."
    )
    for name, default in DEFAULTS.items():
        parser.add_argument(f"--{name}", default=default, help=f"default: {default}")
    parser.add_argument(
        "--dtype_policies",
        default="float32,mixed_bfloat16",
        help="measured one after the other (default: %(default)s)",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=20.0,
        help="wall time of each measurement (default: %(default)s)",
    )
    parser.add_argument(
        "--warmup_steps",
        type=int,
        default=40,
        help="updates before each measurement (default: %(default)s)",
    )
    parser.add_argument(
        "--peak_repetitions",
        type=int,
        default=8,
        help="products before, and after, for the peak (default: %(default)s)",
    )
    parser.add_argument(
        "--intra_op_threads",
        type=int,
        default=1,
        help="threads per operation in training (default: %(default)s)",
    )
    parser.add_argument(
        "--inter_op_threads",
        type=int,
        default=os.cpu_count(),
        help="operations at once (default: the cores)",
    )
    parser.add_argument(
        "--only_peak", default="", help="print the peak of these kinds and do nothing else"
    )
    parser.add_argument(
        "--data_dir", default=None, help="where prepared data lies (default: as ut-trainer)"
    )
    parser.add_argument(
        "--tmp_dir", default=None, help="where downloaded archives lie (default: as ut-trainer)"
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    flags = parse(argv)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if flags.only_peak:
        print(
            json.dumps(
                {
                    kind: measure_peak(kind, flags.peak_repetitions)
                    for kind in flags.only_peak.split(",")
                }
            )
        )
        return 0
    policies = [policy for policy in flags.dtype_policies.split(",") if policy]
    try:
        runs = [_prepared(flags, policy) for policy in policies]
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    load = os.getloadavg()[0]
    if load > BUSY_LOAD:
        print(
            f"warning: the load average is {load:.1f}: with others at work here, neither peak nor"
            " speed means much.",
            file=sys.stderr,
        )
    kinds = dict.fromkeys(["float32", *(PEAK_KINDS.get(policy, "float32") for policy in policies)])
    before = machine_peaks(list(kinds), flags.peak_repetitions)
    set_threads(flags.intra_op_threads, flags.inter_op_threads)
    measurements = [measure_training(run, flags.seconds, flags.warmup_steps) for run in runs]
    after = machine_peaks(list(kinds), flags.peak_repetitions)
    peaks = {kind: max(peak, after[kind]) for kind, peak in before.items()}
    reference = all(getattr(flags, name) == default for name, default in DEFAULTS.items())
    settings = {
        name: getattr(flags, name) for name in (*DEFAULTS, "intra_op_threads", "inter_op_threads")
    }
    numbers = {
        **settings,
        "load_average": round(load, 2),
        **summary(measurements, peaks, reference),
    }
    print(table(numbers, policies))
    print(json.dumps(numbers))
    return 0


def _prepared(flags: argparse.Namespace, policy: str) -> Run:
    hparams = ",".join(part for part in (flags.hparams, f"dtype_policy={policy}") if part)
    run = Run.plan(
        flags.problem,
        flags.hparams_set,
        hparams,
        output_dir=os.devnull,
        data_dir=flags.data_dir,
        tmp_dir=flags.tmp_dir,
    )
    check(run.hparams)
    for folder in (run.data_dir, run.tmp_dir):
        folder.mkdir(parents=True, exist_ok=True)
    return run.prepare()


if __name__ == "__main__":
    sys.exit(main())
