"""Ends from outside: every signal, and output that nobody reads, save a checkpoint."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.training.toy import stop_at, toy_run
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


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("number", [*ANNOUNCEMENTS, signal.SIGQUIT])
def test_every_signal_that_ends_saves_a_checkpoint(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = toy_run(tmp_path)
    result = interrupted(run, monkeypatch, 2, partial(os.kill, os.getpid(), number))
    assert (result.step, result.stopped_by) == (2, "signal")
    assert checkpoint_steps(tmp_path) == [2]
    assert signal.getsignal(number) is signal.SIG_DFL


@pytest.mark.usefixtures("eagerly")
def test_output_that_nobody_reads_ends_training_with_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = toy_run(tmp_path / "whole", train_steps=4)
    train(whole, log_frequency=1)
    broken = toy_run(tmp_path / "broken", train_steps=4)
    reader, writer = os.pipe()
    with os.fdopen(writer, "w", buffering=1) as pipe, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", pipe)
        result = interrupted(broken, monkeypatch, 2, partial(os.close, reader))
        assert sys.stderr is pipe
        # What the pipe's buffer still holds goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), writer)
    assert (result.step, result.stopped_by) == (2, "signal")
    assert checkpoint_steps(broken.output_dir) == [2]
    assert train(broken, log_frequency=1).step == 4
    # Each update is logged once, with the values of a training that was not interrupted.
    logs = [(run.output_dir / "metrics.jsonl").read_bytes() for run in (whole, broken)]
    assert [line.count(b'"kind": "train"') for line in logs] == [4, 4]


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


@pytest.mark.slow
@pytest.mark.parametrize("end", ["pipe", "SIGHUP", "nohup"])
def test_the_command_saves_and_goes_on(end: str, tmp_path: Path) -> None:
    overrides = (
        "hidden_size=8,filter_size=8,num_heads=1,num_steps=1,batch_size=64,train_steps=100000"
    )
    command = [
        *(sys.executable, "-m", "ut_tf.bin.trainer", "--problem=algorithmic_reverse_decimal40"),
        *("--hparams_set=ut_algorithmic", f"--hparams={overrides}", "--log_frequency=1"),
        *(f"--output_dir={tmp_path / 'run'}", f"--data_dir={tmp_path / 'data'}"),
    ]
    start = ["nohup", *command] if end == "nohup" else command
    with subprocess.Popen(start, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if b"step 3/" in line:
                break
        if end == "pipe":
            process.stderr.close()
        else:
            process.send_signal(signal.SIGHUP)
        if end == "nohup":
            # It is ignored: training goes on until it is told to end.
            assert any(b"step 9/" in line for line in process.stderr)
            process.send_signal(signal.SIGTERM)
        status = process.wait(timeout=120)
    assert status == 130
    (step,) = checkpoint_steps(tmp_path / "run")
    assert step >= 3
    done = subprocess.run([*command, f"--train_steps={step + 1}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"resuming from step {step}," in done.stderr
