"""Locks that the system gives up for a process that is killed.

Where there are no such locks (Windows, some network file systems) nothing is locked: prepare data
there before several workers start.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ut_tf.errors import UserError
from ut_tf.storage.layout import LOCK_FILE


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Waits until no other process holds the lock on `path`, and holds it within the context."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def held_alone(output_dir: Path) -> Iterator[None]:
    """Holds the lock on a run directory within the context: one process trains in it.

    Raises:
      UserError: another process holds it.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    with (output_dir / LOCK_FILE).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"another process trains in {output_dir}: wait until it ends, or stop it, or give"
                " another `output_dir`."
            ) from None
        except OSError:
            pass
        yield
