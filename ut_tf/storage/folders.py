"""The folders that data and archives go to by default, and folders that can be written."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ut_tf.errors import UserError


def default_data_dir() -> Path:
    """$UT_TF_DATA_DIR or, where it is not set, ~/.cache/ut_tf/data."""
    return Path(os.environ.get("UT_TF_DATA_DIR") or "~/.cache/ut_tf/data").expanduser()


def default_tmp_dir() -> Path:
    """~/.cache/ut_tf/downloads."""
    return Path("~/.cache/ut_tf/downloads").expanduser()


def absolute(path: str | Path) -> Path:
    """The path from the root, with ~ expanded; symbolic links stay."""
    return Path(os.path.abspath(Path(path).expanduser()))


def make_writable(folder: Path) -> None:
    """Makes a folder, and tries to write in it.

    Raises:
      UserError: it cannot be made or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(
            f"`output_dir`={folder} cannot be written: {error.strerror or error}; name another"
            " directory or change its permissions."
        ) from error
