"""Files that are complete or absent, and files that others may have written."""

import errno
import glob
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterable
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, cast

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
      OSError: as of ``open_regular``, or it is larger.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            reason = f"it has {size:,} bytes, expected at most {most:,}"
            # EFBIG is an error of writing.
            raise OSError(errno.EINVAL, reason, str(path))
        # Python takes the memory for as many bytes as are asked for before it reads.
        return file.read(min(most, size + 1))


def read_vocabulary(path: Path) -> bytes:
    """The content of a vocabulary file; errors as of ``read_bounded``."""
    return read_bounded(path, MOST_VOCABULARY_BYTES)


def open_regular(path: Path) -> BufferedReader:
    """Opens a file to read it that others may have written; a link counts as what it leads to.

    Raises:
      OSError: it cannot be read, or is no regular file (a device would never end, a pipe would
        never begin).
    """
    # Before it is opened, too: that alone makes some devices do something.
    _check_regular(path.stat().st_mode, path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    return cast("BufferedReader", _opened(descriptor, "rb", path))


def open_to_append(path: Path) -> BinaryIO:
    """Opens a file to read it and to write at its end; makes it where there is none.

    Raises:
      OSError: it cannot be written, or is a link or no regular file: in a folder that others have
        written it may lead out of it.
    """
    return _opened(_without_links(path, os.O_RDWR | os.O_APPEND), "ab+", path)


def check_no_link(path: Path) -> None:
    """Raises OSError where a file to be written is there and is a link or no regular file."""
    if path.is_symlink():
        raise OSError(errno.ELOOP, f"{path.name} is a link", str(path))
    if path.exists():
        _check_regular(path.stat().st_mode, path)


def _without_links(path: Path, flags: int) -> int:
    """A descriptor of a file to be written, made where there is none."""
    check_no_link(path)
    return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)


def _opened(descriptor: int, mode: str, path: Path) -> BinaryIO:
    try:
        _check_regular(os.fstat(descriptor).st_mode, path)
    except OSError:
        os.close(descriptor)
        raise
    return cast("BinaryIO", os.fdopen(descriptor, mode))


def _check_regular(mode: int, path: Path) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "no regular file, but a pipe or a device", str(path))


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal; errors as of ``open_regular``."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
