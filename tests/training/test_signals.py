"""Ends from outside: every signal, and output that nobody reads, save a checkpoint."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.training.toy import losses, stop_at, toy_run
from ut_tf.run import Run
from ut_tf.storage.layout import checkpoint_steps
from ut_tf.training.signals import StopRequest, heard_signals, unread_output_stops
from ut_tf.training.trainer import TrainingInterrupted, TrainingResult, train

ANNOUNCEMENTS = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)


@pytest.fixture(autouse=True)
def defaults() -> Iterator[None]:
    """The handlers of a process that nobody started below nohup or in the background."""
    numbers = (*ANNOUNCEMENTS, signal.SIGQUIT, signal.SIGTERM)
    before = {number: signal.signal(number, signal.SIG_DFL) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def interrupted(
    run: Run, monkeypatch: pytest.MonkeyPatch, step: int, action: Any
) -> TrainingResult:
    """Trains until `action`, in the middle of update number `step`, ends it."""
    with monkeypatch.context() as patch:
        stop_at(patch, step, action)
        with pytest.raises(TrainingInterrupted) as raised:
            train(run, log_frequency=1)
    return raised.value.result


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    "number",
    [
        signal.SIGHUP,
        pytest.param(signal.SIGQUIT, marks=pytest.mark.slow),
        *(pytest.param(one, marks=pytest.mark.slow) for one in ANNOUNCEMENTS[1:]),
    ],
)
def test_every_signal_that_ends_saves_a_checkpoint(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = toy_run(tmp_path)
    result = interrupted(run, monkeypatch, 2, partial(os.kill, os.getpid(), number))
    assert (result.step, result.stopped_by) == (2, "signal")
    assert checkpoint_steps(tmp_path) == [2]
    assert signal.getsignal(number) is signal.SIG_DFL


@pytest.mark.usefixtures("eager")
def test_output_that_nobody_reads_ends_training_with_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = toy_run(tmp_path / "broken", train_steps=3)
    reader, writer = os.pipe()
    with os.fdopen(writer, "w", buffering=1) as pipe, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", pipe)
        result = interrupted(broken, monkeypatch, 2, partial(os.close, reader))
        assert sys.stderr is pipe
        # What the pipe's buffer still holds goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), writer)
    assert (result.step, result.stopped_by) == (2, "signal")
    assert checkpoint_steps(broken.output_dir) == [2]
    assert train(broken, log_frequency=1).step == 3
    assert list(losses(broken)) == [1, 2, 3]


@pytest.mark.parametrize("code", [errno.EPIPE, errno.ECONNRESET, errno.EIO])
def test_a_reader_that_has_gone_is_told_once(code: int) -> None:
    output = _Failing(code)
    stop = _printing_to(output)
    assert stop.requested
    assert output.tried == 1


@pytest.mark.parametrize("code", [errno.EAGAIN, errno.ENOSPC])
def test_output_that_cannot_be_written_for_the_moment_stops_nothing(code: int) -> None:
    output = _Failing(code)
    stop = _printing_to(output)
    assert not stop.requested
    assert output.tried > 1


class _Failing:
    def __init__(self, code: int) -> None:
        self.tried = 0
        self._code = code

    def write(self, _: str) -> None:
        self.tried += 1
        raise OSError(self._code, os.strerror(self._code))

    def flush(self) -> None:
        pass


def _printing_to(output: Any) -> StopRequest:
    stop = StopRequest()
    with contextlib.redirect_stdout(output), unread_output_stops(stop):
        assert not stop.requested
        print("lost", flush=True)
        print("lost or not", flush=True)
    return stop


def test_announcements_may_come_several_times_but_a_second_order_stops() -> None:
    orders = []
    signal.signal(signal.SIGTERM, lambda *_: orders.append("at once"))
    with StopRequest(b"") as stop:
        for number in (signal.SIGHUP, signal.SIGHUP, signal.SIGXCPU, signal.SIGUSR1):
            os.kill(os.getpid(), number)
        assert stop.requested and not orders
        os.kill(os.getpid(), signal.SIGTERM)
        assert orders == ["at once"]
    with StopRequest(b"") as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGHUP)
        assert stop.requested and len(orders) == 1
        os.kill(os.getpid(), signal.SIGTERM)
        assert len(orders) == 2


def test_what_is_ignored_or_used_by_the_program_stays_so() -> None:
    used = []
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, lambda number, _: used.append(number))
    assert {signal.SIGHUP, signal.SIGUSR1}.isdisjoint(heard_signals())
    with StopRequest(b"") as stop:
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGUSR1)
        assert not stop.requested and used == [signal.SIGUSR1]
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


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
        *(f'model="{model}"', 'batch_unit="examples"', "min_length_bucket=8", "dropout=0.0"),
        *("attention_dropout=0.0", "relu_dropout=0.0", 'halting="basic"', "average_decay=0.9"),
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
