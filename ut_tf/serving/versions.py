"""The versions of a served model: folders whose names are numbers; TensorFlow Serving serves the highest. Needs no TensorFlow."""

from __future__ import annotations

from pathlib import Path

from ut_tf.errors import UserError


def new_version(destination: Path, version: int | None = None) -> Path:
    """Returns the folder of a version that does not exist yet.

    Args:
      destination: holds the versions of one model, or will hold them.
      version: number from 0; None: one more than the highest there is, or 1.

    Raises:
      UserError: the version exists or cannot be, or `destination` is a file.
    """
    if destination.exists() and not destination.is_dir():
        raise UserError(f"{destination} is a file: name the directory that holds, or will hold, the versions of the served model.")
    if version is not None and version < 0:
        raise UserError(f"version={version}: expected a whole number from 0.")
    numbers = {int(entry.name) for entry in destination.iterdir() if entry.name.isdecimal()} if destination.exists() else set()
    if version in numbers:
        raise UserError(f"{destination / str(version)} already exists: name another version, another export directory, or remove it first.")
    return destination / str(max(numbers, default=0) + 1 if version is None else version)
