"""The newest version in a folder: a new one takes the place of the old one without interruption."""

import threading
from collections.abc import Callable
from pathlib import Path

from ut_tf.errors import UserError
from ut_tf.serving.batching import Model
from ut_tf.serving.versions import newest_saved, saved_versions

_Files = dict[str, tuple[int, int]]
"""Size and time of change by path."""
_LOOK_SECONDS = 2.0


class NewestVersion:
    """A context in which ``model`` is the highest version in a folder.

    Args:
      export_dir: holds the versions, or is one.
      load: loads the version of a folder and a number.
      report: called with a sentence about each version that is served or cannot be.

    Raises:
      UserError: there is no version, or the highest cannot be loaded.
    """

    def __init__(
        self, export_dir: Path, load: Callable[[Path, int], Model], report: Callable[[str], None]
    ) -> None:
        self._export_dir = export_dir
        self._load = load
        self._report = report
        self._ended = threading.Event()
        number, folder = newest_saved(export_dir)
        self.model = load(folder, number)
        # The version that could not be loaded, and its files then.
        self._failed: tuple[int, _Files] | None = None
        self._thread = threading.Thread(target=self._watch, name="versions", daemon=True)

    def __enter__(self) -> "NewestVersion":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        # Not joined: it may be loading a model.
        self._ended.set()

    def refresh(self) -> None:
        """Loads the highest version if it is another one than is served; one that could not be
        loaded again when its files have changed.
        """
        versions = saved_versions(self._export_dir)
        highest = max(versions, default=self.model.version)
        if highest == self.model.version:
            return
        tried = highest, _files_of(versions[highest])
        if tried == self._failed:
            return
        try:
            self.model = self._load(versions[highest], highest)
        except Exception as error:
            # A server outlives an export that is broken, or that is still being copied.
            self._failed = tried
            reason = error if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
            self._report(f"version {self.model.version} stays: {reason}")
            return
        self._report(f"version {highest} is served now")

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            try:
                self.refresh()
            except OSError as error:
                self._report(f"version {self.model.version} stays: {error}")


def _files_of(folder: Path) -> _Files:
    states = {str(path): path.stat() for path in folder.rglob("*")}
    return {path: (state.st_size, state.st_mtime_ns) for path, state in states.items()}
