"""The newest version in a folder: a new one takes the place of the old one without interruption."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from ut_tf.errors import UserError
from ut_tf.serving.batching import Model
from ut_tf.serving.versions import newest_saved, saved_versions


class NewestVersion:
    """A context in which ``model`` is the highest version in a folder.

    Args:
      export_dir: holds the versions, or is one.
      load: loads the version of a folder and a number.
      report: called with a sentence about each version that is served or cannot be.
      interval: seconds between two looks at the folder.

    Raises:
      UserError: there is no version, or the highest cannot be loaded.
    """

    def __init__(
        self,
        export_dir: Path,
        load: Callable[[Path, int], Model],
        report: Callable[[str], None],
        interval: float = 2.0,
    ) -> None:
        self._export_dir = export_dir
        self._load = load
        self._report = report
        self._interval = interval
        self._ended = threading.Event()
        self._seen, folder = newest_saved(export_dir)
        self.model = load(folder, self._seen)
        self._thread = threading.Thread(target=self._watch, name="versions", daemon=True)

    def __enter__(self) -> NewestVersion:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        # Not joined: it may be loading a model.
        self._ended.set()

    def refresh(self) -> None:
        """Loads the highest version if it is another one than at the last look."""
        versions = saved_versions(self._export_dir)
        highest = max(versions, default=self._seen)
        if highest == self._seen:
            return
        self._seen = highest
        try:
            self.model = self._load(versions[highest], highest)
        except Exception as error:
            # A server outlives an export that is broken.
            reason = error if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
            self._report(f"version {self.model.version} stays: {reason}")
            return
        self._report(f"version {highest} is served now")

    def _watch(self) -> None:
        while not self._ended.wait(self._interval):
            try:
                self.refresh()
            except OSError as error:
                self._report(f"version {self.model.version} stays: {error}")
