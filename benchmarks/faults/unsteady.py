"""Folders that vanish, a clock that goes backwards, and two trainers in one directory."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import tiny
from outcomes import Call, Counts, Outcome, called, of_command

ROOT = Path(__file__).resolve().parents[2]
_DECADE = 10 * 365 * 86400


def vanishing(folder: Path) -> Counts:
    """Removes a folder while or before a command uses it."""
    from ut_tf.bin import decoder, trainer
    from ut_tf.bin import eval as eval_command
    from ut_tf.training.loop import TrainingLoop

    counts = Counts("folder that vanishes")
    again = folder / "again"

    def trained_without(gone: Path) -> Call:
        """Trains on while a folder is removed after the first update."""
        shutil.rmtree(again, ignore_errors=True)
        shutil.copytree(folder / "run", again)
        original = TrainingLoop.run

        def run(loop: TrainingLoop) -> object:
            shutil.rmtree(gone)
            return original(loop)

        with mock.patch.object(TrainingLoop, "run", run):
            return called(trainer.main, [*tiny.flags(folder, again), "--train_steps=8"], 120.0)

    for name in ("", "checkpoints", "tensorboard", "vocab"):
        call = trained_without(again / name)
        outcome = of_command(call)
        if call.status == 0:
            # Older checkpoints are gone, but the newest has been written.
            tiny.weights_digest(again, 8)
            outcome = Outcome("told", call.errors)
        counts.add(outcome, f"the run's {name or 'directory'} while it trains")
    with _moved(folder / "data"):
        call = called(eval_command.main, [f"--output_dir={folder / 'run'}"])
        counts.add(of_command(call, tiny.evaluate(folder / "run")), "the prepared data")
    counts.add(_without_working_folder(folder, eval_command.main), "the working folder")
    with _moved(folder / "run"):
        for main in (eval_command.main, decoder.main):
            counts.add(of_command(called(main, [f"--output_dir={folder / 'run'}"])), "the run")
    shutil.rmtree(again, ignore_errors=True)
    return counts


def _without_working_folder(folder: Path, main: Callable[[list[str]], int]) -> Outcome:
    gone, former = folder / "gone", Path.cwd()
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    try:
        return of_command(called(main, ["--output_dir=run"]))
    finally:
        os.chdir(former)


@contextlib.contextmanager
def _moved(folder: Path) -> Iterator[None]:
    away = folder.with_name(f"{folder.name}-away")
    folder.rename(away)
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        away.rename(folder)


def clock(folder: Path) -> Counts:
    """Trains on with clocks that are wrong; the weights must be those of a right clock."""
    counts = Counts("clock set back")
    right = _resumed(folder, contextlib.nullcontext(), lambda _: None)
    cases: list[tuple[str, contextlib.AbstractContextManager[object], float | None]] = [
        ("ten years back at the start", _back_at_once(), None),
        ("a second back at each look", _backwards(), None),
        ("files from the future", contextlib.nullcontext(), time.time() + _DECADE),
        ("files of 1970", contextlib.nullcontext(), 0.0),
    ]
    for name, clocks, stamp in cases:
        outcome = _resumed(folder, clocks, lambda run, at=stamp: _stamp(run, folder, at))
        if outcome.kind == "same" and outcome.answer != right.answer:
            outcome = Outcome("changed", "other weights")
        counts.add(outcome, name)
    return counts


def _resumed(
    folder: Path,
    clocks: contextlib.AbstractContextManager[object],
    prepare: Callable[[Path], object],
) -> Outcome:
    """Trains a copy of the run on from step 6 to 8."""
    from ut_tf.bin import trainer

    run = folder / "again"
    shutil.copytree(folder / "run", run)
    prepare(run)
    with clocks:
        call = called(trainer.main, [*tiny.flags(folder, run), "--train_steps=8"], 120.0)
    answer = tiny.weights_digest(run, 8) if call.status == 0 else None
    lines = (run / "metrics.jsonl").read_text()
    shutil.rmtree(run)
    if "-" in lines.replace("e-", "") or call.status != 0:
        return Outcome("traceback", f"{call.errors}\n{lines}")
    return Outcome("same", "", answer)


def _back_at_once() -> contextlib.AbstractContextManager[object]:
    now = time.time
    return mock.patch("time.time", lambda: now() - _DECADE)


def _backwards() -> contextlib.AbstractContextManager[object]:
    began, looks = time.time(), iter(range(10**9))
    return mock.patch("time.time", lambda: began - next(looks))


def _stamp(run: Path, folder: Path, at: float | None) -> None:
    if at is not None:
        for path in (*run.rglob("*"), *(folder / "data").rglob("*")):
            os.utime(path, (at, at))


def two_trainers(folder: Path, pairs: int) -> Counts:
    """Trainers beside one that trains, and two that start at the same moment."""
    from filelock import FileLock

    from ut_tf.bin import trainer

    counts = Counts("two trainers in one directory")
    run = folder / "run"
    before = _content(run)
    line = tiny.flags(folder)
    with FileLock(run / ".lock"):
        for more in ("--train_steps=8", "--random_seed=7", "--hparams=hidden_size=16"):
            call = called(trainer.main, [*line, more])
            outcome = of_command(call)
            is_as_it_was = outcome.kind == "refused" and _content(run) == before
            outcome = outcome if is_as_it_was else Outcome("changed", call.errors)
            counts.add(outcome, f"beside one that trains: {more}")
    for number in range(pairs):
        counts.add(_started_together(folder, folder / f"pair{number}"), f"pair {number}")
    return counts


def _started_together(folder: Path, run: Path) -> Outcome:
    """Two first starts at one moment, with seeds of their own: one trains, one is refused."""
    line = [sys.executable, "-m", "ut_tf.bin.trainer", *tiny.flags(folder, run)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1"}
    processes = [
        subprocess.Popen(
            [*line, f"--random_seed={seed}", "--train_steps=2"],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in (0, 7)
    ]
    told = [process.communicate(timeout=300)[1] for process in processes]
    statuses = [process.returncode for process in processes]
    if sorted(statuses) != [0, 1]:
        return Outcome("traceback", f"statuses {statuses}\n{told}")
    loser = told[statuses.index(1)]
    seed = (0, 7)[statuses.index(0)]
    is_the_winner = f'"seed": {seed},' in (run / "config.json").read_text()
    shutil.rmtree(run)
    is_one_line = loser.splitlines()[-1].startswith("ut-trainer: error: ")
    if "Traceback" in loser or not is_one_line or not is_the_winner:
        return Outcome("changed", loser)
    return Outcome("refused", loser)


def _content(run: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in run.rglob("*") if path.is_file()}
