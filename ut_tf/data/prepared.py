"""Preparing a problem's data and reading it, with one error for every way in which a disk may
refuse or data be damaged.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from ut_tf.data.problem import Problem
from ut_tf.errors import UserError

# TensorFlow's errors and those that wrap others have no errno, but the system's words in their
# text.
_REFUSALS = tuple(
    os.strerror(code)
    for code in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO)
)


def prepare_data(problem: Problem, data_dir: Path, tmp_dir: Path) -> None:
    """Prepares the data in `data_dir`, with archives from `tmp_dir`; where it is there, neither
    needs to be writable.

    Raises:
      UserError: the data cannot be had, or a directory cannot be read or written.
    """
    first = [refusal for folder in (data_dir, tmp_dir) if (refusal := _make(folder))]
    try:
        problem.prepare(data_dir, tmp_dir)
    except UserError:
        raise
    except Exception as error:
        reason = next((found for one in [*first, *_chain(error)] if (found := _refusal(one))), None)
        if reason is None:
            raise
        raise UserError(
            f"the data of {problem.name or type(problem).__name__} cannot be prepared in {data_dir}"
            f" with archives in {tmp_dir} ({reason}): free or permit what is refused, or name other"
            " directories by --data_dir and --tmp_dir."
        ) from error


@contextlib.contextmanager
def undamaged(folder: Path) -> Iterator[None]:
    """Turns what reading prepared data may raise into one error; tensorflow-datasets has no common
    class for its own.
    """
    import tensorflow as tf

    try:
        yield
    except (UserError, MemoryError, tf.errors.ResourceExhaustedError):
        raise
    except PermissionError as error:
        raise UserError(
            f"{error.filename or folder} cannot be read: {error.strerror}; change its rights, or"
            " give another --data_dir."
        ) from error
    except Exception as error:
        reason = f"{type(error).__name__}: {str(error).strip()[:200]}"
        raise UserError(
            f"{folder} is damaged ({reason}): delete it, it will be prepared again."
        ) from error


def _make(folder: Path) -> OSError | None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return error
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yields an error and, one after the other, what it came from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _refusal(error: BaseException) -> str | None:
    """Returns what the system refused, where the error says that it did."""
    if isinstance(error, OSError) and error.errno is not None:
        return f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)
    text = str(error)
    return next(
        (f"{words}: {' '.join(text.split())[:200]}" for words in _REFUSALS if words in text), None
    )
