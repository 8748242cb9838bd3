"""Checkpoints that are complete or absent, and know when they were damaged.

A checkpoint is a directory ``<output_dir>/checkpoints/step-00000100/``: TensorFlow's checkpoint
files, ``state.json`` (where training stood) and ``manifest.json`` (each file's size and SHA-256).
It is written beside under a temporary name, flushed to the disk and renamed, so that a run killed
at any moment leaves no half of one. ``best.json`` names the best by validation.

How it is used::

    # evaluators and exporters: the moving average, where there is one
    step = restore_weights(model, run, "best")

    store = CheckpointStore(run.output_dir, keep=5)       # the trainer
    store.save(100, checkpoint, state)
    restore(store.newest_intact(), checkpoint)
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ut_tf.errors import UserError
from ut_tf.storage.files import write_text

if TYPE_CHECKING:
    from ut_tf.run import Run
    from ut_tf.training.optimizer import Optimizer

FOLDER = "checkpoints"
_VARIABLES = "variables"
_STATE = "state.json"
_MANIFEST = "manifest.json"
_BEST = "best.json"
_TEMPORARY = "tmp-"
_CORRUPT = "corrupt-"
_PREFIX = "step-"
_BLOCK = 1 << 22
_OF_TRAINING = "choose another output_dir or mend its permissions"


class CheckpointStore:
    """The checkpoints of one output directory.

    Args:
      output_dir: of the run.
      keep: latest checkpoints to keep; the best is kept besides.
    """

    def __init__(self, output_dir: Path, keep: int = 5) -> None:
        self.folder = Path(output_dir) / FOLDER
        self._keep = keep

    def steps(self) -> list[int]:
        """Returns the steps of which there is a checkpoint, ascending; whether they are intact is
        not looked at.
        """
        names = (
            [entry.name for entry in self.folder.glob(f"{_PREFIX}*") if entry.is_dir()]
            if self.folder.is_dir()
            else []
        )
        return sorted(
            int(name.removeprefix(_PREFIX))
            for name in names
            if name.removeprefix(_PREFIX).isdigit()
        )

    def path(self, step: int) -> Path:
        """Returns the directory of the checkpoint of `step`."""
        return self.folder / f"{_PREFIX}{step:08d}"

    def best_step(self) -> int | None:
        """Returns the step of the best checkpoint by validation; None where none was judged."""
        try:
            step = int(json.loads((self.folder / _BEST).read_text())["step"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return step if self.path(step).is_dir() else None

    def save(
        self, step: int, checkpoint: Any, state: Mapping[str, Any], needed_bytes: int = 0
    ) -> Path:
        """Writes a checkpoint; once it is complete, marks the best and removes those that are no
        longer kept.

        Args:
          step: of the update after which it is taken.
          checkpoint: tf.train.Checkpoint of all that decides how training goes on.
          state: plain values beside it, ready for JSON; "best_step" names the best checkpoint so
            far, if any.
          needed_bytes: its size as far as known, for the message when the disk is full.

        Raises:
          UserError: the disk is full or not writable; the older checkpoints are as they were.
        """
        final = self.path(step)
        temporary = self.folder / f"{_TEMPORARY}{final.name}-{os.getpid()}"
        with readable_disk_errors(self.folder, needed_bytes), _removed_in_the_end(temporary):
            temporary.mkdir(parents=True)
            checkpoint.write(str(temporary / _VARIABLES))
            write_text(temporary / _STATE, json.dumps({**state, "step": step}, indent=1) + "\n")
            write_text(temporary / _MANIFEST, json.dumps(_manifest(temporary), indent=1) + "\n")
            _sync_folder(temporary)
            self._put_in_place(temporary, final)
            self.mark_best(state.get("best_step"))
        self.prune(state.get("best_step"))
        return final

    def mark_best(self, step: int | None) -> None:
        """Writes ``best.json``, atomically, where it does not name `step` already; removes it where
        `step` is None.
        """
        best = self.folder / _BEST
        if step is None:
            best.unlink(missing_ok=True)
        elif self.best_step() != step:
            write_text(best, json.dumps({"step": step}) + "\n")
            _sync_folder(self.folder)

    def prune(self, best_step: int | None) -> None:
        """Removes all checkpoints but the latest ``keep`` and the best."""
        steps = self.steps()
        for step in steps[: -self._keep]:
            if step != best_step:
                self._remove(self.path(step))

    def remove_leftovers(self) -> None:
        """Removes what runs that were killed while they saved have left; call it when no other
        process trains here.
        """
        for leftover in [*self.folder.glob(f"{_TEMPORARY}*"), *self.folder.glob(f".{_BEST}.*")]:
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                leftover.unlink(missing_ok=True)

    def newest_intact(self) -> Path | None:
        """Returns the newest checkpoint that is intact, with a warning line for each one skipped;
        None where there is none at all.

        Raises:
          UserError: there are checkpoints, but every one is damaged.
        """
        steps = self.steps()
        for step in reversed(steps):
            fault = find_fault(self.path(step))
            if fault is None:
                return self.path(step)
            warn_of_fault(self.path(step), fault)
        if steps:
            raise UserError(
                f"{self.folder}: none of its {len(steps)} checkpoints is intact; "
                "put a copy of one there, or start again in an empty output_dir."
            )
        return None

    def set_aside_newer(self, step: int) -> None:
        """Renames checkpoints newer than `step`, which were found damaged, so that training from
        `step` on can make them anew.
        """
        for newer in [found for found in self.steps() if found > step]:
            aside = self.folder / f"{_CORRUPT}{self.path(newer).name}"
            shutil.rmtree(aside, ignore_errors=True)
            self.path(newer).rename(aside)

    def _put_in_place(self, temporary: Path, final: Path) -> None:
        if final.exists():
            old = self.folder / f"{_TEMPORARY}old-{final.name}-{os.getpid()}"
            final.rename(old)
            temporary.rename(final)
            shutil.rmtree(old, ignore_errors=True)
        else:
            temporary.rename(final)
        _sync_folder(self.folder)

    def _remove(self, directory: Path) -> None:
        # Renamed first: a removal that is cut short must not leave half a checkpoint under its
        # name.
        doomed = self.folder / f"{_TEMPORARY}old-{directory.name}-{os.getpid()}"
        try:
            directory.rename(doomed)
        except OSError as error:
            print(
                f"warning: could not remove the old checkpoint {directory}: {error}.",
                file=sys.stderr,
            )
            return
        shutil.rmtree(doomed, ignore_errors=True)


def training_checkpoint(model: Any, optimizer: Optimizer) -> Any:
    """Returns the tf.train.Checkpoint of all variables that decide how training goes on."""
    return tf.train.Checkpoint(
        model=model,
        random_states=_random_states(model),
        optimizer=tf.train.Checkpoint(**optimizer.state()),
        averages=optimizer.averages,
    )


def manifest_digest(directory: Path) -> str:
    """Returns the SHA-256 of a checkpoint's manifest, which follows from every byte of its files.

    Raises:
      FileNotFoundError: there is no such checkpoint.
    """
    return _sha256(directory / _MANIFEST)


def read_state(checkpoint: Path) -> dict[str, Any]:
    """Returns the plain values saved with a checkpoint; "step" is among them."""
    values: dict[str, Any] = json.loads((checkpoint / _STATE).read_text())
    return values


def restore(directory: Path, checkpoint: Any, partial: bool = False) -> None:
    """Reads the variables of an intact checkpoint into a tf.train.Checkpoint.

    Args:
      directory: of the checkpoint.
      checkpoint: every variable in it must be found in the files.
      partial: whether the files may hold more than that.

    Raises:
      UserError: the files are of a differently built network.
    """
    try:
        status = checkpoint.read(str(directory / _VARIABLES))
        status.assert_existing_objects_matched() if partial else status.assert_consumed()
        if partial:
            status.expect_partial()
    except (AssertionError, ValueError, tf.errors.OpError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise UserError(
            f"{directory}: its weights do not fit this network ({reason}); use the hyperparameters"
            " and the version it was trained with."
        ) from error


def find_fault(directory: Path) -> str | None:
    """Returns what is wrong with a checkpoint's files, compared to its manifest; None where they
    are as they were written.
    """
    try:
        files: dict[str, dict[str, Any]] = json.loads((directory / _MANIFEST).read_text())["files"]
        for name, expected in files.items():
            path = directory / name
            if path.stat().st_size != expected["bytes"]:
                return f"{name} has {path.stat().st_size} bytes instead of {expected['bytes']}"
            if _sha256(path) != expected["sha256"]:
                return f"{name} has another SHA-256 than when it was written"
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"{_MANIFEST} or a file it names cannot be read ({error})"
    return None


def warn_of_fault(directory: Path, fault: str) -> None:
    """Says on stderr, in one line, that a damaged checkpoint is passed over."""
    print(
        f"warning: skipped the checkpoint {directory}: {fault}; going back to the one before it.",
        file=sys.stderr,
    )


def find_checkpoint(run: Run, which: str) -> Path:
    """Returns the directory of a run's checkpoint.

    Args:
      run: whose output_dir is searched.
      which: "best" (by validation; the last where none was judged), "last", a step's number, or a
        checkpoint's directory.

    Raises:
      UserError: there is no such checkpoint, or it is damaged and there is none before it.
    """
    store = CheckpointStore(run.output_dir)
    if which == "best" and (best := store.best_step()) is not None:
        fault = find_fault(store.path(best))
        if fault is None:
            return store.path(best)
        print(
            f"warning: skipped the best checkpoint {store.path(best)}: {fault}; the last one is"
            " used.",
            file=sys.stderr,
        )
    if which in ("best", "last"):
        last = store.newest_intact()
        if last is None:
            raise UserError(
                f"there is no checkpoint in {store.folder}: train first, with"
                f" output_dir={run.output_dir}."
            )
        return last
    directory = store.path(int(which)) if which.isdigit() else Path(which).expanduser()
    if not (directory / _MANIFEST).is_file():
        raise UserError(
            f"checkpoint={which}: there is no {directory / _MANIFEST}; expected best, last, or one"
            f" of {store.steps()}."
        )
    fault = find_fault(directory)
    if fault is not None:
        raise UserError(
            f"checkpoint={which}: it is damaged ({fault}); name another one of {store.steps()}."
        )
    return directory


def load_model(run: Run, which: str = "best") -> Any:
    """Returns the run's trained keras.Model, to look at: its weights are a checkpoint's, averaged
    where a moving average was kept.

    Args:
      run: as ``Run.load`` gives it.
      which: as for ``find_checkpoint``.

    Raises:
      UserError: there is no such checkpoint, or it does not fit the model.
    """
    model = run.make_model()
    restore_weights(model, run, which)
    return model


def restore_weights(model: Any, run: Run, which: str = "best") -> int:
    """Reads a checkpoint's weights into a model: their moving average where one was kept.

    Args:
      model: the run's keras.Model.
      run: whose checkpoints are meant.
      which: as for ``find_checkpoint``.

    Returns:
      The step after which the weights were saved.

    Raises:
      UserError: there is no such checkpoint, or it does not fit the model.
    """
    directory = find_checkpoint(run, which)
    restore(directory, tf.train.Checkpoint(model=model), partial=True)
    state = read_state(directory)
    if state.get("averaged"):
        averages = [
            tf.Variable(tf.zeros(weight.shape, weight.dtype))
            for weight in model.trainable_variables
        ]
        restore(directory, tf.train.Checkpoint(averages=averages), partial=True)
        for weight, average in zip(model.trainable_variables, averages, strict=True):
            weight.assign(average)
    return int(state["step"])


@contextmanager
def readable_disk_errors(
    path: Path, needed_bytes: int = 0, advice: str = _OF_TRAINING
) -> Iterator[None]:
    """Turns the errors of writing a file or folder into a UserError that says what cannot be
    written, why, and what to do.

    Errors of the network, of a pipe whose reader has gone, and of files that have nothing to do
    with `path` pass.

    Args:
      path: what is written.
      needed_bytes: its size as far as known, for the message when the disk is full.
      advice: what the user can do; the default is for what training writes.
    """
    try:
        yield
    except (ConnectionError, TimeoutError):
        raise
    except (OSError, tf.errors.OpError) as error:
        full = (
            getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
            or "No space left" in str(error)
            or "quota" in str(error)
        )
        if full:
            raise UserError(_no_space(path, needed_bytes, advice == _OF_TRAINING)) from error
        if isinstance(error, OSError) and _concerns(error, path):
            raise UserError(
                f"{path} cannot be written ({error.strerror or error}): {advice}."
            ) from error
        raise


def _concerns(error: OSError, path: Path) -> bool:
    """Tells whether an error is of `path`, of something in it, or of a folder it lies in; an error
    that names no file is.
    """
    if not isinstance(error.filename, str | os.PathLike):
        return True
    ours, found = Path(os.path.abspath(path)), Path(os.path.abspath(error.filename))
    return found.is_relative_to(ours.parent) or ours.is_relative_to(found)


@contextmanager
def _removed_in_the_end(temporary: Path) -> Iterator[None]:
    try:
        yield
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _random_states(model: Any) -> list[Any]:
    """Returns the variables of a model's random generators: TensorFlow's checkpoints do not find
    them by themselves.
    """
    weights = {id(weight) for weight in model.weights}
    return [variable.value for variable in model.variables if id(variable) not in weights]


def _no_space(folder: Path, needed_bytes: int, trains: bool) -> str:
    nearest = next((parent for parent in (folder, *folder.parents) if parent.exists()), Path("/"))
    free = shutil.disk_usage(nearest).free
    needed = f"about {_megabytes(needed_bytes)} are needed and " if needed_bytes else ""
    goes_on = (
        " (the checkpoints saved before are intact, and training goes on from the last of them)"
        if trains
        else ""
    )
    return (
        f"{folder}: the disk is full: {needed}{_megabytes(free)} are free; make room there and give"
        f" the same command again{goes_on}."
    )


def _megabytes(count: int) -> str:
    return f"{max(count / 1e6, 0.1):.1f} MB"


def _manifest(folder: Path) -> dict[str, Any]:
    """Flushes every file of a folder to the disk and returns their sizes and checksums."""
    files = {}
    for path in sorted(folder.iterdir()):
        with path.open("rb") as file:
            os.fsync(file.fileno())
        files[path.name] = {"bytes": path.stat().st_size, "sha256": _sha256(path)}
    return {"files": files}


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
