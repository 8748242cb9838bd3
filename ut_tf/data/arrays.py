"""Arrays of prepared data in numpy's files: no objects are read, and no more than a file holds.

::

    with open_arrays(path) as arrays:      # .npz
        ids = arrays["ids"]
    starts = read_array(path)              # .npy
    write_arrays(path, ids=ids)            # complete or absent
"""

import contextlib
import io
import math
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from ut_tf.data.unpacking import check_unpacked
from ut_tf.storage.files import open_regular, write_bytes

_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


@contextlib.contextmanager
def open_arrays(path: Path) -> Iterator[Mapping[str, npt.NDArray[Any]]]:
    """A context with the arrays of an .npz file by name, each read when it is asked for.

    Raises:
      ValueError: an array holds objects (which would be unpickled, and so could execute anything),
        or declares more bytes than the file holds, which numpy would take memory for.
      zipfile.BadZipFile: it is no such file.
      UserError: it unpacks to more than it may.
    """
    with open_regular(path) as opened, zipfile.ZipFile(opened) as archive:
        check_unpacked(archive.infolist(), path)
        for member in archive.infolist():
            with archive.open(member) as file:
                _check_declared(file, member.file_size, member.filename)
    with np.load(path, allow_pickle=False) as arrays:
        yield arrays


def write_arrays(path: Path, **arrays: npt.NDArray[Any]) -> None:
    """Writes an .npz file with these arrays; it is complete or absent."""
    content = io.BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]
    write_bytes(path, content.getvalue())


def read_array(path: Path, mmap: bool = False) -> npt.NDArray[Any]:
    """The array of an .npy file.

    Args:
      path: of the file.
      mmap: whether it is mapped from the file, not read.

    Raises:
      ValueError: as of ``open_arrays``.
    """
    with open_regular(path) as file:
        _check_declared(file, path.stat().st_size, path.name)
    array: npt.NDArray[Any] = np.load(path, mmap_mode="r" if mmap else None, allow_pickle=False)
    return array


def _check_declared(file: IO[bytes], size: int, name: str) -> None:
    """Raises ValueError where an array's header declares objects, or more than `size` bytes."""
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"{name} is of format {version}")
    shape, _, kind = _HEADERS[version](file)
    if kind.hasobject:
        raise ValueError(f"{name} holds objects")
    if math.prod(shape) * kind.itemsize > size:
        raise ValueError(f"{name} declares {math.prod(shape) * kind.itemsize:,} of {size:,} bytes")
