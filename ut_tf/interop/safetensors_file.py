"""Arrays of a safetensors file of another system, of any type of number."""

import os
from pathlib import Path
from typing import Any

import numpy.typing as npt

from ut_tf.errors import file_errors
from ut_tf.interop.stored_numbers import MOST_BYTES, numbers_of
from ut_tf.storage.files import read_bounded


def read_safetensors(path: str | os.PathLike[str]) -> dict[str, npt.NDArray[Any]]:
    """The arrays by name, read-only; bfloat16 as float32. Notes in the header are left out.

    Raises:
      UserError: the file is damaged, has more than 2 GB, or numbers of types that numpy lacks.
    """
    from safetensors import SafetensorError, deserialize

    with file_errors(
        os.fspath(path),
        "copy it again from where it was saved",
        "read as a safetensors file",
        also=(SafetensorError, ValueError, OverflowError),
    ):
        # It checks the header: sizes, shapes, and that each byte belongs to exactly one array.
        content = read_bounded(Path(path), MOST_BYTES)
        stored = deserialize(content)  # type: ignore[no-untyped-call]
        return {
            name: numbers_of(array["dtype"], array["data"]).reshape(array["shape"])
            for name, array in stored
        }
