"""Measures what ut-trainer --plan computes: parameters, operations and memory of five sets.

    python benchmarks/plan.py              # all five, one after the other; two minutes
    python benchmarks/plan.py --only=2,3

Each set trains on random symbols in a process of its own. Operations are the matrix products that
TensorFlow's profiler saw, by the shapes of what went in. Memory is that of the variables and what
the resident set grows by in an update over that before it; the C library is told to give every
large block back at once, so that nothing of it is left over. The last line printed is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from ut_tf.factories import make_hparams  # noqa: E402
from ut_tf.planning.memory import training_memory  # noqa: E402
from ut_tf.planning.operations import BatchShape, update_flop  # noqa: E402
from ut_tf.planning.parameters import count_parameters  # noqa: E402
from ut_tf.planning.sizes import Sizes  # noqa: E402
from ut_tf.problem_spec import ProblemSpec  # noqa: E402

TRANSLATION = ProblemSpec("tokens", "tokens", 8000, 8000, shared_vocab=True)
MEASURED = {
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
    "MALLOC_ARENA_MAX": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "-1",
}
QUANTITIES = ("parameters", "flop", "memory")
MEGABYTE = 1e6


@dataclass(frozen=True)
class Case:
    """A set, a problem's spec and the shape of a batch."""

    hparams_set: str
    overrides: str
    spec: ProblemSpec
    batch: BatchShape


CASES = (
    Case("ut_small", "", TRANSLATION, BatchShape(40, 25, 31)),
    Case("transformer_base", "", TRANSLATION, BatchShape(40, 25, 31)),
    Case("ut_babi", "", ProblemSpec("facts", "class", 180, 90, max_words=8), BatchShape(90, 71, 0)),
    Case("ut_tiny", "", ProblemSpec("none", "tokens", 0, 5000), BatchShape(11, 0, 190)),
    Case("ut_act_tiny", "", TRANSLATION, BatchShape(43, 25, 31)),
)


def computed(case: Case, steps: float | None) -> dict[str, float]:
    """What the plan says of a case; `steps` are the mean recurrent steps, where they vary."""
    hparams = make_hparams(case.hparams_set, case.overrides)
    sizes = Sizes.of(hparams.model, hparams.network, case.spec)
    return {
        "parameters": count_parameters(sizes),
        "flop": update_flop(sizes, case.batch, steps),
        "memory": training_memory(sizes, hparams.training, case.batch).peak,
    }


def measure(case: Case) -> dict[str, float]:
    """Trains a case in this process."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    from synthetic import Trained

    from ut_tf.training.distribution import make_strategy

    hparams = make_hparams(case.hparams_set, case.overrides)
    trained = Trained(hparams, case.spec, make_strategy(0))
    small = BatchShape(1, min(case.batch.length, 2), min(case.batch.target_length, 2))
    trained.update(small)
    trained.update(case.batch)
    trained.update(small)
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    report = trained.update(case.batch)
    growth = _status("VmHWM") - before
    histogram = list(report.ponder_histogram)
    positions = sum(histogram)
    steps = (
        sum(time * count for time, count in enumerate(histogram)) / positions if positions else 0
    )
    return {
        "parameters": int(trained.model.count_params()),
        "flop": _profiled_flop(trained, case.batch),
        "memory": trained.variable_bytes + growth,
        "steps": steps,
    }


def _status(name: str) -> int:
    """Bytes that /proc/self/status gives."""
    line = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert line is not None
    return 1024 * int(line[1])


def _profiled_flop(trained: Any, batch: BatchShape) -> float:
    import tensorflow as tf

    with tempfile.TemporaryDirectory() as folder:
        options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=3)
        tf.profiler.experimental.start(folder, options)
        trained.update(batch)
        tf.profiler.experimental.stop()
        return sum(product_flop(kind, shapes) for kind, shapes in _products(Path(folder)))


def _products(folder: Path) -> Iterator[tuple[str, str]]:
    """The matrix products of a profile: (type of the operation, shapes of its inputs)."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    for path in folder.rglob("*.xplane.pb"):
        space = xplane_pb2.XSpace()
        space.ParseFromString(path.read_bytes())
        for plane in space.planes:
            names = {number: stat.name for number, stat in plane.stat_metadata.items()}
            for line in plane.lines:
                for event in line.events:
                    operation = plane.event_metadata[event.metadata_id].name.rpartition(":")[2]
                    if not re.fullmatch(r"_?(Mkl|Native|Fused)*(Batch)?MatMul(V2|V3)?", operation):
                        continue
                    for stat in event.stats:
                        if names[stat.metadata_id] in ("shape", "tensor_shapes"):
                            text = stat.str_value or plane.stat_metadata[stat.ref_value].name
                            yield operation, text


def product_flop(operation: str, shapes: str) -> float:
    """FLOP of a product of two tensors, "(float[3,4];float[4,5])", of which either may be
    transposed.

    The sizes that both have are the inner one; where there are several, a product in a batch is
    that of queries and keys, and any other one sums over the rows.
    """
    first, second = ([int(n) for n in text.split(",")] for text in _sizes(shapes)[:2])
    (a, b), (c, d) = first[-2:], second[-2:]
    batch = 1
    for size in first[:-2]:
        batch *= size
    straight, rows, columns = (b == c, a * d * b), (a == c, b * d * a), (b == d, a * c * b)
    order = (columns, straight, rows) if "Batch" in operation else (rows, straight, columns)
    return 2.0 * batch * next((flop for fits, flop in order if fits), a * d * b)


def _sizes(shapes: str) -> list[str]:
    return re.findall(r"\[([\d,]+)\]", shapes)


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as a Markdown table."""
    lines = ["| set | " + " | ".join(QUANTITIES) + " |", "|---|" + "---|" * len(QUANTITIES)]
    for row in rows:
        cells = []
        for name in QUANTITIES:
            plan, seen = row["plan"][name], row["measured"][name]
            unit, size = {"flop": ("G", 1e9), "memory": ("MB", MEGABYTE)}.get(name, ("", 1))
            places = 0 if size == 1 else 1
            shown = f"{plan / size:,.{places}f} {unit}".strip()
            cells.append(
                f"{shown} ({plan / seen - 1:+.1%})" if plan != seen else f"{shown} (exact)"
            )
        lines.append(f"| `{row['set']}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(description="Measures what ut-trainer --plan computes.")
    numbers = ",".join(str(number) for number in range(1, len(CASES) + 1))
    parser.add_argument("--only", default=numbers, help="numbers of sets (default: %(default)s)")
    parser.add_argument("--child", type=int, default=0, help=argparse.SUPPRESS)
    flags = parser.parse_args(argv)
    if flags.child:
        print(json.dumps(measure(CASES[flags.child - 1])))
        return 0
    rows = []
    for number in map(int, flags.only.split(",")):
        case = CASES[number - 1]
        command = [sys.executable, __file__, f"--child={number}"]
        printed = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **MEASURED}
        ).stdout
        seen = json.loads(printed.splitlines()[-1])
        plan = computed(case, seen["steps"] or None)
        rows.append({"set": case.hparams_set, "plan": plan, "measured": seen})
    print(table(rows))
    print(json.dumps(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
