"""One process at a time trains in a run directory.

How it is used::

    with held_alone(run.output_dir):
        ...     # the same call of another process ends in a UserError as long as this one lives
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ut_tf.errors import UserError

LOCK_FILE = ".lock"


@contextmanager
def held_alone(output_dir: Path) -> Iterator[None]:
    """Holds the lock on a run directory within the context; the system gives it up for a process
    that is killed.

    Where there are no such locks (Windows, some network file systems) nothing is locked.

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
                " another output_dir."
            ) from None
        except OSError:
            pass
        yield
