"""The versions of a served model: folders whose names are numbers; the highest is served. Needs no
TensorFlow.
"""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from ut_tf.errors import UserError, file_errors
from ut_tf.storage.leftovers import filled_beside

ADVICE = "name another `export_dir`, or change its permissions"
SAVED_MODEL = "saved_model.pb"
SUMMARY_FILE = "assets.extra/ut_tf.json"


def new_version(export_dir: Path, version: int | None = None) -> Path:
    """The folder of a version that does not exist yet.

    Args:
      export_dir: holds the versions of one model, or will hold them.
      version: number from 0; None: one more than the highest there is, or 1.

    Raises:
      UserError: the version exists or cannot be, `export_dir` is a file or inside one, or it
        cannot be read or written.
    """
    if version is not None and version < 0:
        raise UserError(f"`version`={version}: expected a whole number from 0.")
    with file_errors(export_dir, ADVICE):
        numbers = _versions(export_dir)
    if version in numbers:
        raise UserError(
            f"{export_dir / str(version)} already exists: name another `version` or `export_dir`,"
            " or remove it first."
        )
    return export_dir / str(max(numbers, default=0) + 1 if version is None else version)


def saved_versions(export_dir: Path) -> dict[int, Path]:
    """The folder of each complete version in `export_dir`, or `export_dir` itself as version 1 (or
    its own number) where it is a SavedModel.
    """
    if (export_dir / SAVED_MODEL).is_file():
        return {int(export_dir.name) if export_dir.name.isdecimal() else 1: export_dir}
    if not export_dir.is_dir():
        return {}
    return {
        int(entry.name): entry
        for entry in export_dir.iterdir()
        if entry.name.isdecimal() and (entry / SAVED_MODEL).is_file()
    }


@contextlib.contextmanager
def written_version(folder: Path) -> Iterator[Path]:
    """A temporary folder to write a version in; it becomes `folder` when the context ends without
    an error.

    Raises:
      UserError: `folder` exists meanwhile.
    """
    with filled_beside(folder) as temporary:
        yield temporary
        put_in_place(temporary, folder)


def put_in_place(temporary: Path, folder: Path) -> None:
    """Renames a folder.

    Raises:
      UserError: `folder` exists.
    """
    try:
        temporary.rename(folder)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
        raise UserError(
            f"{folder} exists meanwhile: another export has written it; give the same command"
            " again, or name another `version`."
        ) from error


def newest_saved(export_dir: Path) -> tuple[int, Path]:
    """The highest version in `export_dir`, and its folder.

    Raises:
      UserError: there is none.
    """
    versions = saved_versions(export_dir)
    if not versions:
        raise UserError(
            f"`export_dir`={export_dir} holds no exported model: expected a folder that"
            " ut-exporter wrote, with a folder for each version."
        )
    number = max(versions)
    return number, versions[number]


def _versions(export_dir: Path) -> set[int]:
    there = next(path for path in (export_dir, *export_dir.absolute().parents) if path.exists())
    if not there.is_dir():
        raise UserError(
            f"{there} is a file: name the directory that holds, or will hold, the versions of the"
            " served model."
        )
    if not os.access(there, os.W_OK | os.X_OK):
        raise UserError(f"{there} cannot be written (Permission denied): {ADVICE}.")
    if there == export_dir:
        return {int(entry.name) for entry in export_dir.iterdir() if entry.name.isdecimal()}
    return set()
