"""Measures of what a training step consists: processor time by kind of operation.

    python benchmarks/operations.py  # universal_transformer_tiny, 4 steps, reversal, 2048 tokens
    python benchmarks/operations.py --hparams_set=ut_small --hparams=num_steps=6,batch_size=1024

One thread computes, so that an operation's time is processor time. Of each operation of the graph
(alike in all steps) counts a time that a tenth stays below, which other work disturbs little.
The executor, Python and reading batches take what is left of a step's processor time, which is
measured without the profiler. Flags are those of train.py; the last line printed is JSON.
"""

import argparse
import collections
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import train  # noqa: E402
from measuring import Machine  # noqa: E402

from ut_tf.errors import UserError  # noqa: E402
from ut_tf.training.threads import set_threads  # noqa: E402

OTHER = "other operations"
OUTSIDE = "executor, Python, batches"
# In the names of the operations of one recurrent step.
STEP_CALL = re.compile(r"(Stateful)?PartitionedCall(_\d+)?/")
# The first pattern that matches "name:type" decides.
KINDS = {
    "matrix products": r":_?(Mkl|Native|Fused)*(Batch)?MatMul(V2)?$",
    "Adam": r":(ResourceApplyAdam|L2Loss)$",
    "softmax": r":(_Mkl)?Softmax$|Softmax_grad|[Ss]oftmaxCrossEntropy",
    "dropout": r"random|keep_mask|:(Select|ZerosLike|GreaterEqual|Bitcast)$|:StatelessRandom",
    "transposes": r":(_Mkl)?Transpose$|:(Pack|Unpack)$",
    "layer norms": r"_norm(_\d+)?/",
    "biases and ReLU": r":(BiasAddGrad|BiasAdd|Relu|ReluGrad)$",
    "sums and other elementwise": (
        r":(AddV2|AddN|Mul|Sub|Sum|Mean|Square|Rsqrt|RealDiv|Neg|Cast|Maximum|Exp|Log|Sin|Cos)$"
    ),
}


def kind_of(operation: str) -> str:
    """The kind of an operation of the graph, "name:type"."""
    for kind, pattern in KINDS.items():
        if re.search(pattern, operation):
            return kind
    return OTHER


def by_kind(milliseconds: Mapping[str, float], step: float) -> dict[str, float]:
    """Milliseconds of a step by kind, in the order of ``KINDS``; the last is what `step` takes
    besides its operations.

    Args:
      milliseconds: of each operation, "name:type".
      step: milliseconds of the whole step.
    """
    sums: dict[str, float] = dict.fromkeys([*KINDS, OTHER], 0.0)
    for operation, time in milliseconds.items():
        sums[kind_of(operation)] += time
    return {**sums, OUTSIDE: max(step - sum(sums.values()), 0.0)}


def profile(training: train.Training, updates: int) -> dict[str, float]:
    """Milliseconds of each operation in one update, "name:type", of all recurrent steps together:
    the lower tenth of the times measured, times how often it runs.
    """
    import tensorflow as tf

    times: dict[str, list[float]] = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        training.update(updates)
        tf.profiler.experimental.stop()
        for operation, milliseconds in _events(Path(folder)):
            times[operation].append(milliseconds)
    return {
        operation: _lower_tenth(values) * len(values) / updates
        for operation, values in times.items()
    }


def _lower_tenth(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 10]


def _events(folder: Path) -> Iterator[tuple[str, float]]:
    """The executions of operations that a profile holds: ("name:type", milliseconds)."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    for path in folder.rglob("*.xplane.pb"):
        space = xplane_pb2.XSpace()
        space.ParseFromString(path.read_bytes())
        for plane in space.planes:
            if "CPU" not in plane.name:
                continue
            for line in plane.lines:
                for event in line.events:
                    name = plane.event_metadata[event.metadata_id].name
                    # "::" stands in the names of what the runtime does around operations.
                    if re.fullmatch(r"[^:]+:\w+", name):
                        yield STEP_CALL.sub("", name), event.duration_ps / 1e9


def table(kinds: Mapping[str, float]) -> str:
    """A line for each kind: milliseconds, and the share of the step."""
    total = sum(kinds.values())
    return "\n".join(
        f"{kind:<28} {milliseconds:>9.1f} ms {milliseconds / total:>7.1%}"
        for kind, milliseconds in kinds.items()
    )


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The flags: ``--updates`` and those of train.py."""
    parser = argparse.ArgumentParser(
        description="Measures of what a training step consists.", add_help=False
    )
    parser.add_argument("--updates", type=int, default=10)
    own, others = parser.parse_known_args(arguments)
    return argparse.Namespace(**{**vars(train.parse(others)), **vars(own)})


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    flags = parse(arguments)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    set_threads(1, 1)
    try:
        run = train.prepare(flags, "float32")
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    machine = Machine.now([], 0)
    training = train.Training(run, flags.warmup_steps)
    try:
        measured = training.measure(flags.seconds)
        operations = profile(training, flags.updates)
    finally:
        training.close()
    kinds = by_kind(operations, 1e3 * measured.cpu_seconds / measured.steps)
    print(machine.header())
    print(table(kinds))
    settings = {name: getattr(flags, name) for name in (*train.DEFAULTS, "updates")}
    rounded: dict[str, Any] = {kind: round(value, 2) for kind, value in kinds.items()}
    print(json.dumps({**settings, **machine.row(), "cpu_ms_per_step": rounded}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
