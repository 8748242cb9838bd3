"""Files that are complete or absent, and files that others may have written."""

from __future__ import annotations

import errno
import glob
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

_TEMPORARY_SUFFIX = ".tmp"
MOST_JSON_BYTES = 16_000_000
"""Of a file with one JSON value: values in memory take ten times as much and more."""
MOST_LINES_BYTES = 1_000_000_000
"""Of a file that grows by a JSON object a line."""
MOST_VOCABULARY_BYTES = 1_000_000_000
"""Of a file with a symbol a line, or with sentencepiece's model."""


def write_text(path: Path, text: str) -> None:
    """Writes a file, in UTF-8, that is complete or absent, whenever the program stops."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a file that is complete or absent, whenever the program stops."""
    write_parts(path, (content,))


def write_parts(path: Path, parts: Iterable[bytes]) -> None:
    """Writes a file, part after part, that is complete or absent, whenever the program stops."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(
        dir=path.parent, prefix=f".{path.name}.", suffix=_TEMPORARY_SUFFIX
    )
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)


def remove_leftovers(folder: Path, *names: str) -> None:
    """Removes what killed processes have left of files that they were writing.

    Args:
      folder: in which no other process writes them.
      names: of the files; none: all.
    """
    patterns = [f".{glob.escape(name)}.*{_TEMPORARY_SUFFIX}" for name in names]
    for pattern in patterns or [f".*{_TEMPORARY_SUFFIX}"]:
        for leftover in folder.glob(pattern):
            leftover.unlink(missing_ok=True)


def read_bounded(path: Path, most: int = MOST_JSON_BYTES) -> bytes:
    """The content of a file that others may have written.

    Args:
      path: of the file; a link counts as what it leads to.
      most: bytes that it may have, so that it cannot fill the memory.

    Raises:
      OSError: it cannot be read, is larger, or is no regular file (a device would never end, a pipe
        would never begin).
    """
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "no regular file", str(path))
    if status.st_size > most:
        reason = f"it has {status.st_size:,} bytes, expected at most {most:,}"
        # EFBIG is an error of writing.
        raise OSError(errno.EINVAL, reason, str(path))
    with path.open("rb") as file:
        # Python takes the memory for as many bytes as are asked for before it reads.
        return file.read(min(most, os.fstat(file.fileno()).st_size + 1))


def open_to_append(path: Path) -> BinaryIO:
    """Opens a file to read it and to write at its end; makes it where there is none.

    Raises:
      OSError: it cannot be written, or is a link or no regular file: in a folder that others have
        written it may lead out of it.
    """
    if path.is_symlink():
        raise OSError(errno.ELOOP, f"{path.name} is a link", str(path))
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(path, flags, 0o666)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, f"{path.name} is no regular file", str(path))
    return os.fdopen(descriptor, "ab+")


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
