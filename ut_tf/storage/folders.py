"""The folders that data and archives go to by default, and folders that can be written."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ut_tf.errors import UserError
from ut_tf.paths import expanded


def default_data_dir() -> Path:
    """$UT_TF_DATA_DIR or, where it is not set, ~/.cache/ut_tf/data.

    Raises:
      UserError: there is no home folder.
    """
    given = os.environ.get("UT_TF_DATA_DIR")
    return expanded(given) if given else _in_cache("data", "data_dir")


def default_tmp_dir() -> Path:
    """~/.cache/ut_tf/downloads.

    Raises:
      UserError: there is no home folder.
    """
    return _in_cache("downloads", "tmp_dir")


def _in_cache(name: str, argument: str) -> Path:
    try:
        return expanded(f"~/.cache/ut_tf/{name}")
    except UserError as error:
        raise UserError(
            f"~/.cache/ut_tf/{name}: there is no home folder (HOME is not set): give `{argument}`."
        ) from error


def refusal_to_write(folder: Path) -> str | None:
    """Why a folder cannot be made or written; None: no reason is known without making it."""
    # Path.exists raises PermissionError below a folder that may not be searched.
    nearest = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if not nearest.is_dir():
        return os.strerror(errno.ENOTDIR)
    longest = os.pathconf(nearest, "PC_NAME_MAX")
    if any(len(os.fsencode(name)) > longest for name in folder.parts):
        return os.strerror(errno.ENAMETOOLONG)
    return None if os.access(nearest, os.W_OK | os.X_OK) else os.strerror(errno.EACCES)


def check_writable(folder: Path, argument: str = "output_dir") -> None:
    """Raises UserError where a folder cannot be made or written, as far as this is known without
    making it; arguments as for ``make_writable``.
    """
    if reason := refusal_to_write(folder):
        raise _unwritable(folder, argument, reason)


def make_writable(folder: Path) -> None:
    """Makes a folder, and tries to write in it.

    Args:
      folder: of what is to be written, which messages call `output_dir`.

    Raises:
      UserError: it cannot be made or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _unwritable(folder, "output_dir", error.strerror or str(error)) from error


@contextmanager
def no_empty_folders_left(folder: Path, *names: str) -> Iterator[None]:
    """Where the body raises, `folder` and those above it that it made are removed again, unless
    something lies in them.

    Args:
      folder: the innermost of them.
      names: of files in `folder` that do not count, and are removed with it.
    """
    new = [path for path in (folder, *folder.parents) if not os.path.lexists(path)]
    try:
        yield
    except BaseException:
        with suppress(OSError):
            for name in names if new else ():
                (folder / name).unlink(missing_ok=True)
            for path in new:
                path.rmdir()
        raise


def _unwritable(folder: Path, argument: str, reason: str) -> UserError:
    return UserError(
        f"`{argument}`={folder} cannot be written: {reason}; name another directory or change its"
        " permissions."
    )
