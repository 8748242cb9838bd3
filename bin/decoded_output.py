"""The answers that a command writes: a line each, at once, to a file or to standard output."""

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from ut_tf.errors import UserError
from ut_tf.inference.text_files import Speed, line_bytes
from ut_tf.notices import printable


def write(
    command: str, answers: Iterator[str], destination: Path | None, total: int | None
) -> None:
    """Writes a line for each answer, and at the end how long they took.

    Args:
      command: its name, for the line on stderr.
      answers: what a line of the input is answered with.
      destination: the file; None: standard output.
      total: lines that the input has, where that is known.

    Raises:
      UserError: the file cannot be written.
    """
    speed, is_shown = Speed(command, total), destination is None and sys.stdout.isatty()
    with _opened(destination) as put:
        for answer in answers:
            # A stranger's vocabulary may hold what a terminal would take for orders.
            put(line_bytes(printable(answer) if is_shown else answer))
            speed.add()
    if not is_shown:
        speed.finish()


@contextlib.contextmanager
def _opened(destination: Path | None) -> Iterator[Callable[[bytes], None]]:
    """Gives what writes to standard output, or to the file, at once."""
    if destination is None:
        sys.stdout.flush()
        yield functools.partial(_put, sys.stdout.buffer)
        return
    with writable(destination):
        destination.parent.mkdir(parents=True, exist_ok=True)
        file = destination.open("wb")

    def put(content: bytes) -> None:
        with writable(destination):
            _put(file, content)

    try:
        yield put
    finally:
        with writable(destination):
            file.close()


def _put(file: IO[bytes], content: bytes) -> None:
    file.write(content)
    file.flush()


@contextlib.contextmanager
def writable(path: Path) -> Iterator[None]:
    """Turns an OSError within, where nothing but `path` is used, into a UserError."""
    try:
        yield
    except OSError as error:
        raise unwritable(path, error.strerror or str(error)) from error


def unwritable(path: Path, reason: str) -> UserError:
    """The error of a file that cannot be written, for `reason`."""
    return UserError(f"{path} cannot be written ({reason}): name another --decode_to_file.")
