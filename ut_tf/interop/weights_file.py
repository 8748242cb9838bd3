"""Weights of other systems, in the formats that they are passed on in."""

import os
from pathlib import Path
from typing import Any

import numpy.typing as npt

from ut_tf.errors import UserError
from ut_tf.interop.pytorch_checkpoint import read_pth
from ut_tf.interop.safetensors_file import read_safetensors
from ut_tf.paths import expanded

_READERS = {**dict.fromkeys((".pth", ".pt", ".bin"), read_pth), ".safetensors": read_safetensors}


def weights_file(path: str | os.PathLike[str]) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a file by name; the ending of `path` tells its format.

    Raises:
      UserError: the ending is another one, or the file cannot be read.
    """
    ending = Path(path).suffix.lower()
    if ending not in _READERS:
        raise UserError(
            f"{os.fspath(path)} ends in {ending!r}, expected one of {', '.join(_READERS)}."
        )
    return _READERS[ending](expanded(path))
