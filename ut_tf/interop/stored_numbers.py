"""Numbers as files of weights store them, little-endian; types have safetensors' names."""

from typing import Any

import numpy as np
import numpy.typing as npt

MOST_BYTES = 2_000_000_000
"""Of a file of weights, which is read into memory as a whole."""

_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "<i1",
    "U8": "<u1",
    "BOOL": "<u1",
}


def bytes_of(kind: str) -> int:
    """The bytes that a number of type `kind` takes in a file."""
    return np.dtype(_DTYPES[kind]).itemsize


def numbers_of(kind: str, content: bytes | bytearray) -> npt.NDArray[Any]:
    """The numbers of type `kind` in `content`, in one dimension and read-only; bfloat16 as float32,
    which has all of its values.

    Raises:
      ValueError: there is no such type here.
    """
    if kind not in _DTYPES:
        raise ValueError(f"its numbers are {kind}, expected one of {', '.join(_DTYPES)}")
    values: npt.NDArray[Any] = np.frombuffer(content, _DTYPES[kind])
    if kind == "BF16":
        values = values.astype("<u4")
        values <<= 16
        values = values.view("<f4")
    elif kind == "BOOL":
        values = values != 0
    values.flags.writeable = False
    return values
