"""Damages the files of a run: an answer as before, one that is told, or one line; no wrong figure.

How it is used::

    python benchmarks/faults/damaged.py
    python benchmarks/faults/damaged.py --only=vocabulary --seconds=20

The smallest run is trained first. Then one bit of a file at a time is flipped, at seeded places,
and every file is cut at every power of two. After each damage the readers of all commands read the
folder, with one network for all readings; the file is mended again.
"""

import contextlib
import hashlib
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import tiny
from frame import KINDS, Counts, Outcome, Plan, judge, run

LOGS = ("metrics.jsonl", "evaluations.jsonl", "processes.jsonl")
_BITS_OF_A_FILE = 200


class Damage(NamedTuple):
    """One damaged file.

    Fields:
      path: of the file.
      what: the damage in words.
      content: of the file then.
    """

    path: Path
    what: str
    content: bytes


def campaign(folder: Path, plan: Plan) -> Iterator[Counts]:
    """Yields the counts of each damage and kind of file."""
    import ut_tf

    tiny.make(folder)
    ut_tf.save(ut_tf.Run.load(folder / "run"), folder / "model")
    readers = Readers(folder)
    for fault, damages_of in (("bit flipped", flips), ("file cut", cuts)):
        counts: dict[str, Counts] = {}
        damages = damages_of(folder, plan.generator(fault))
        deadline = time.monotonic() + plan.seconds / 2
        for damage in damages:
            if time.monotonic() > deadline:
                break
            name = f"{fault}: {group(damage.path, folder)}"
            if plan.chosen([name]):
                with apply_damage(damage):
                    outcome = readers.outcome(damage.path)
                counts.setdefault(name, Counts(name)).add(outcome, damage.what)
        yield from counts.values()


class Readers:
    """The readers of a run directory, a saved model and prepared data.

    Args:
      folder: holds run/, data/ and model/.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._run = folder, folder / "run"
        self._models: dict[str, Any] = {}
        self._readers: dict[str, Callable[[], Any]] = {
            "use": lambda: self._use(self._run),
            "resume": self._resume,
            "logs": self._logs,
            "model": lambda: self._use(folder / "model"),
            "data": self._batches,
        }
        self._expected = {name: reader() for name, reader in self._readers.items()}
        # With a warning here, each later answer of that reader would count as told.
        for name in self._readers:
            if (outcome := self._judged(name)).kind != "same":
                raise RuntimeError(f"the undamaged run is not read without a word: {outcome}")

    def outcome(self, path: Path) -> Outcome:
        """The outcome of the readers of a file, of the folder as it is now."""
        part = path.relative_to(self._folder).parts[0]
        if part in ("data", "model"):
            return self._judged(part)
        if path.name in LOGS:
            return self._judged("logs")
        names = ("use", "resume", "logs") if path.name == "config.json" else ("use", "resume")
        outcomes = map(self._judged, names)
        return max(outcomes, key=lambda outcome: KINDS.index(outcome.kind))

    def _judged(self, name: str) -> Outcome:
        return judge(self._readers[name], self._expected[name])

    def _use(self, folder: Path) -> Any:
        """The weights, vocabulary and settings by which ut-eval and ut-decoder compute."""
        from ut_tf.run import Run
        from ut_tf.run_weights import restore_weights

        loaded = Run.load(folder)
        model = self._model(loaded)
        step = restore_weights(model, loaded, "best")
        codec = type(loaded.text_codec()).__name__
        digest = hashlib.sha256(b"".join(weight.numpy().tobytes() for weight in model.weights))
        decided = (loaded.problem, loaded.problem_args, loaded.hparams, loaded.spec, loaded.seed)
        return step, digest.hexdigest(), repr(decided), codec

    def _model(self, loaded: Any) -> Any:
        """The network of a run; that of the undamaged run and of the saved model are made once."""
        key = repr((loaded.hparams, loaded.spec))
        if key in self._models:
            return self._models[key]
        model = loaded.make_model()
        if len(self._models) < 2:
            self._models[key] = model
        return model

    def _resume(self) -> Any:
        """The state from which ut-trainer goes on."""
        from ut_tf.run import Run
        from ut_tf.storage.checkpoints import CheckpointStore, read_state
        from ut_tf.training.state_values import TrainingState

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
        return directory.name, repr(TrainingState.from_dict(read_state(directory)).to_dict())

    def _logs(self) -> Any:
        """The records that ut-report and the figures read."""
        from ut_tf.evaluation.records import read_records
        from ut_tf.figures.curves import read_curves
        from ut_tf.storage.processes import read_processes
        from ut_tf.tables.runs import find_runs

        found, warnings = find_runs([self._run])
        for warning in warnings:
            print(warning, file=sys.stderr)
        read = read_curves(self._run), read_records(self._run), read_processes(self._run)
        return repr((found, *read))

    def _batches(self) -> Any:
        """All training batches of an epoch, from the prepared data."""
        from ut_tf.data.pipeline import train_batches
        from ut_tf.run import Run

        loaded = Run.load(self._run, data_dir=self._folder / "data").prepare()
        training, problem = loaded.hparams.training, loaded.make_problem()
        digest = hashlib.sha256()
        for batch in train_batches(problem, loaded.data_dir, training, 1, 0, 0):
            for name in sorted(batch):
                digest.update(batch[name].numpy().tobytes())
        return digest.hexdigest()


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
    """The kind of a file, as the table of outcomes names it."""
    parts = path.relative_to(folder).parts
    if parts[0] != "run":
        return "prepared data" if parts[0] == "data" else "saved model"
    if parts[1] == "checkpoints":
        return "best.json" if path.name == "best.json" else "checkpoints"
    return "logs" if path.name in LOGS else {"vocab": "vocabulary"}.get(parts[1], parts[1])


def flips(folder: Path, generator: random.Random) -> Iterator[Damage]:
    """Yields each file with one bit changed, at seeded places, the files by turns."""
    for turn in range(_BITS_OF_A_FILE):
        for path in files(folder):
            # Prepared data takes ten times as long to read.
            if turn % 5 and path.is_relative_to(folder / "data"):
                continue
            content = bytearray(path.read_bytes())
            bit = generator.randrange(8 * len(content))
            content[bit // 8] ^= 1 << bit % 8
            yield Damage(path, f"{path.relative_to(folder)}, bit {bit}", bytes(content))


def cuts(folder: Path, generator: random.Random) -> Iterator[Damage]:
    """Yields each file cut to no byte and to every power of two below its size, in seeded order."""
    chosen = [
        (path, length)
        for path in files(folder)
        # A log that ends early is what a process that was killed there leaves.
        if path.name not in LOGS
        for length in (0, *(1 << power for power in range(path.stat().st_size.bit_length())))
        if length < path.stat().st_size
    ]
    generator.shuffle(chosen)
    for path, length in chosen:
        name = path.relative_to(folder)
        yield Damage(path, f"{name}, {length} bytes", path.read_bytes()[:length])


@contextlib.contextmanager
def apply_damage(damage: Damage) -> Iterator[None]:
    """The file is damaged in the context."""
    former = damage.path.read_bytes()
    damage.path.write_bytes(damage.content)
    try:
        yield
    finally:
        damage.path.write_bytes(former)


if __name__ == "__main__":
    run(__doc__, campaign, seconds=200.0)
