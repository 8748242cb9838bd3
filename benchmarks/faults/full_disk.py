"""Lets the commands write where no file may grow beyond a seeded size, as on a disk that is full.

How it is used::

    python benchmarks/faults/full_disk.py
    python benchmarks/faults/full_disk.py --only=export --seconds=20

The limit is that of ``ulimit -f``, and needs no rights. Each time the command must refuse in one
line or tell of what it could not keep; no half-written checkpoint may be taken for a whole one; and
with room the same command must end with the same bytes as if nothing had been.
"""

import contextlib
import hashlib
import random
import resource
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import tiny
from frame import Call, Counts, Outcome, Plan, call_command, of_command, run
from kills import files_in

_LONGEST = 120.0
# Where times, processes, and names that a folder has of its own are written.
_OWN = ("config.json", "processes.jsonl", "evaluations.jsonl", "metrics.jsonl", ".lock")


class Writer(NamedTuple):
    """A command that writes.

    Fields:
      main: of the command.
      argv: its command line, given the folder to write in.
      compared: pattern of the files that are compared.
      goes_on: whether a copy of the run lies in the folder before.
    """

    main: Callable[[list[str]], int]
    argv: Callable[[Path], list[str]]
    compared: str
    goes_on: bool = False

    def call(self, folder: Path) -> Call:
        return call_command(self.main, self.argv(folder), _LONGEST)


def writers(source: Path) -> dict[str, Writer]:
    """The writers by what they write; `source` holds the trained run and its data."""
    from ut_tf.bin import avg_checkpoints, datagen, decoder, exporter, insights, trainer
    from ut_tf.bin import eval as eval_command

    run = f"--output_dir={source / 'run'}"
    questions = source / "questions.txt"
    questions.write_text("1 Mary moved to the kitchen.\n2 Where is Mary?\n" * 3000)
    problem = [f"--problem={tiny.PROBLEM}", f"--problem_args={tiny.PROBLEM_ARGS}"]

    def trained(steps: int) -> Callable[[Path], list[str]]:
        return lambda folder: [*tiny.flags(source, folder / "run"), f"--train_steps={steps}"]

    def prepared(folder: Path) -> list[str]:
        return [*problem, f"--data_dir={folder / 'data'}", f"--tmp_dir={folder / 'tmp'}"]

    def decoded(folder: Path) -> list[str]:
        files = [f"--decode_from_file={questions}", f"--decode_to_file={folder / 'answers'}"]
        return [run, *files, "--decode_hparams=batch_size=3000"]

    checkpoints = "run/checkpoints/*/*.index"
    return {
        "a new run": Writer(trainer.main, trained(2), checkpoints),
        "a resumed run": Writer(trainer.main, trained(8), checkpoints, goes_on=True),
        "prepared data": Writer(datagen.main, prepared, "data/**/*"),
        "an export": Writer(
            exporter.main, lambda folder: [run, f"--export_dir={folder / 'export'}"], "none"
        ),
        "decoded output": Writer(decoder.main, decoded, "answers"),
        "the record of an evaluation": Writer(
            eval_command.main,
            lambda folder: [f"--output_dir={folder / 'run'}"],
            checkpoints,
            goes_on=True,
        ),
        "a mean of checkpoints": Writer(
            avg_checkpoints.main,
            lambda folder: [run, f"--avg_dir={folder / 'mean'}", "--n=2"],
            "mean/checkpoints/*/*.index",
        ),
        "a page": Writer(
            insights.main,
            lambda folder: [run, f"--html={folder / 'page.html'}", "--examples=1"],
            "page.html",
        ),
    }


def campaign(folder: Path, plan: Plan) -> Iterator[Counts]:
    """Yields the counts of each writer."""
    tiny.make(folder)
    everything = writers(folder)
    names = plan.chosen(everything)
    for name in names:
        seconds, generator = plan.seconds / len(names), plan.generator(name)
        yield write_limited(name, everything[name], folder, seconds, generator)


def write_limited(
    name: str, writer: Writer, source: Path, seconds: float, generator: random.Random
) -> Counts:
    """Lets a writer write with no room, and with less than it needs at seeded sizes."""
    counts, place, deadline = Counts(name), source / "place", time.monotonic() + seconds
    begin(writer, source, place)
    if (call := writer.call(place)).status != 0:
        raise RuntimeError(f"{name}: {call.errors}")
    expected = result(writer, place)
    largest = max(path.stat().st_size for path in files_in(place).values())
    size = 0
    while size == 0 or time.monotonic() < deadline:
        begin(writer, source, place)
        with file_limit(size):
            call = writer.call(place)
        counts.add(outcome_of(writer, place, call, expected), f"files of at most {size} bytes")
        # Small sizes more often than large ones.
        size = int(largest ** generator.random())
    shutil.rmtree(place)
    return counts


def begin(writer: Writer, source: Path, place: Path) -> None:
    """Makes the folder in which a writer writes."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    if writer.goes_on:
        shutil.copytree(source / "run", place / "run")


def outcome_of(writer: Writer, place: Path, call: Call, expected: dict[str, str]) -> Outcome:
    """The outcome of a call without room; what it left counts, and what the same call makes of
    that with room.
    """
    outcome = of_command(call)
    if outcome.kind == "same" and result(writer, place) != expected:
        return Outcome("short", "an answer that is not whole, without a word")
    if outcome.kind != "refused":
        return outcome
    if halves := find_half_written(place):
        return Outcome("short", f"{halves}; {call.errors}")
    again = writer.call(place)
    if again.status != 0:
        return Outcome("short", f"with room again: {again.errors}\nafter {outcome.said}")
    if (found := result(writer, place)) != expected:
        return Outcome("short", f"with room again: {set(found.items()) ^ set(expected.items())}")
    return outcome


def find_half_written(place: Path) -> list[str]:
    """The faults of checkpoints that a command would take for whole ones."""
    from ut_tf.storage.checkpoints import CheckpointStore, find_fault

    stores = [CheckpointStore(path) for path in place.iterdir() if path.is_dir()]
    faults = [find_fault(store.path(step)) for store in stores for step in store.steps()]
    return [fault for fault in faults if fault is not None]


def result(writer: Writer, folder: Path) -> dict[str, str]:
    """The names of all files that a whole call has written, with digests of those to compare."""
    compared = set(folder.glob(writer.compared))
    return {
        name: digest(path) if path in compared else ""
        for name, path in files_in(folder).items()
        if path.name not in _OWN
    }


def digest(path: Path) -> str:
    """The SHA-256 of a file; of the index of a checkpoint that of its tensors, since the names of
    their objects depend on what the process computed before.
    """
    if path.suffix != ".index":
        return hashlib.sha256(path.read_bytes()).hexdigest()
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(path.with_suffix("")))
    names = sorted(reader.get_variable_to_shape_map())
    kept = [name for name in names if "OBJECT_GRAPH" not in name and "save_counter" not in name]
    content = b"".join(name.encode() + reader.get_tensor(name).tobytes() for name in kept)
    return hashlib.sha256(content).hexdigest()


@contextlib.contextmanager
def file_limit(size: int) -> Iterator[None]:
    """No file can be written beyond so many bytes in the context."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


if __name__ == "__main__":
    run(__doc__, campaign, seconds=240.0)
