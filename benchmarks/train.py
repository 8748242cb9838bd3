"""Measures the training step: steps per second, and FLOP/s against the machine's peak.

    python benchmarks/train.py  # universal_transformer_tiny, 4 steps, reversal, 2048 tokens
    python benchmarks/train.py --hparams_set=universal_transformer_base --hparams=batch_size=1024

Timed is what ut-trainer does between two log points, without writing. A product of [m, k] and
[k, n] is 2mkn FLOP, the backward pass twice the forward pass. Counted are all matrix products,
padding included. The peak is that of 3000 x 3000 matrices, the best of several before and after the
training. The last line on standard output is JSON with all numbers. They mean something on an idle
machine only, and beside those of a machine with the same flags: see machine.py.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from machine import Machine  # noqa: E402

from ut_tf.config.hparams import HParams  # noqa: E402
from ut_tf.errors import UserError  # noqa: E402
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig  # noqa: E402
from ut_tf.problem_spec import ProblemSpec  # noqa: E402
from ut_tf.run import Run  # noqa: E402
from ut_tf.training.threads import set_threads  # noqa: E402

PEAK_KINDS = {"float32": "float32", "mixed_bfloat16": "bfloat16"}
DEFAULTS = {
    "problem": "algorithmic_reverse_decimal40",
    "hparams_set": "universal_transformer_tiny",
    "hparams": "num_steps=4,batch_size=2048",
}


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


def summary(measurements: Sequence[Measurement], peaks: dict[str, float]) -> dict[str, Any]:
    """The numbers of each dtype policy, ready for JSON."""
    numbers: dict[str, Any] = {}
    for measured in measurements:
        values = {
            "steps": measured.steps,
            "seconds": round(measured.seconds, 2),
            "steps_per_second": round(measured.steps_per_second, 3),
            "tokens_per_second": round(measured.tokens / measured.seconds, 1),
            "cpu_ms_per_step": round(1e3 * measured.cpu_seconds / measured.steps, 1),
            "gflop_per_step": round(measured.flop / measured.steps / 1e9, 2),
            "gflop_per_second": round(measured.flop_per_second / 1e9, 1),
            "padding": round(measured.padding, 3),
            "loss": round(measured.loss, 4),
        }
        for kind in ("float32", PEAK_KINDS.get(measured.dtype_policy, "float32")):
            if kind in peaks:
                values[f"share_of_{kind}_peak"] = round(measured.flop_per_second / peaks[kind], 3)
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
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
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
        help="products before, and after, for the peak; 0: none (default: %(default)s)",
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
    parser.add_argument("--problem_args", default="", help="arguments of the problem")
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
    policies = [policy for policy in flags.dtype_policies.split(",") if policy]
    # Before anything is computed: preparing a problem's data may need TensorFlow.
    set_threads(flags.intra_op_threads, flags.inter_op_threads)
    try:
        runs = [_prepared(flags, policy) for policy in policies]
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    kinds = dict.fromkeys(["float32", *(PEAK_KINDS.get(policy, "float32") for policy in policies)])
    machine = Machine.now(list(kinds), flags.peak_repetitions)
    measurements = [measure_training(run, flags.seconds, flags.warmup_steps) for run in runs]
    machine = machine.with_peaks_again()
    numbers = summary(measurements, machine.peaks)
    print(machine.header())
    print(table(numbers, policies))
    names = (*DEFAULTS, "problem_args", "intra_op_threads", "inter_op_threads")
    settings = {name: getattr(flags, name) for name in names}
    print(json.dumps({**settings, **machine.row(), **numbers}))
    return 0


def _prepared(flags: argparse.Namespace, policy: str) -> Run:
    hparams = ",".join(part for part in (flags.hparams, f"dtype_policy={policy}") if part)
    run = Run.plan(
        flags.problem,
        flags.hparams_set,
        hparams,
        output_dir=os.devnull,
        problem_args=flags.problem_args,
        data_dir=flags.data_dir,
        tmp_dir=flags.tmp_dir,
    )
    check(run.hparams)
    for folder in (run.data_dir, run.tmp_dir):
        folder.mkdir(parents=True, exist_ok=True)
    return run.prepare()


if __name__ == "__main__":
    sys.exit(main())
