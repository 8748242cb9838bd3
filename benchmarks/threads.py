"""Measures thread counts: time of a training step, or of a decoded position, for numbers of threads
per operation (intra) and operations at once (inter).

    python benchmarks/threads.py  # the four combinations of 1 and all cores, 3 rounds in turn
    python benchmarks/threads.py --benchmark=decode --counts=1x1,2x1,2x2 -- --hparams_set=ut_tiny

What follows `--` goes to benchmarks/train.py or benchmarks/decode.py. Each round runs every
combination in a process of its own; the smallest wall and processor times of all rounds count. The
last line on standard output is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from machine import Machine  # noqa: E402


def times_of(printed: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Wall and processor milliseconds, by what was timed, in the JSON of a benchmark: of a step of
    each dtype policy, or of a position of each search.
    """
    if "measurements" in printed:
        return {
            f"{row['model']}, beam {row['beam_size']}": (
                row["ms_per_position"],
                row["cpu_ms_per_position"],
            )
            for row in printed["measurements"]
        }
    return {
        policy: (1e3 / row["steps_per_second"], row["cpu_ms_per_step"])
        for policy, row in printed.items()
        if isinstance(row, dict) and "steps_per_second" in row
    }


def best_of(rounds: Sequence[dict[str, tuple[float, float]]]) -> dict[str, tuple[float, float]]:
    """The smallest wall and the smallest processor time of all rounds, by what was timed."""
    return {
        name: (
            round(min(times[name][0] for times in rounds), 2),
            round(min(times[name][1] for times in rounds), 2),
        )
        for name in rounds[0]
    }


def measure(benchmark: str, intra: int, inter: int, options: Sequence[str]) -> dict[str, Any]:
    """Runs the benchmark in a process of its own; the JSON that it prints."""
    command = [
        sys.executable,
        str(HERE / f"{benchmark}.py"),
        "--peak_repetitions=0",
        f"--intra_op_threads={intra}",
        f"--inter_op_threads={inter}",
        *options,
    ]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    row: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return row


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a table and the same numbers as JSON."""
    cores = os.cpu_count() or 1
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--benchmark", choices=["train", "decode"], default="train")
    parser.add_argument("--counts", default=f"1x1,1x{cores},{cores}x1,{cores}x{cores}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("options", nargs="*", help="flags of the benchmark, after --")
    flags = parser.parse_args(arguments)
    machine = Machine.now(["float32"], 8)
    rounds: dict[str, list[dict[str, tuple[float, float]]]] = {}
    for _ in range(flags.rounds):
        for count in flags.counts.split(","):
            intra, inter = map(int, count.split("x"))
            printed = measure(flags.benchmark, intra, inter, flags.options)
            rounds.setdefault(count, []).append(times_of(printed))
    machine = machine.with_peaks_again()
    print(machine.header())
    best = {count: best_of(times) for count, times in rounds.items()}
    for count, times in best.items():
        for name, (wall, processor) in times.items():
            print(f"{count:>7}  {name:<40} wall {wall:>9.2f} ms  processor {processor:>9.2f} ms")
    print(json.dumps({**machine.row(), **vars(flags), "wall_and_cpu_ms": best}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
