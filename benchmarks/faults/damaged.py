"""Files of a run that are cut short or have a bit changed, and what its readers make of them.

``Readers`` reads a folder as the commands do, with one network for all readings. A damage is made
in place and mended again: no reader writes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tiny
from outcomes import Counts, Outcome, judged, worst

LOGS = ("metrics.jsonl", "evaluations.jsonl", "processes.jsonl")


class Readers:
    """The readers of a run directory, a saved model and prepared data.

    Args:
      folder: holds run/, data/ and, perhaps, model/.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._models: dict[str, Any] = {}
        self._run = folder / "run"
        readers = {**self.of_run(), **self.of_logs(), **self.of_others()}
        whole = {name: judged(reader, None) for name, reader in readers.items()}
        # With a warning here, each later answer of that reader would count as told.
        spoiled = {name: outcome for name, outcome in whole.items() if outcome.said}
        if spoiled:
            raise RuntimeError(f"the undamaged run is not read without a word: {spoiled}")
        self._expected = {name: outcome.answer for name, outcome in whole.items()}

    def of_run(self) -> dict[str, Callable[[], Any]]:
        """What ut-eval, ut-decoder and ut-trainer read."""
        return {"use": lambda: self._use(self._run), "resume": self._resume}

    def of_logs(self) -> dict[str, Callable[[], Any]]:
        """What ut-report and figures read."""
        return {"logs": self._logs}

    def of_others(self) -> dict[str, Callable[[], Any]]:
        """The saved model and the prepared data."""
        return {"model": lambda: self._use(self._folder / "model"), "data": self._batches}

    def outcome(self, path: Path) -> Outcome:
        """What the readers of a file make of the folder as it is now."""
        readers = self._of(path)
        return worst([judged(reader, self._expected[name]) for name, reader in readers.items()])

    def _of(self, path: Path) -> dict[str, Callable[[], Any]]:
        part = path.relative_to(self._folder).parts[0]
        if part in ("data", "model"):
            return {part: self.of_others()[part]}
        if path.name in LOGS:
            return self.of_logs()
        return {**self.of_run(), **self.of_logs()} if path.name == "config.json" else self.of_run()

    def _use(self, folder: Path) -> Any:
        """The weights, vocabulary and settings by which a command computes its figures."""
        from ut_tf.run import Run
        from ut_tf.run_weights import restore_weights

        run = Run.load(folder)
        model = self._model(run)
        step = restore_weights(model, run, "best")
        codec = run.text_codec()
        digest = hashlib.sha256(b"".join(weight.numpy().tobytes() for weight in model.weights))
        decided = repr((run.problem, run.problem_args, run.hparams, run.spec, run.seed))
        return step, digest.hexdigest(), decided, type(codec).__name__

    def _model(self, run: Any) -> Any:
        key = repr((run.hparams, run.spec))
        if key not in self._models:
            made = run.make_model()
            if len(self._models) > 1:
                return made
            self._models[key] = made
        return self._models[key]

    def _resume(self) -> Any:
        """What ut-trainer, called again, goes on from."""
        from ut_tf.run import Run
        from ut_tf.storage.checkpoints import CheckpointStore, read_state
        from ut_tf.training.state import TrainingState

        Run.plan(
            tiny.PROBLEM,
            tiny.HPARAMS_SET,
            tiny.HPARAMS,
            output_dir=self._run,
            problem_args=tiny.PROBLEM_ARGS,
            data_dir=self._folder / "data",
            tmp_dir=self._folder / "tmp",
        )
        directory = CheckpointStore(self._run).newest_intact()
        assert directory is not None
        state = TrainingState.from_dict(read_state(directory))
        return directory.name, repr(state.to_dict())

    def _logs(self) -> Any:
        import sys

        from ut_tf.evaluation.records import read_records
        from ut_tf.figures.curves import read_curves
        from ut_tf.reporting.runs import find_runs
        from ut_tf.storage.processes import read_processes

        found, warnings = find_runs([self._run])
        for warning in warnings:
            print(warning, file=sys.stderr)
        read = read_curves(self._run), read_records(self._run), read_processes(self._run)
        return repr((found, *read))

    def _batches(self) -> Any:
        """All training batches of an epoch, from the prepared data."""
        from ut_tf.data.pipeline import train_batches
        from ut_tf.run import Run

        run = Run.load(self._run, data_dir=self._folder / "data").prepare()
        problem = run.make_problem()
        batches = train_batches(problem, run.data_dir, run.hparams.training, 1, 0, 0)
        digest = hashlib.sha256()
        for batch in batches:
            for name in sorted(batch):
                digest.update(batch[name].numpy().tobytes())
        return digest.hexdigest()


@contextlib.contextmanager
def damaged(path: Path, content: bytes) -> Iterator[None]:
    """A file has another content in the context."""
    former = path.read_bytes()
    path.write_bytes(content)
    try:
        yield
    finally:
        path.write_bytes(former)


def files(folder: Path) -> list[Path]:
    """The files of a run, a saved model and prepared data that one of our readers reads."""
    everything = [path for part in ("run", "model", "data") for path in (folder / part).rglob("*")]
    return sorted(
        path
        for path in everything
        if path.is_file()
        and path.stat().st_size
        and "tensorboard" not in path.parts
        and path.name != "README.md"
    )


def group(path: Path, folder: Path) -> str:
    """What a file is, as the table of outcomes names it."""
    parts = path.relative_to(folder).parts
    if parts[0] == "data":
        return "prepared data"
    if parts[0] == "model":
        return "saved model"
    if parts[1] == "checkpoints":
        return "best.json" if path.name == "best.json" else "checkpoints"
    if parts[1] == "vocab":
        return "vocabulary"
    return "logs" if path.name in LOGS else parts[1]


@dataclasses.dataclass(frozen=True)
class Damage:
    """One damaged file.

    Args:
      path: of the file.
      what: the damage in words.
      content: of the file then.
    """

    path: Path
    what: str
    content: bytes


def flips(folder: Path, positions: int, generator: random.Random) -> Iterator[Damage]:
    """Yields each file with one bit changed, at seeded places, the files by turns."""
    chosen = {
        path: generator.sample(range(8 * size), min(positions, 8 * size))
        for path in files(folder)
        if (size := path.stat().st_size)
    }
    for turn in range(positions):
        for path, bits in chosen.items():
            # Prepared data takes ten times as long to read.
            is_slow = path.is_relative_to(folder / "data")
            if turn < len(bits) and not (is_slow and turn % 5):
                content = bytearray(path.read_bytes())
                content[bits[turn] // 8] ^= 1 << bits[turn] % 8
                name = path.relative_to(folder)
                yield Damage(path, f"{name}, bit {bits[turn]}", bytes(content))


def log_bits(folder: Path, generator: random.Random) -> Iterator[Damage]:
    """Yields each log with one bit changed, at every place, in a seeded order of all of them."""
    logs = {path: path.read_bytes() for path in files(folder) if path.name in LOGS}
    places = [(path, bit) for path, content in logs.items() for bit in range(8 * len(content))]
    generator.shuffle(places)
    for path, bit in places:
        changed = bytearray(logs[path])
        changed[bit // 8] ^= 1 << bit % 8
        yield Damage(path, f"{path.relative_to(folder)}, bit {bit}", bytes(changed))


def cuts(folder: Path, generator: random.Random) -> Iterator[Damage]:
    """Yields each file cut to no byte and to every power of two below its size, in a seeded
    order.
    """
    lengths = [0, *(1 << power for power in range(40))]
    chosen = [
        (path, length)
        for path in files(folder)
        # A log that ends early is what a process that was killed there leaves.
        if path.name not in LOGS
        for length in lengths
        if length < path.stat().st_size
    ]
    generator.shuffle(chosen)
    for path, length in chosen:
        content = path.read_bytes()[:length]
        yield Damage(path, f"{path.relative_to(folder)}, {length} bytes", content)


def count(
    fault: str, folder: Path, damages: Iterator[Damage], readers: Readers, seconds: float
) -> list[Counts]:
    """Reads each damaged file until the time is over; counts by kind of file."""
    deadline = time.monotonic() + seconds
    counts: dict[str, Counts] = {}
    for damage in damages:
        if time.monotonic() > deadline:
            break
        name = f"{fault}: {group(damage.path, folder)}"
        with damaged(damage.path, damage.content):
            outcome = readers.outcome(damage.path)
        counts.setdefault(name, Counts(name)).add(outcome, damage.what)
    return list(counts.values())
