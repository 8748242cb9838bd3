"""A disk of a few megabytes, which can be filled and made read-only.

It is a tmpfs in a mount namespace of this process's own, so that no rights are needed where the
system lets users have namespaces; ``enter_namespace`` starts the program anew in one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PAGE = 4096
_INSIDE = "UT_TF_FAULTS_NAMESPACE"
_FILLER = ".filler"


def enter_namespace() -> bool:
    """Starts this program anew where it may mount; returns False where the system permits none."""
    if os.environ.get(_INSIDE):
        return True
    unshare = shutil.which("unshare")
    words = [str(unshare), "--user", "--map-root-user", "--mount"]
    if unshare is not None and subprocess.run([*words, "true"], check=False).returncode == 0:
        os.environ[_INSIDE] = "1"
        os.execv(words[0], [*words, sys.executable, *sys.argv])
    return False


class SmallDisk:
    """A mounted disk.

    Args:
      folder: where it is mounted.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def leave(self, pages: int) -> None:
        """Takes all room but so many pages of 4,096 bytes."""
        self.free()
        state = os.statvfs(self.folder)
        taken = state.f_bavail * state.f_frsize - pages * PAGE
        with (self.folder / _FILLER).open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(taken, 1))

    def free(self) -> None:
        """Gives the room back that ``leave`` took."""
        (self.folder / _FILLER).unlink(missing_ok=True)

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Nothing can be written in the context."""
        self._remount("ro")
        try:
            yield
        finally:
            self._remount("rw")

    def clear(self) -> None:
        """Removes everything on it."""
        for path in self.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _remount(self, mode: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{mode}", str(self.folder)], check=True)


@contextmanager
def small_disk(folder: Path, megabytes: int = 32) -> Iterator[SmallDisk]:
    """Mounts a disk on an empty folder for the context."""
    folder.mkdir(parents=True, exist_ok=True)
    options = f"size={megabytes}m"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)
