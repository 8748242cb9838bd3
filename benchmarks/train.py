"""Measures the training step: steps per second, and FLOP/s against the machine's peak.

    python benchmarks/train.py  # universal_transformer_tiny, 4 steps, reversal, 2048 tokens
    python benchmarks/train.py --hparams_set=ut_small --hparams=num_steps=6,batch_size=1024
    python benchmarks/train.py --peers=pytorch,pytorch_bfloat16,jax,jax_bfloat16

Timed is what ut-trainer does between two log points, without writing. A product of [m, k] and
[k, n] is 2mkn FLOP, the backward pass twice the forward pass. Counted are all matrix products,
padding included. The peak is that of 3000 x 3000 matrices (measuring.py). With peers, all take
turns on the same few batches, held in memory. The last line is JSON with
all numbers; they mean something on an idle machine only.
"""

import argparse
import contextlib
import dataclasses
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from measuring import Machine, add_flags, table
from peers import processes

from ut_tf.config.hparams import HParams
from ut_tf.errors import UserError
from ut_tf.run import Run
from ut_tf.training.threads import set_threads

PEAK_KINDS = {"float32": "float32", "mixed_bfloat16": "bfloat16"}
DEFAULTS = {
    "problem": "algorithmic_reverse_decimal40",
    "hparams_set": "universal_transformer_tiny",
    "hparams": "num_steps=4,batch_size=2048",
}


@dataclasses.dataclass(frozen=True)
class Measurement:
    """Updates that were timed.

    Fields:
      steps: updates.
      seconds: wall time of them all.
      cpu_seconds: processor time of the process, all threads together.
      flop: matrix multiplications of them all.
      tokens: targets that are not padding.
      positions: targets with padding.
      loss: of the last update.
    """

    steps: int
    seconds: float
    cpu_seconds: float
    flop: float
    tokens: float
    positions: float
    loss: float

    @property
    def flop_per_second(self) -> float:
        return self.flop / self.seconds

    def __add__(self, later: "Measurement") -> "Measurement":
        """Both together; the loss is the later one's."""
        names = [field.name for field in dataclasses.fields(self) if field.name != "loss"]
        sums = {name: getattr(self, name) + getattr(later, name) for name in names}
        return Measurement(**sums, loss=later.loss)


def in_turns(
    measures: dict[str, Callable[[float], Measurement]], seconds: float, rounds: int
) -> dict[str, Measurement]:
    """The sums of `rounds` measurements of each, by turns; `seconds`: those of each in all."""
    totals: dict[str, Measurement] = {}
    for _ in range(rounds):
        for name, measure in measures.items():
            measured = measure(seconds / rounds)
            totals[name] = totals[name] + measured if name in totals else measured
    return totals


def ratio_to_peer(own: Measurement, other: Measurement) -> dict[str, float]:
    """The FLOP per second, and per second of processor time, in times of a peer's: batches differ
    in their padding, which costs as much as symbols.
    """
    processor = (own.flop / own.cpu_seconds) / (other.flop / other.cpu_seconds)
    return {
        "ratio": round(own.flop_per_second / other.flop_per_second, 3),
        "processor_time_ratio": round(processor, 3),
    }


class Training:
    """The training of a new model on a run's problem, as ut-trainer does it.

    Args:
      run: with prepared data.
      warmup_steps: updates before any is timed, the first of which traces the step.
    """

    def __init__(self, run: Run, warmup_steps: int) -> None:
        import keras

        from ut_tf.data.pipeline import train_batches
        from ut_tf.training.batches import TrainingBatches
        from ut_tf.training.distribution import Workers, make_strategy
        from ut_tf.training.optimizer import Optimizer
        from ut_tf.training.step import TrainingStep

        training, problem = run.hparams.training, run.make_problem()
        workers = Workers.of(make_strategy(0))
        keras.utils.set_random_seed(run.seed)
        self._model = run.make_model()
        self._flop_of: dict[Any, float] = {}
        width = run.hparams.network.hidden_size
        optimizer = Optimizer(self._model.trainable_variables, training, width)

        def make_dataset(epoch: int, skip_batches: int) -> Any:
            return train_batches(problem, run.data_dir, training, 1, run.seed, epoch, skip_batches)

        self._batches = TrainingBatches(make_dataset, workers)
        self._next = self._batches.next
        spec = self._batches.element_spec
        self._step = TrainingStep(self._model, optimizer, run.hparams, workers, spec)
        self.update(max(warmup_steps, 1))

    def update(self, steps: int) -> None:
        """Updates the weights so often, and waits for the end."""
        self._step.read([self._step.update([self._next()])[0] for _ in range(steps)])

    def measure(self, seconds: float) -> Measurement:
        """Goes on for about `seconds`, at least one update, and says how fast that was."""
        pending, shapes = [], []
        began, cpu_began = time.perf_counter(), time.process_time()
        while not pending or time.perf_counter() - began < seconds:
            batch = self._next()
            pending.append(self._step.update([batch])[0])
            shapes.append(_shapes(batch))
        reports = self._step.read(pending)
        seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
        return Measurement(
            steps=len(pending),
            seconds=seconds,
            cpu_seconds=cpu_seconds,
            flop=sum(map(self._flop, shapes)),
            tokens=sum(report.tokens for report in reports),
            positions=sum(dict(shape)["targets"].shape.num_elements() for shape in shapes),
            loss=reports[-1].loss,
        )

    def repeat_batches(self, count: int) -> list[tuple[int, dict[str, Any]]]:
        """Trains on the next batches alone from now on, on each twice at once, so that their shapes
        are traced. Returns them, of numpy arrays, each with its FLOP.
        """
        batches = [self._batches.next() for _ in range(count)]
        self._next = itertools.cycle(batches).__next__
        self.update(2 * count)
        return [
            (
                int(self._flop(_shapes(batch))),
                {name: batch[name].numpy() for name in ("inputs", "targets")},
            )
            for batch in batches
        ]

    def _flop(self, shapes: Any) -> float:
        """The FLOP of a forward and a backward pass, which has two products for each."""
        from ut_tf.models.graph_flop import call_flop

        if shapes not in self._flop_of:
            self._flop_of[shapes] = 3 * call_flop(self._model, dict(shapes), {})
        return self._flop_of[shapes]

    def close(self) -> None:
        """Ends the reading of batches."""
        self._batches.close()


def _shapes(batch: dict[str, Any]) -> Any:
    """The shapes and dtypes of what the model reads of a padded batch, by name."""
    import tensorflow as tf

    read = [(name, batch[name]) for name in ("inputs", "targets") if name in batch]
    return tuple((name, tf.TensorSpec(value.shape, value.dtype)) for name, value in read)


def check(hparams: HParams) -> None:
    """Raises UserError where the number of operations is unknown or batches are added up."""
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


def summary(measurements: dict[str, Measurement], peaks: dict[str, float]) -> dict[str, Any]:
    """The numbers of each dtype policy and peer, ready for JSON."""
    numbers: dict[str, Any] = {}
    for name, measured in measurements.items():
        values = {
            "steps": measured.steps,
            "seconds": round(measured.seconds, 2),
            "steps_per_second": round(measured.steps / measured.seconds, 3),
            "tokens_per_second": round(measured.tokens / measured.seconds, 1),
            "cpu_ms_per_step": round(1e3 * measured.cpu_seconds / measured.steps, 1),
            "gflop_per_step": round(measured.flop / measured.steps / 1e9, 2),
            "gflop_per_second": round(measured.flop_per_second / 1e9, 1),
            "padding": round(1.0 - measured.tokens / measured.positions, 3),
            "loss": round(measured.loss, 4),
        }
        peer = processes.PEERS.get(name)
        for kind in ("float32", PEAK_KINDS.get(peer.policy if peer else name, "float32")):
            if kind in peaks:
                values[f"share_of_{kind}_peak"] = round(measured.flop_per_second / peaks[kind], 3)
        numbers[name] = values
    return numbers


def transpose(numbers: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each quantity, a column for each dtype policy and peer."""
    names = dict.fromkeys(name for values in numbers.values() for name in values)
    return [
        {"": name, **{column: values.get(name) for column, values in numbers.items()}}
        for name in names
    ]


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The flags' values."""
    parser = argparse.ArgumentParser(
        description="Measures the training step and the machine's matrix multiplication peak."
    )
    for name, default in DEFAULTS.items():
        parser.add_argument(f"--{name}", default=default, help=f"default: {default}")
    peers = f"measured in turns with the library: {','.join(processes.PEERS)}"
    for name, value, meaning in (
        ("dtype_policies", "float32,mixed_bfloat16", "measured one after the other"),
        ("peers", "", peers),
        ("peer_threads", os.cpu_count() or 1, "threads of each operation of the peers"),
        ("peer_batches", 16, "batches that all train on in turn beside peers"),
        ("seconds", 20.0, "wall time of each dtype policy and peer"),
        ("rounds", 4, "turns that these seconds are cut into"),
        ("warmup_steps", 40, "updates before each measurement"),
        ("problem_args", "", "arguments of the problem"),
    ):
        shown = f"{meaning} (default: {value or 'none'})"
        parser.add_argument(f"--{name}", type=type(value), default=value, help=shown)
    for name in ("data_dir", "tmp_dir"):
        parser.add_argument(f"--{name}", help="default: as ut-trainer")
    add_flags(parser, intra_op_threads=1)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    flags = parse(argv)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    policies = [policy for policy in flags.dtype_policies.split(",") if policy]
    # Before anything is computed: preparing a problem's data may need TensorFlow.
    set_threads(flags.intra_op_threads, flags.inter_op_threads)
    try:
        runs = {policy: prepare(flags, policy) for policy in policies}
        peers, missing = _peers(flags, runs)
        for sentence in missing.values():
            print(f"warning: {sentence}", file=sys.stderr)
        kinds = dict.fromkeys(["float32", *(PEAK_KINDS.get(name, "float32") for name in policies)])
        machine = Machine.now(list(kinds), flags.peak_repetitions)
        measurements = _measure(flags, runs, peers)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    machine = machine.with_peaks_again()
    numbers = summary(measurements, machine.peaks)
    print(machine.header())
    print(table(transpose(numbers)))
    for name in peers:
        policy = processes.PEERS[name].policy
        ratio = ratio_to_peer(measurements[policy], measurements[name])
        print(f"{policy} trains {ratio['ratio']} times as fast as {name}")
        numbers[name].update(ratio)
    names = (*DEFAULTS, "problem_args", "intra_op_threads", "inter_op_threads", "peer_threads")
    settings = {name: getattr(flags, name) for name in names}
    unavailable = {"unavailable": missing} if missing else {}
    print(json.dumps({**settings, **machine.row(), **numbers, **unavailable}))
    return 0


def _peers(flags: argparse.Namespace, runs: dict[str, Run]) -> tuple[list[str], dict[str, str]]:
    """The peers that can run here, and why others cannot."""
    names = [name for name in flags.peers.split(",") if name]
    if not names:
        return [], {}
    names, missing = processes.available(names)
    for name in names:
        policy = processes.PEERS[name].policy
        if policy not in runs:
            raise UserError(
                f"--dtype_policies={flags.dtype_policies}: {name} trains in {policy}; add it."
            )
        processes.check(runs[policy])
    return names, missing


def _measure(
    flags: argparse.Namespace, runs: dict[str, Run], peers: Sequence[str]
) -> dict[str, Measurement]:
    """Measures the dtype policies and the peers in turns."""
    measures: dict[str, Callable[[float], Measurement]] = {}
    with contextlib.ExitStack() as stack:
        batches: list[tuple[int, dict[str, Any]]] = []
        for policy, run in runs.items():
            training = Training(run, flags.warmup_steps)
            stack.callback(training.close)
            measures[policy] = training.measure
            batches = training.repeat_batches(flags.peer_batches) if peers else []
        for name in peers:
            run = runs[processes.PEERS[name].policy]
            peer = processes.Peer(name, run, batches, flags.peer_threads)
            stack.callback(peer.close)
            measures[name] = lambda seconds, peer=peer: Measurement(**peer.measure(seconds))
        for measure in measures.values():
            # Seeds set for a later model make TensorFlow load the graphs of those before anew.
            measure(0.0)
        return in_turns(measures, flags.seconds, max(flags.rounds, 1))


def prepare(flags: argparse.Namespace, policy: str) -> Run:
    """The run of these flags, with prepared data."""
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
