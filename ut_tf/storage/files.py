"""Files that are complete or absent, and folders that one process at a time fills."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Writes a file, in UTF-8, that is complete or absent, whenever the program stops."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a file that is complete or absent, whenever the program stops."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)


def sha256_of(path: Path) -> str:
    """Returns the checksum of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Waits until no other process holds the lock on `path`, and holds it; a process that ends
    gives up its locks.

    Where the system has no such locks (Windows) nothing is locked: prepare the data there before
    several workers start.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
