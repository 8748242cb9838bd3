"""Claims on a shared folder: which of several processes, on any machines, does which piece of work.

::

    claims = Claims(folder / "claims")
    with claims.take("babi_qa-ut_base-seed1") as claim:
        if claim is not None: ...        # nobody else does it

A claim is a file that is created where there is none, which one process alone can do, on network
file systems too. Its owner touches it; one that was not touched for long belongs to a process that
is gone, and another may take it over: the right to replace a claim is itself such a file.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ut_tf.errors import UserError
from ut_tf.storage.files import read_bounded

_BEAT_SECONDS = 30.0
_PATIENCE_SECONDS = 600.0


@dataclass(frozen=True)
class Claims:
    """The claims in a folder.

    Args:
      folder: holds a file for each claim.
      patience: seconds without a touch after which a claim's owner counts as gone; machines whose
        clocks differ by more must not share a folder.
      beat: seconds between touches.
    """

    folder: Path
    patience: float = _PATIENCE_SECONDS
    beat: float = _BEAT_SECONDS

    @contextlib.contextmanager
    def take(self, name: str) -> Iterator[str | None]:
        """A context that holds the claim of that name: its token; None: another process holds it.

        Raises:
          UserError: the folder cannot be written.
        """
        token = uuid.uuid4().hex
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            taken = self._take(name, token)
        except OSError as error:
            raise UserError(
                f"{self.folder} cannot be written: {error.strerror or error}; give an `output_dir`"
                " that all machines can write."
            ) from error
        if not taken:
            yield None
            return
        with self._kept_alive(name, token):
            yield token

    def owner(self, name: str) -> str:
        """The holder of a claim, "host, process 7"; empty: there is none."""
        owner = _read(self._path(name))
        return f"{owner.get('host')}, process {owner.get('process')}" if owner else ""

    def fresh(self) -> list[str]:
        """The names of the claims whose owners are not gone, sorted."""
        return sorted(path.stem for path in self.folder.glob("*.json") if not self._is_old(path))

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def _is_old(self, path: Path) -> bool:
        """Whether a file is there that was not touched for longer than patience."""
        try:
            return time.time() - path.stat().st_mtime >= self.patience
        except FileNotFoundError:
            return False  # Released just now: the next look finds it free.

    def _take(self, name: str, token: str) -> bool:
        path = self._path(name)
        owner = {"token": token, "host": socket.gethostname(), "process": str(os.getpid())}
        own = path.with_name(f".{name}.{token}")
        own.write_text(json.dumps(owner), encoding="utf-8")
        try:
            return _linked(own, path) or self._replaced(name, own, path)
        finally:
            own.unlink(missing_ok=True)

    def _replaced(self, name: str, own: Path, path: Path) -> bool:
        """Takes over the claim of a process that is gone."""
        former = _read(path).get("token", "unreadable")
        if not self._is_old(path) or not self._succeeds(former, name, own):
            return False
        # Another may have replaced it since it was read.
        if _read(path).get("token", "unreadable") != former:
            return False
        os.replace(own, path)
        return True

    def _succeeds(self, former: str, name: str, own: Path) -> bool:
        """Whether this process alone may replace the claim of `former`.

        Of those that see the same old claim, one creates a file named after its token. Where that
        process is gone before it replaced the claim, its file is replaced in the same way.
        """
        while not _linked(own, successor := own.with_name(f".{name}.after-{former}")):
            if not self._is_old(successor):
                return False
            former = _read(successor).get("token", f"{former}-unreadable")
        return True

    @contextlib.contextmanager
    def _kept_alive(self, name: str, token: str) -> Iterator[None]:
        path, ended = self._path(name), threading.Event()

        def touch() -> None:
            while not ended.wait(self.beat):
                if _read(path).get("token") == token:
                    with contextlib.suppress(OSError):
                        os.utime(path)

        thread = threading.Thread(target=touch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            # Not another's, who took it over while this process was stopped.
            if _read(path).get("token") == token:
                path.unlink(missing_ok=True)


def _read(path: Path) -> dict[str, str]:
    """What the owner wrote into a claim; nothing where it is gone, or damaged."""
    try:
        values = json.loads(read_bounded(path))
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def _linked(source: Path, target: Path) -> bool:
    """Whether `target` was not there, and is now the file `source`."""
    try:
        os.link(source, target)
    except FileExistsError:
        return False
    return True
