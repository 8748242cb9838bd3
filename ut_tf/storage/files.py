"""Files that are complete or absent."""

from __future__ import annotations

import glob
import hashlib
import os
import tempfile
from pathlib import Path

_TEMPORARY_SUFFIX = ".tmp"


def write_text(path: Path, text: str) -> None:
    """Writes a file, in UTF-8, that is complete or absent, whenever the program stops."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a file that is complete or absent, whenever the program stops."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(
        dir=path.parent, prefix=f".{path.name}.", suffix=_TEMPORARY_SUFFIX
    )
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
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


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
