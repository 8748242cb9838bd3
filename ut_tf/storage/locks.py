"""Locks that the system gives up for a process that is killed."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from filelock import BaseFileLock, FileLock, Timeout

from ut_tf.errors import UserError
from ut_tf.notices import warn
from ut_tf.storage.files import check_no_link
from ut_tf.storage.layout import LOCK_FILE, START_LOCK_FILE


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Waits until no other process holds the lock on `path`, and holds it within the context.

    Raises:
      OSError: as of ``_lock_of``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _lock_of(path):
        yield


def _lock_of(path: Path, **options: Any) -> BaseFileLock:
    """The lock on a file; arguments as of ``filelock.FileLock``.

    Raises:
      OSError: the file is a link, which may lead out of a folder of others, or no regular file.
    """
    # Versions of filelock before 3.20.1 empty what a link leads to.
    check_no_link(path)
    return FileLock(path, **options)


@contextmanager
def while_starting(output_dir: Path) -> Iterator[bool]:
    """Waits until no other process starts a run in the directory, and gives whether none trains
    there either.

    Where the file system has no locks, nothing is waited for.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(_lock_of(output_dir / START_LOCK_FILE))
        except OSError:
            yield True
            return
        yield not is_held(output_dir)


def is_held(output_dir: Path) -> bool:
    """Whether a process trains in the directory."""
    path = output_dir / LOCK_FILE
    if not path.exists():
        return False
    try:
        with _lock_of(path, blocking=False):
            return False
    except Timeout:
        return True
    except OSError:
        return False


@contextmanager
def held_alone(output_dir: Path) -> Iterator[None]:
    """Holds the lock on a run directory within the context: one process trains in it.

    Where the file system has no locks (some of networks), nothing is locked, with a warning.

    Args:
      output_dir: the run directory.

    Raises:
      UserError: another process holds it.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(_lock_of(output_dir / LOCK_FILE, timeout=0.0))
        except Timeout:
            raise UserError(
                f"another process trains in {output_dir}: wait until it ends, or stop it, or give"
                " another `output_dir`."
            ) from None
        except OSError as error:
            warn(
                f"{output_dir} cannot be locked ({error.strerror or error}): train in it with one"
                " process alone."
            )
        yield
