"""Everything that ut-tf writes, on a disk that is full at any of its pages, read-only or gone.

A writer runs on a small disk with no room, with one page, and so on up to what it needs. Each time
it must say so in one line; what was complete before stays so, nothing half written is taken for
whole, and with room the same command ends as if nothing had been.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import tiny
from outcomes import Call, Counts, Outcome, called, of_command
from small_disk import PAGE, SmallDisk

QUESTION = "1 Mary moved to the kitchen.\n2 Where is Mary?\n"


@dataclass(frozen=True)
class Writer:
    """Something that a command writes.

    Args:
      name: of what is written.
      call: the command, as (folder to write in) -> its call.
      begin: makes what lies there before; (folder) -> None.
      check: (folder) -> what is wrong with what the refused command left; empty: nothing.
      result: (folder) -> what a whole call has written, to be compared.
    """

    name: str
    call: Callable[[Path], Call]
    begin: Callable[[Path], None]
    check: Callable[[Path], str]
    result: Callable[[Path], Any]


def writers(source: Path) -> list[Writer]:
    """The writers; `source` holds the trained run and its data."""
    from ut_tf.bin import avg_checkpoints, datagen, decoder, exporter, insights, trainer
    from ut_tf.bin import eval as eval_command

    run = f"--output_dir={source / 'run'}"
    questions = source / "questions.txt"
    questions.write_text(QUESTION * 3000)

    def nothing(_: Path) -> None:
        pass

    def copied(folder: Path) -> None:
        shutil.copytree(source / "run", folder / "run")

    def new_run(folder: Path) -> Call:
        return called(trainer.main, [*tiny.flags(source, folder / "run"), "--train_steps=2"], 120.0)

    def resumed(folder: Path) -> Call:
        return called(trainer.main, [*tiny.flags(source, folder / "run"), "--train_steps=8"], 120.0)

    def prepared(folder: Path) -> Call:
        flags = [f"--data_dir={folder / 'data'}", f"--tmp_dir={folder / 'tmp'}"]
        arguments = f"--problem_args={tiny.PROBLEM_ARGS}"
        return called(datagen.main, [f"--problem={tiny.PROBLEM}", arguments, *flags])

    def exported(folder: Path) -> Call:
        return called(exporter.main, [run, f"--export_dir={folder / 'export'}"], 120.0)

    def decoded(folder: Path) -> Call:
        files = [f"--decode_from_file={questions}", f"--decode_to_file={folder / 'answers'}"]
        return called(decoder.main, [run, *files, "--decode_hparams=batch_size=3000"], 120.0)

    def judged(folder: Path) -> Call:
        return called(eval_command.main, [f"--output_dir={folder / 'run'}"], 120.0)

    def averaged(folder: Path) -> Call:
        return called(avg_checkpoints.main, [run, f"--avg_dir={folder / 'mean'}", "--n=2"])

    def shown(folder: Path) -> Call:
        return called(insights.main, [run, f"--html={folder / 'page.html'}", "--examples=1"])

    return [
        Writer("new run", new_run, nothing, _no_half_run, _weights_of(2)),
        Writer("resumed run", resumed, copied, _whole_checkpoints(3), _weights_of(8)),
        Writer("prepared data", prepared, nothing, _no_half_data, _data),
        Writer("export", exported, nothing, _no_half_export, _exported),
        Writer("decoded output", decoded, nothing, lambda _: "", _content("answers")),
        Writer("evaluation", judged, copied, _whole_checkpoints(3), _records),
        Writer("mean of checkpoints", averaged, nothing, _no_half_run, _weights_of(6, "mean")),
        Writer("page", shown, nothing, _absent("page.html"), _size("page.html")),
    ]


def fill(
    writer: Writer, disk: SmallDisk, trials: int, seconds: float, generator: random.Random
) -> Counts:
    """Lets a writer write with no room, and with less than it needs at seeded places."""
    counts, deadline = Counts(f"full disk: {writer.name}"), time.monotonic() + seconds
    expected, needed = _whole(writer, disk)
    middle = range(1, max(needed, 2))
    rooms = [0, *sorted(generator.sample(middle, min(trials - 1, len(middle))))]
    for pages in rooms:
        if time.monotonic() > deadline:
            break
        disk.clear()
        writer.begin(disk.folder)
        disk.leave(pages)
        outcome = _refused(writer, disk, writer.call(disk.folder), expected)
        disk.free()
        if outcome.kind == "refused":
            outcome = _goes_on(writer, disk, expected, outcome)
        counts.add(outcome, f"{pages} of {needed} pages free")
    disk.clear()
    return counts


def read_only(writer: Writer, disk: SmallDisk) -> Counts:
    """Lets a writer write on a disk that takes nothing."""
    counts = Counts(f"read-only folder: {writer.name}")
    expected, _ = _whole(writer, disk)
    disk.clear()
    writer.begin(disk.folder)
    with disk.read_only():
        outcome = _refused(writer, disk, writer.call(disk.folder), expected)
    counts.add(outcome, "read-only")
    disk.clear()
    return counts


def limited(writer: Writer, disk: SmallDisk, generator: random.Random, trials: int) -> Counts:
    """Lets a writer write where no file may be larger than a seeded size (``ulimit -f``)."""
    counts = Counts(f"limit of file sizes: {writer.name}")
    expected, _ = _whole(writer, disk)
    largest = max((path.stat().st_size for path in _files(disk.folder)), default=1)
    for size in (0, *(generator.randrange(1, max(largest, 2)) for _ in range(trials - 1))):
        disk.clear()
        writer.begin(disk.folder)
        with _file_limit(size):
            call = writer.call(disk.folder)
        outcome = _refused(writer, disk, call, expected)
        if outcome.kind == "refused":
            outcome = _goes_on(writer, disk, expected, outcome)
        counts.add(outcome, f"files of at most {size} bytes")
    disk.clear()
    return counts


def full_output(mains: Sequence[tuple[str, Callable[[list[str]], int], list[str]]]) -> Counts:
    """Calls commands whose standard output is a full disk."""
    counts = Counts("full disk: standard output")
    for name, main, argv in mains:
        with Path("/dev/full").open("w") as full:
            call = _called_into(full, main, argv)
        outcome = of_command(call)
        if outcome.kind not in ("refused", "traceback"):
            outcome = Outcome("changed", f"status {call.status}: {call.errors}")
        counts.add(outcome, name)
    return counts


def _called_into(output: TextIO, main: Callable[[list[str]], int], argv: list[str]) -> Call:
    """Calls a command whose standard output is a file."""

    def into_file(words: list[str]) -> int:
        former, sys.stdout = sys.stdout, output
        try:
            return main(words)
        finally:
            sys.stdout = former

    call = called(into_file, argv, 120.0)
    with contextlib.suppress(OSError):
        output.flush()
    return call


def _whole(writer: Writer, disk: SmallDisk) -> tuple[Any, int]:
    """What a writer writes with all the room it needs, and the pages that this takes at most."""
    disk.free()
    disk.clear()
    writer.begin(disk.folder)
    before = os.statvfs(disk.folder).f_bfree
    call = writer.call(disk.folder)
    if call.status != 0:
        raise RuntimeError(f"{writer.name}: {call.errors}")
    state = os.statvfs(disk.folder)
    needed = (before - state.f_bfree) * state.f_frsize // PAGE
    return writer.result(disk.folder), needed


def _refused(writer: Writer, disk: SmallDisk, call: Call, expected: Any) -> Outcome:
    """The outcome of a call without room; what is left behind counts."""
    outcome = of_command(call)
    if outcome.kind not in ("refused", "traceback"):
        if any(line.startswith("warning: ") for line in call.errors.splitlines()):
            return Outcome("told", call.errors)
        is_whole = _result(writer, disk.folder) == expected
        return Outcome("same" if is_whole else "changed", call.errors)
    wrong = writer.check(disk.folder)
    return Outcome("changed", f"{wrong}; {call.errors}") if wrong else outcome


def _result(writer: Writer, folder: Path) -> Any:
    """What a call that ended without a word has written; an error where it cannot be read."""
    try:
        return writer.result(folder)
    except Exception as error:
        return error


def _goes_on(writer: Writer, disk: SmallDisk, expected: Any, outcome: Outcome) -> Outcome:
    """Gives the same command again, with room: it must end as if nothing had been."""
    call = writer.call(disk.folder)
    if call.status != 0:
        return Outcome("changed", f"with room again: {call.errors}\nafter {outcome.said}")
    result = writer.result(disk.folder)
    return outcome if result == expected else Outcome("changed", "with room another result")


@contextlib.contextmanager
def _file_limit(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _no_half_run(folder: Path) -> str:
    """Whether a run directory that was refused holds a checkpoint that is not whole."""
    from ut_tf.storage.checkpoints import CheckpointStore, find_fault

    for run in folder.iterdir():
        store = CheckpointStore(run)
        faults = [fault for step in store.steps() if (fault := find_fault(store.path(step)))]
        if faults:
            return faults[0]
    return ""


def _whole_checkpoints(least: int) -> Callable[[Path], str]:
    def check(folder: Path) -> str:
        from ut_tf.storage.checkpoints import CheckpointStore, find_fault

        store = CheckpointStore(folder / "run")
        intact = [step for step in store.steps() if find_fault(store.path(step)) is None]
        left = list(store.folder.glob("tmp-*"))
        enough = len(intact) >= least and len(intact) == len(store.steps())
        return "" if enough and not left else f"checkpoints {intact}, leftovers {left}"

    return check


def _no_half_data(folder: Path) -> str:
    return "summary.json is there" if list(folder.rglob("summary.json")) else ""


def _no_half_export(folder: Path) -> str:
    left = [path.name for path in (folder / "export").glob("*")]
    return f"left behind: {left}" if left else ""


def _absent(name: str) -> Callable[[Path], str]:
    return lambda folder: f"{name} is there" if (folder / name).exists() else ""


def _weights_of(step: int, name: str = "run") -> Callable[[Path], Any]:
    return lambda folder: tiny.weights_digest(folder / name, step)


def _data(folder: Path) -> Any:
    return {
        path.name: path.read_bytes()
        for path in _files(folder / "data")
        if path.suffix == ".txt" or "tfrecord" in path.name
    }


def _exported(folder: Path) -> Any:
    return sorted(str(path.relative_to(folder)) for path in _files(folder / "export"))


def _content(name: str) -> Callable[[Path], Any]:
    return lambda folder: (folder / name).read_bytes()


def _size(name: str) -> Callable[[Path], Any]:
    return lambda folder: (folder / name).stat().st_size > 0


def _records(folder: Path) -> Any:
    from ut_tf.evaluation.records import read_records

    return [record.metrics for record in read_records(folder / "run")][-1:]
