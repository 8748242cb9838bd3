"""Measures what ut-trainer --plan computes: parameters, operations and memory of five sets.

    python benchmarks/plan.py              # all five, one after the other; two minutes
    python benchmarks/plan.py --only=2,3

Each set trains on random symbols, on the CPU in a process of its own. Operations are the matrix
products in the graph of an update; a loop over the steps of dynamic halting counts as often as it
ran. Memory is the peak that TensorFlow's allocator reports for an update. The last line printed is
JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
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

STORIES = ProblemSpec("facts", "class", 180, 90, max_words=8)
DENSE = "halting_compute=dense"
TRANSLATION = ProblemSpec("tokens", "tokens", 8000, 8000, shared_vocab=True)
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
    Case("ut_small", "", TRANSLATION, BatchShape(52, 21, 18)),
    Case("transformer_base", "", TRANSLATION, BatchShape(30, 33, 37)),
    Case("ut_babi", "", STORIES, BatchShape(60, 97, 0)),
    Case("ut_tiny", "", ProblemSpec("none", "tokens", 0, 5000), BatchShape(22, 0, 95)),
    # No position halts, so that depth is known.
    Case("ut_act_tiny", f"{DENSE},act_halting_bias_init=-20", TRANSLATION, BatchShape(43, 25, 31)),
)


def computed(case: Case, steps: float | None) -> dict[str, float]:
    """What the plan says of a case that takes `steps` recurrent steps; None: all there are."""
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
    trained.update(case.batch)
    tf.config.experimental.reset_memory_stats("CPU:0")
    report = trained.update(case.batch)
    peak = tf.config.experimental.get_memory_info("CPU:0")["peak"]
    counts = dict(enumerate(report.ponder_histogram))
    positions = sum(counts.values())
    steps = sum(time * count for time, count in counts.items()) / positions if positions else 0
    taken = max((time for time, count in counts.items() if count), default=1)
    return {
        "parameters": int(trained.model.count_params()),
        "flop": graph_flop(trained.graph(case.batch), taken),
        "memory": peak,
        "mean_steps": steps,
        "taken_steps": taken,
    }


def graph_flop(graph: Any, taken: int) -> float:
    """FLOP of the matrix products in a graph and in the functions that it calls; the bodies of
    loops count `taken` times.
    """
    total = 0.0
    for operation in graph.get_operations():
        kind = operation.type
        if kind in ("MatMul", "BatchMatMul", "BatchMatMulV2"):
            name = "transpose_a" if kind == "MatMul" else "adj_x"
            inner = operation.inputs[0].shape[-2 if operation.get_attr(name) else -1]
            total += 2.0 * operation.outputs[0].shape.num_elements() * inner
        elif kind in ("PartitionedCall", "StatefulPartitionedCall"):
            function = graph._get_function(operation.get_attr("f").name)
            total += graph_flop(function.graph, taken)
        elif kind in ("While", "StatelessWhile"):
            function = graph._get_function(operation.get_attr("body").name)
            total += taken * graph_flop(function.graph, taken)
    return total


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
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
        printed = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True, env=environment
        ).stdout
        seen = json.loads(printed.splitlines()[-1])
        plan = computed(case, seen["taken_steps"] if seen["mean_steps"] else None)
        rows.append({"set": case.hparams_set, "plan": plan, "measured": seen})
    print(table(rows))
    print(json.dumps(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
