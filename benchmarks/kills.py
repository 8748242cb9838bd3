"""Kills training runs with SIGKILL at random moments, resumes them, and compares every loss with an
uninterrupted run's, bit by bit.

How it is used::

    python benchmarks/kills.py  # ten runs, each killed once, at babi_sim_task1 with ut_act_babi
    python benchmarks/kills.py --runs=3 --train_steps=60

Every third update is followed by an evaluation and a checkpoint, so that many kills hit the middle
of saving; the report says how many left a half-written checkpoint behind. Each third run is killed
before its first logged update, anywhere from the start of the process. One device, float32, dropout
and shuffling on. The last line on standard output is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def command(output_dir: Path, data_dir: Path, arguments: argparse.Namespace) -> list[str]:
    """The ut-trainer command of a run that logs every loss and saves every third update."""
    return [
        sys.executable,
        "-m",
        "ut_tf.bin.trainer",
        f"--problem={arguments.problem}",
        f"--hparams_set={arguments.hparams_set}",
        f"--hparams=batch_size=16,eval_frequency=3,keep_checkpoint_max=2,early_stopping_patience=0,train_steps={arguments.train_steps}",
        "--problem_args=train_questions=400,test_questions=20",
        f"--output_dir={output_dir}",
        f"--data_dir={data_dir}",
        f"--tmp_dir={data_dir}",
        "--log_frequency=1",
    ]


def start(line: list[str]) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1"}
    return subprocess.Popen(
        line, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def finish(line: list[str]) -> None:
    """Runs a command to its end; SystemExit with its messages where it fails."""
    process = start(line)
    _, messages = process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(line)} failed:\n{messages}")


def kill_once(line: list[str], longest_wait: float, generator: random.Random) -> bool:
    """Starts a run and kills it within `longest_wait` seconds of its first logged update; returns
    whether it was still running.
    """
    process = start(line)
    wait_for_first_update(process)
    deadline = time.monotonic() + generator.uniform(0.0, longest_wait)
    while time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.005)
    return kill(process)


def kill_early(line: list[str], start_up: float, generator: random.Random) -> bool:
    """Starts a run and kills it within the `start_up` seconds that its first logged update takes;
    returns whether it was running.
    """
    process = start(line)
    time.sleep(generator.uniform(0.0, start_up))
    return kill(process)


def wait_for_first_update(process: subprocess.Popen[str]) -> None:
    """Reads a run's messages up to that of its first logged update."""
    assert process.stderr is not None
    for message in process.stderr:
        if message.startswith("step"):
            break


def kill(process: subprocess.Popen[str]) -> bool:
    """Kills a process; returns whether it was still running."""
    assert process.stderr is not None
    process.send_signal(signal.SIGKILL)
    process.stderr.close()
    return process.wait() != 0


def losses(output_dir: Path) -> dict[int, float]:
    """The loss of every update in a run's metrics.jsonl."""
    records = [json.loads(text) for text in (output_dir / "metrics.jsonl").read_text().splitlines()]
    return {record["step"]: record["loss"] for record in records if record["kind"] == "train"}


def half_written(output_dir: Path) -> bool:
    """Whether a kill left a checkpoint that was being written."""
    return any(
        path.is_dir() and not path.name.startswith("step-")
        for path in (output_dir / "checkpoints").glob("*")
    )


def measure(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Trains once without interruption and `runs` times with kills; returns the counts for JSON."""
    generator = random.Random(arguments.seed)
    data_dir = folder / "data"
    began = time.monotonic()
    whole = start(command(folder / "whole", data_dir, arguments))
    wait_for_first_update(whole)
    start_up = time.monotonic() - began
    _, messages = whole.communicate()
    if whole.returncode != 0:
        raise SystemExit(f"the run without kills failed:\n{messages}")
    took = time.monotonic() - began
    expected = losses(folder / "whole")
    kills = early = saving = equal = 0
    for number in range(arguments.runs):
        output_dir = folder / f"broken{number}"
        line = command(output_dir, data_dir, arguments)
        is_early = number % 3 == 2
        killed = (
            kill_early(line, start_up, generator)
            if is_early
            else kill_once(line, took / 3, generator)
        )
        kills += killed
        early += killed and is_early
        saving += killed and half_written(output_dir)
        finish(line)
        same = losses(output_dir) == expected
        equal += same
        print(
            f"run {number}: killed {killed}, losses equal to the last bit: {same}",
            file=sys.stderr,
            flush=True,
        )
    return {
        "runs": arguments.runs,
        "kills": kills,
        "before_first_update": early,
        "while_saving": saving,
        "equal": equal,
        "losses_per_run": len(expected),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--train_steps", type=int, default=60)
    parser.add_argument("--problem", default="babi_sim_task1")
    parser.add_argument("--hparams_set", default="ut_act_babi")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = measure(Path(folder), arguments)
    print(json.dumps(result))
    sys.exit(result["equal"] != result["runs"])


if __name__ == "__main__":
    main()
