"""Which checkpoint of a run is meant: the best, the last, or one that was named.

A training may remove a checkpoint while it is read. ``read_checkpoint`` takes all facts of one
checkpoint together and goes on with the one in its place.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ut_tf.errors import UserError
from ut_tf.notices import warn
from ut_tf.paths import expanded
from ut_tf.storage import layout
from ut_tf.storage.checkpoints import (
    CheckpointGone,
    CheckpointStore,
    find_fault,
    manifest_digest,
    told_when_gone,
)
from ut_tf.storage.model_folder import holds_model, trained_state

T = TypeVar("T")
# A training that removes this many checkpoints while one is read saves them faster than they can be
# read.
_MOST_TRIES = 20


def check_checkpoint(output_dir: Path, which: str) -> None:
    """Raises UserError where a run has no checkpoint of that name; reads no weights.

    Arguments as of ``find_checkpoint``.
    """
    store = CheckpointStore(output_dir)
    if holds_model(output_dir):
        _only_weights(output_dir, which)
    elif which not in ("best", "last"):
        _named(store, which)
    elif not store.steps():
        raise _nothing_trained(store, output_dir)


def find_checkpoint(output_dir: Path, which: str) -> Path:
    """Finds the folder of a run's checkpoint; a saved model's is the model's own.

    Args:
      output_dir: of the run.
      which: "best" (by validation; the last where none was judged), "last", a step's number, or a
        checkpoint's directory.

    Raises:
      UserError: there is no such checkpoint, or it is damaged and there is none before it.
    """
    store = CheckpointStore(output_dir)
    if holds_model(output_dir):
        return _only_weights(output_dir, which)
    best = _best(store) if which == "best" else None
    if best is not None:
        return best
    if which in ("best", "last"):
        last = store.newest_intact()
        if last is None:
            raise _nothing_trained(store, output_dir)
        return last
    directory = _named(store, which)
    fault = find_fault(directory)
    if fault is not None:
        with told_when_gone(directory):
            raise UserError(
                f"`checkpoint`={which}: it is damaged ({fault}); name another one of"
                f" {store.steps()}."
            )
    return directory


def read_checkpoint(output_dir: Path, which: str, read: Callable[[Path], T]) -> T:
    """Finds a run's checkpoint and reads all that is needed of it; where a training removes it
    meanwhile, the one that has taken its place, with a warning.

    Args:
      output_dir, which: as for ``find_checkpoint``.
      read: gets its folder; it is called again where the checkpoint has gone.

    Raises:
      CheckpointGone: `which` names a checkpoint that has gone, or they go faster than they can be
        read.
      UserError: as for ``find_checkpoint``, or of `read`.
    """
    tries = _MOST_TRIES if which in ("best", "last") else 1
    while True:
        directory = find_checkpoint(output_dir, which)
        tries -= 1
        try:
            return _read_whole(directory, read)
        except CheckpointGone:
            if not tries:
                raise
            warn(
                f"the checkpoint {directory} has gone while it was read; the one that has taken"
                " its place is used."
            )


def _read_whole(directory: Path, read: Callable[[Path], T]) -> T:
    """What `read` reads of a checkpoint that is the same afterwards."""
    if holds_model(directory):
        return read(directory)
    digest = manifest_digest(directory)
    with told_when_gone(directory):
        found = read(directory)
    if manifest_digest(directory) != digest:
        raise CheckpointGone(
            f"{directory} was replaced while it was read: give the same command again."
        )
    return found


def _best(store: CheckpointStore) -> Path | None:
    """The best checkpoint; None, with a warning, where it is damaged or badly marked."""
    mark, read = store.folder / layout.BEST_FILE, None
    # Where it is another file by now, a training has removed what it named before.
    while mark.is_file() and (file := mark.stat().st_ino) != read:
        read = file
        step = store.best_step()
        fault = find_fault(store.path(step)) if step is not None else None
        if step is not None and fault is None:
            return store.path(step)
        if step is not None and store.path(step).is_dir():
            warn(f"skipped the best checkpoint {store.path(step)}: {fault}; the last one is used.")
            return None
    if mark.exists():
        warn(f"{mark} is damaged, or names a checkpoint that is not there; the last one is used.")
    return None


def _only_weights(folder: Path, which: str) -> Path:
    if which not in ("best", "last", str(folder), str(trained_state(folder)["step"])):
        raise UserError(
            f"`checkpoint`={which}: {folder} is a saved model, which has one set of weights; leave"
            " the argument out."
        )
    return folder


def _named(store: CheckpointStore, which: str) -> Path:
    """The folder of the checkpoint with that step or path."""
    directory = store.path(step) if (step := layout.step_in(which)) is not None else expanded(which)
    if not (directory / layout.MANIFEST_FILE).is_file():
        raise CheckpointGone(
            f"`checkpoint`={which}: there is no {directory / layout.MANIFEST_FILE}; expected best,"
            f" last, or one of {store.steps()}."
        )
    return directory


def _nothing_trained(store: CheckpointStore, output_dir: Path) -> UserError:
    return UserError(
        f"there is no checkpoint in {store.folder}: train first, with `output_dir`={output_dir}."
    )
