"""Names of files as a user types them, with ~ for the home folder."""

import os
from pathlib import Path

from ut_tf.errors import UserError


def expanded(path: str | os.PathLike[str]) -> Path:
    """The path with ~ or ~name as the folder that it stands for.

    Raises:
      UserError: there is no such home folder.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        first = Path(path).parts[0]
        owner = f"no user {first[1:]} has one" if len(first) > 1 else "HOME is not set"
        raise UserError(
            f"{os.fspath(path)}: the home folder {first} is not known ({owner}): give the whole"
            f" path, or ./{first} for a folder of that name."
        ) from error


def absolute(path: str | os.PathLike[str]) -> Path:
    """The path from the root, with ~ expanded; symbolic links stay.

    Raises:
      UserError: as for ``expanded``, or the working folder is gone, or the name is not UTF-8, which
        TensorFlow cannot open.
    """
    try:
        whole = os.path.abspath(expanded(path))
    except FileNotFoundError as error:
        raise UserError(
            f"{os.fspath(path)}: the folder that this was started in is gone: go to one that is"
            " there, or give the whole path."
        ) from error
    try:
        whole.encode("utf-8")
    except UnicodeEncodeError as error:
        shown = os.fsencode(whole).decode("utf-8", errors="replace")
        raise UserError(
            f"{shown}: the name is not UTF-8, and TensorFlow opens no other: rename the folder."
        ) from error
    return Path(whole)
