"""Checkpoints that are complete or absent, and know when they were damaged.

A checkpoint is a directory ``<output_dir>/checkpoints/step-00000100/``: TensorFlow's checkpoint
files, ``state.json`` (where training stood) and ``manifest.json`` (each file's size and SHA-256).
It is written beside under a temporary name, flushed to the disk and renamed, so that a run killed
at any moment leaves no half of one. ``best.json`` names the best by validation. What a checkpoint
holds is listed in training/train_state.py.

::

    store = CheckpointStore(output_dir, keep=5)
    store.save(100, tf.train.Checkpoint(model=model), state)
    restore(store.newest_intact(), tf.train.Checkpoint(model=model))
"""

import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ut_tf.errors import UserError
from ut_tf.notices import warn
from ut_tf.storage import layout
from ut_tf.storage.disk_errors import disk_errors
from ut_tf.storage.files import read_bounded, sha256_of, write_text
from ut_tf.storage.json_lines import read_object, sealed, step_of
from ut_tf.storage.model_folder import holds_model, is_plain_name, trained_state
from ut_tf.storage.tensorflow_paths import readable_by_tensorflow

# Bytes of a number in the smallest type that weights are kept in.
_SMALLEST_BYTES = 2


class CheckpointGone(UserError):
    """A checkpoint that is not there, or no longer: trainings remove their older ones."""


class CheckpointStore:
    """The checkpoints of one output directory.

    Args:
      output_dir: of the run.
      keep: latest checkpoints to keep; the best is kept besides.
    """

    def __init__(self, output_dir: Path, keep: int = 5) -> None:
        self._output_dir = Path(output_dir)
        self.folder = self._output_dir / layout.CHECKPOINTS_FOLDER
        self._keep = keep

    def steps(self) -> list[int]:
        """The steps of the checkpoints, ascending; they may be damaged."""
        return layout.checkpoint_steps(self._output_dir)

    def path(self, step: int) -> Path:
        """The folder of the checkpoint of `step`."""
        return self.folder / layout.checkpoint_name(step)

    def best_step(self) -> int | None:
        """The step of the best checkpoint by validation; None where none was judged."""
        try:
            values = read_object(read_bounded(self.folder / layout.BEST_FILE))
        except OSError:
            return None
        step = step_of(values or {})
        return step if step is not None and self.path(step).is_dir() else None

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
        temporary = self.folder / f"{layout.TEMPORARY_PREFIX}{final.name}-{os.getpid()}"
        with disk_errors(self.folder, needed_bytes), _removed_in_the_end(temporary):
            temporary.mkdir(parents=True)
            checkpoint.write(str(temporary / layout.VARIABLES_FILE))
            write_text(
                temporary / layout.STATE_FILE, json.dumps({**state, "step": step}, indent=1) + "\n"
            )
            write_text(
                temporary / layout.MANIFEST_FILE, json.dumps(_manifest(temporary), indent=1) + "\n"
            )
            _sync_folder(temporary)
            self._put_in_place(temporary, final)
            self.mark_best(state.get("best_step"))
        self.prune(state.get("best_step"))
        return final

    def mark_best(self, step: int | None) -> None:
        """Writes ``best.json``, atomically, unless it names `step`; `step` None: removes it."""
        best = self.folder / layout.BEST_FILE
        if step is None:
            best.unlink(missing_ok=True)
        elif self.best_step() != step:
            write_text(best, sealed(json.dumps({"step": step})) + "\n")
            _sync_folder(self.folder)

    def prune(self, best_step: int | None) -> None:
        """Removes all checkpoints but the latest ``keep`` and the best."""
        steps = self.steps()
        for step in steps[: -self._keep]:
            if step != best_step:
                self._remove(self.path(step))

    def remove_leftovers(self) -> None:
        """Removes what runs killed while saving left; call it when no other process trains here."""
        for leftover in [
            *self.folder.glob(f"{layout.TEMPORARY_PREFIX}*"),
            *self.folder.glob(f".{layout.BEST_FILE}.*"),
        ]:
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                leftover.unlink(missing_ok=True)

    def newest_intact(self) -> Path | None:
        """Finds the newest intact checkpoint, and warns of each one skipped; None: there is none.

        Raises:
          UserError: there are checkpoints, but every one is damaged.
        """
        steps, told = self.steps(), set()
        while steps:
            directory = self.path(steps.pop())
            fault = find_fault(directory)
            if fault is None:
                return directory
            if not directory.is_dir():
                # A training removes the older ones once it has saved others.
                steps = self.steps()
            elif directory not in told:
                warn_of_fault(directory, fault)
                told.add(directory)
        if told:
            raise UserError(
                f"{self.folder}: none of its {len(told)} checkpoints is intact; "
                "put a copy of one there, or start again in an empty `output_dir`."
            )
        return None

    def set_aside_newer(self, step: int) -> None:
        """Renames checkpoints newer than `step`, which were found damaged, so that training from
        `step` on can make them anew.
        """
        for newer in [kept for kept in self.steps() if kept > step]:
            aside = self.folder / f"{layout.CORRUPT_PREFIX}{self.path(newer).name}"
            shutil.rmtree(aside, ignore_errors=True)
            self.path(newer).rename(aside)

    def _put_in_place(self, temporary: Path, final: Path) -> None:
        if final.exists():
            old = self.folder / f"{layout.TEMPORARY_PREFIX}old-{final.name}-{os.getpid()}"
            final.rename(old)
            temporary.rename(final)
            shutil.rmtree(old, ignore_errors=True)
        else:
            temporary.rename(final)
        _sync_folder(self.folder)

    def _remove(self, directory: Path) -> None:
        # Renamed first: a removal that is cut short must not leave half a checkpoint under its
        # name.
        doomed = self.folder / f"{layout.TEMPORARY_PREFIX}old-{directory.name}-{os.getpid()}"
        try:
            directory.rename(doomed)
        except OSError as error:
            warn(f"could not remove the old checkpoint {directory}: {error}.")
            return
        shutil.rmtree(doomed, ignore_errors=True)


def manifest_digest(directory: Path) -> str:
    """The SHA-256 of a checkpoint's manifest, which follows from every byte of its files.

    Raises:
      CheckpointGone: there is no such checkpoint.
    """
    with told_when_gone(directory):
        return sha256_of(directory / layout.MANIFEST_FILE)


def read_state(checkpoint: Path) -> dict[str, Any]:
    """Reads the plain values saved with a checkpoint, or with a model; "step" is among them.

    Raises:
      CheckpointGone: there is no such checkpoint.
      UserError: they are not what a training saves.
    """
    if holds_model(checkpoint):
        return trained_state(checkpoint)
    path = checkpoint / layout.STATE_FILE
    with told_when_gone(checkpoint):
        values = read_object(read_bounded(path))
    if values is None or step_of(values) is None:
        raise UserError(
            f"{path} does not say where a training stood: remove {checkpoint}, or put back what"
            " ut-trainer wrote."
        )
    return values


def restore(directory: Path, checkpoint: Any, partial: bool = False) -> None:
    """Reads the variables of an intact checkpoint into a tf.train.Checkpoint.

    Args:
      directory: of the checkpoint.
      checkpoint: every variable in it must be found in the files.
      partial: whether the files may hold more than that.

    Raises:
      CheckpointGone: it was removed meanwhile.
      UserError: the files are of a differently built network.
    """
    with told_when_gone(directory), readable_by_tensorflow(directory) as readable:
        _restore(directory, readable / layout.VARIABLES_FILE, checkpoint, partial)


def _restore(directory: Path, path: Path, checkpoint: Any, partial: bool) -> None:
    """Reads the files that begin with `path`; the other arguments are those of ``restore``."""
    # Here, since the commands look for a checkpoint before they import TensorFlow.
    import tensorflow as tf

    status = None
    try:
        check_stored(path, tf.train.load_checkpoint(str(path)))
        status = checkpoint.read(str(path))
        status.assert_existing_objects_matched() if partial else status.assert_consumed()
        if partial:
            status.expect_partial()
    except (AssertionError, ValueError, tf.errors.OpError) as error:
        if status is not None:
            # Otherwise TensorFlow warns of each value that was not read, after our message.
            status.expect_partial()
        reason = str(error).strip().partition("\n")[0]
        raise UserError(
            f"{directory}: its weights do not fit this network ({reason}); use the hyperparameters"
            " and the version it was trained with."
        ) from error


@contextmanager
def told_when_gone(directory: Path) -> Iterator[None]:
    """Turns the errors of reading a checkpoint that is no longer there into CheckpointGone."""
    try:
        yield
    except (OSError, UserError) as error:
        if directory.is_dir() or isinstance(error, CheckpointGone):
            raise
        raise CheckpointGone(
            f"{directory} has gone while it was read: the run may still be training, which removes"
            " older checkpoints; give the same command again, or train with a larger"
            " `keep_checkpoint_max`."
        ) from error


def check_stored(path: Path, reader: Any) -> None:
    """Raises UserError where the index of a checkpoint declares more than its files hold.

    TensorFlow takes the memory that is declared before it reads.

    Args:
      path: of the checkpoint, without the endings .index and .data.
      reader: of TensorFlow, of that checkpoint.
    """
    types = reader.get_variable_to_dtype_map()
    declared = sum(
        math.prod(shape) * (types[name].size or 1)
        for name, shape in reader.get_variable_to_shape_map().items()
    )
    stored = sum(file.stat().st_size for file in _data_files(path))
    if declared > stored:
        raise UserError(
            f"{path}.index declares {declared:,} bytes, and the files beside it hold {stored:,}:"
            " copy the checkpoint again from where it was written."
        )


def stored_numbers(output_dir: Path) -> int | None:
    """The most numbers that a checkpoint of a run can hold, by the size of its files; None: the run
    has no checkpoint.

    Raises:
      UserError: every checkpoint has lost its numbers.
    """
    store = CheckpointStore(output_dir)
    largest = max((_stored_bytes(store.path(step)) for step in store.steps()), default=0)
    if not largest:
        # What is damaged is told, rather than that the model is larger than nothing.
        newest = store.newest_intact()
        largest = _stored_bytes(newest) if newest is not None else 0
    return largest // _SMALLEST_BYTES or None


def _stored_bytes(directory: Path) -> int:
    """The size of a checkpoint's numbers; 0 where it was removed meanwhile."""
    try:
        return sum(file.stat().st_size for file in _data_files(directory / layout.VARIABLES_FILE))
    except FileNotFoundError:
        return 0


def _data_files(path: Path) -> list[Path]:
    if not path.parent.is_dir():
        return []
    return [file for file in path.parent.iterdir() if file.name.startswith(f"{path.name}.data-")]


def find_fault(directory: Path) -> str | None:
    """Compares a checkpoint's files with its manifest; None: they are as they were written."""
    try:
        files: dict[str, dict[str, Any]] = json.loads(
            read_bounded(directory / layout.MANIFEST_FILE)
        )["files"]
        for name, expected in files.items():
            path = directory / name
            if not (is_plain_name(name) and path.is_file()):
                # Others may have written it: a device, say, has no end.
                return f"{name} is no file in it" if path.exists() else f"{name} is missing"
            if path.stat().st_size != expected["bytes"]:
                return f"{name} has {path.stat().st_size} bytes instead of {expected['bytes']}"
            if sha256_of(path) != expected["sha256"]:
                return f"{name} has another SHA-256 than when it was written"
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return f"{layout.MANIFEST_FILE} or a file it names cannot be read ({error})"
    return None


def warn_of_fault(directory: Path, fault: str) -> None:
    """Says on stderr, in one line, that a damaged checkpoint is passed over."""
    warn(f"skipped the checkpoint {directory}: {fault}; going back to the one before it.")


@contextmanager
def _removed_in_the_end(temporary: Path) -> Iterator[None]:
    try:
        yield
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _manifest(folder: Path) -> dict[str, Any]:
    """Flushes every file of a folder to the disk and lists their sizes and checksums."""
    files = {}
    for path in sorted(folder.iterdir()):
        with path.open("rb") as file:
            os.fsync(file.fileno())
        files[path.name] = {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
    return {"files": files}


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
