"""Training in processes of its own: two workers on this machine."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.training.toy import losses, toy_run

SCRIPT = Path(__file__).with_name("train_toy.py")
ROOT = Path(__file__).parents[2]


def start(
    output_dir: Path, report: Path, *assignments: str, **environment: str
) -> subprocess.Popen[str]:
    paths = os.pathsep.join([str(ROOT), str(SCRIPT.parent), os.environ.get("PYTHONPATH", "")])
    settings = {
        **os.environ,
        "PYTHONPATH": paths,
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        **environment,
    }
    command = [sys.executable, str(SCRIPT), str(output_dir), str(report), *assignments]
    return subprocess.Popen(command, env=settings, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str], report: Path) -> dict[str, Any]:
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    found: dict[str, Any] = json.loads(report.read_text())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("model", ["toy_model", "universal_transformer"])
def test_two_workers_end_with_equal_weights_and_those_of_one_device(
    tmp_path: Path, model: str
) -> None:
    settings = [
        f'model="{model}"',
        'batch_unit="examples"',
        "min_length_bucket=8",
        "dropout=0.0",
        "attention_dropout=0.0",
        "relu_dropout=0.0",
        'halting="basic"',
        "average_decay=0.9",
    ]
    alone = finish(
        start(tmp_path / "alone", tmp_path / "alone.json", "batch_size=8", *settings),
        tmp_path / "alone.json",
    )
    # Twice: from the beginning, and from the first checkpoint on.
    for train_steps in (10, 20):
        reports = workers(tmp_path, train_steps, "batch_size=4", *settings)
        assert reports[0]["weights"] == reports[1]["weights"]
        assert reports[0]["step"] == train_steps
    assert reports[0]["metrics"]["loss"] == pytest.approx(alone["metrics"]["loss"], rel=1e-4)
    assert reports[1]["metrics"] == {}
    expected, found = losses(toy_run(tmp_path / "alone")), losses(toy_run(tmp_path / "both"))
    assert found == pytest.approx(expected, rel=1e-4)


@pytest.mark.slow
def test_a_signal_to_one_worker_stops_both(tmp_path: Path) -> None:
    processes = start_workers(tmp_path, "train_steps=100000", "eval_frequency=100000")
    assert processes[0].stderr is not None
    for line in processes[0].stderr:
        if line.startswith("step 5/"):
            break
    processes[1].send_signal(signal.SIGTERM)
    reports = [
        finish(process, tmp_path / f"worker{index}.json") for index, process in enumerate(processes)
    ]
    assert [report["stopped_by"] for report in reports] == ["signal", "signal"]
    assert reports[0]["step"] == reports[1]["step"]
    assert reports[0]["weights"] == reports[1]["weights"]
    assert (tmp_path / "both" / "checkpoints" / f"step-{reports[0]['step']:08d}").is_dir()


def workers(folder: Path, train_steps: int, *settings: str) -> list[dict[str, Any]]:
    processes = start_workers(folder, f"train_steps={train_steps}", *settings)
    return [
        finish(process, folder / f"worker{index}.json") for index, process in enumerate(processes)
    ]


def start_workers(folder: Path, *settings: str) -> list[subprocess.Popen[str]]:
    cluster = {"worker": [f"localhost:{port}" for port in free_ports(2)]}
    return [
        start(
            folder / "both",
            folder / f"worker{index}.json",
            *settings,
            TF_CONFIG=json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}}),
        )
        for index in range(2)
    ]


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("localhost", 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports
