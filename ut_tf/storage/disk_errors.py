"""Errors of the disk as sentences: what cannot be written, why, and what to do."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ut_tf.errors import UserError

_OF_TRAINING = "choose another `output_dir` or change its permissions"


@contextmanager
def disk_errors(path: Path, needed_bytes: int = 0, advice: str = _OF_TRAINING) -> Iterator[None]:
    """Turns the errors of writing a file or folder that may fill the disk into UserErrors; of small
    files ``file_errors`` does.

    Errors of the network, of a pipe whose reader has gone, and of files that have nothing to do
    with `path` pass.

    Args:
      path: what is written.
      needed_bytes: its size as far as known, for the message when the disk is full.
      advice: what the user can do; the default is for what training writes.
    """
    # Here, since the commands import checkpoints.py to check flags, before they import TensorFlow.
    import tensorflow as tf

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
        if getattr(error, "errno", None) == errno.EFBIG or "File too large" in str(error):
            raise UserError(
                f"{path}: a file would be larger than the system or its ulimit -f permits: raise"
                f" that limit, or {advice}."
            ) from error
        if full:
            raise UserError(_no_space(path, needed_bytes, advice == _OF_TRAINING)) from error
        if isinstance(error, OSError) and _concerns(error, path):
            raise UserError(
                f"{path} cannot be written ({error.strerror or error}): {advice}."
            ) from error
        raise


def _concerns(error: OSError, path: Path) -> bool:
    """Whether an error is of `path`, of something in it, or of a folder above it.

    An error that names no file counts as one.
    """
    if not isinstance(error.filename, str | os.PathLike):
        return True
    ours, theirs = Path(os.path.abspath(path)), Path(os.path.abspath(error.filename))
    return theirs.is_relative_to(ours.parent) or ours.is_relative_to(theirs)


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
