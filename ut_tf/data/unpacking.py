"""Packed files of others, read within bounds: nothing is extracted, and what they unpack to is
counted while it is read.

::

    with open_tar(path) as tar:               # plain, gzip, bzip2 or xz
        for member in tar: ...
    with open_gzip(path) as file:
        for line in file: ...

A file may unpack to 256 MB, or to 100 times its own size where that is more: text of this library's
problems packs to a third or a tenth. Members of an archive are read where they are regular files;
links, devices and the folders in their names are of no effect.
"""

import bz2
import contextlib
import gzip
import io
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, cast

from ut_tf.errors import UserError
from ut_tf.storage.files import open_regular

_LEAST = 256_000_000
_RATIO = 100
_CHUNK_BYTES = 1 << 20
_BUFFER_BYTES = 1 << 16
_DAMAGE = (
    *(tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError),
    *(OSError, NotImplementedError, RuntimeError),
)
_OPENERS = {b"\x1f\x8b": gzip.GzipFile, b"BZh": bz2.BZ2File, b"\xfd7zXZ\x00": lzma.LZMAFile}


def most_unpacked(packed_bytes: int) -> int:
    """The bytes that a packed file of so many may unpack to."""
    return max(_LEAST, _RATIO * packed_bytes)


@contextlib.contextmanager
def name_damage(name: object, kind: str = "") -> Iterator[None]:
    """Turns what a damaged packed file raises into one error that names it.

    Args:
      name: of the file.
      kind: what it should be, "as an archive"; empty: its end is missing.
    """
    try:
        yield
    except _DAMAGE as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # The system refused, which is told elsewhere.
        raise UserError(
            f"{name} cannot be read {kind or 'to its end'} ({error or type(error).__name__}): it is"
            " cut off or damaged, or another file; put the whole file in its place."
        ) from error


@contextlib.contextmanager
def open_gzip(path: Path) -> Iterator[IO[bytes]]:
    """A context with what a gzip file holds.

    Raises:
      UserError: while it is read, where it unpacks to more than it may.
    """
    with open_regular(path) as packed, unpacked_gzip(packed, path) as file:
        yield file


@contextlib.contextmanager
def unpacked_gzip(packed: IO[bytes], path: Path) -> Iterator[IO[bytes]]:
    """A context with what an open gzip file holds, of a pipe too; bounds as of ``open_gzip``."""
    status = os.fstat(packed.fileno())
    is_stream = not status.st_size
    with gzip.GzipFile(fileobj=packed) as unpacked:
        # Whoever writes into a pipe is asked for as much as is wanted.
        most = None if is_stream else most_unpacked(status.st_size)
        raw = _Bounded(unpacked, most, str(path))
        with io.BufferedReader(raw, _BUFFER_BYTES) as file:
            yield cast("IO[bytes]", file)


@contextlib.contextmanager
def open_tar(path: Path) -> Iterator[tarfile.TarFile]:
    """A context with a tar archive, plain or packed.

    Raises:
      tarfile.TarError: it is none.
      UserError: it unpacks to more than it may.
    """
    with open_regular(path) as file, tar_within(file, path.stat().st_size, str(path)) as tar:
        yield tar


@contextlib.contextmanager
def tar_within(file: IO[bytes], size: int, name: str) -> Iterator[tarfile.TarFile]:
    """A context with the tar archive that an open file holds.

    Args:
      file: at its beginning.
      size: its bytes.
      name: for messages.
    """
    start = file.read(8)
    file.seek(0)
    opener = next((made for mark, made in _OPENERS.items() if start.startswith(mark)), None)
    with contextlib.ExitStack() as stack:
        if opener is None:
            bounded = _Bounded(file, size, name, cuts=True)
        else:
            packed = cast("Any", opener)
            unpacked = stack.enter_context(
                packed(fileobj=file) if opener is gzip.GzipFile else packed(file)
            )
            bounded = _Bounded(unpacked, most_unpacked(size), name)
        try:
            tar = stack.enter_context(tarfile.open(fileobj=cast("IO[bytes]", bounded), mode="r:"))
        except (OSError, EOFError) as error:
            raise tarfile.ReadError(str(error) or "it ends too early") from error
        yield tar


def is_plain_file(member: tarfile.TarInfo) -> bool:
    """Whether a member of a tar archive is a file whose bytes lie in the archive: no folder, link,
    device or sparse file, whose holes may be of any size.
    """
    return member.isfile() and not member.issparse()


def check_unpacked(members: Iterable[zipfile.ZipInfo], path: Path) -> None:
    """Raises UserError where the members of a zip archive declare more than it may unpack to; no
    more than is declared is ever read.
    """
    most = most_unpacked(path.stat().st_size)
    if sum(member.file_size for member in members) > most:
        raise _too_large(str(path), most)


class _Bounded(io.RawIOBase):
    """A file that is read up to a position and no further.

    Args:
      file: can be read and, for archives, sought in.
      most: the position; None: any.
      name: for messages.
      cuts: whether what lies beyond is left out, as beyond the end of a file; otherwise it is an
        error.
    """

    def __init__(self, file: Any, most: int | None, name: str, cuts: bool = False) -> None:
        super().__init__()
        self._file, self._most, self._name, self._cuts = file, most, name, cuts
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        assert whence == os.SEEK_SET, "tarfile seeks from the beginning"
        self._check(offset)
        self._place = self._file.seek(offset)
        return self._place

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes; all that is left where it is negative. Memory is taken for what
        arrives, not for what is asked for.
        """
        parts, left = [], size
        while left:
            wanted = _CHUNK_BYTES if left < 0 else min(left, _CHUNK_BYTES)
            if self._cuts and self._most is not None:
                wanted = min(wanted, max(0, self._most - self._place))
            part = self._file.read(wanted)
            if not part:
                break
            self._place += len(part)
            self._check(self._place)
            parts.append(part)
            left -= len(part) if left > 0 else 0
        return b"".join(parts)

    def readinto(self, buffer: Any) -> int:
        part = self.read(min(len(buffer), _CHUNK_BYTES))
        buffer[: len(part)] = part
        return len(part)

    def _check(self, place: int) -> None:
        if self._most is not None and place > self._most and not self._cuts:
            raise _too_large(self._name, self._most)


def _too_large(name: str, most: int) -> UserError:
    return UserError(
        f"{name} unpacks to more than {most:,} bytes, {_RATIO} times its size: it may be made to"
        " fill memory or disk; unpack it yourself, if you trust it."
    )
