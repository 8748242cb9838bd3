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
        owner = self._read(name)
        return f"{owner.get('host')}, process {owner.get('process')}" if owner else ""

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def _read(self, name: str) -> dict[str, str]:
        try:
            values = json.loads(self._path(name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}  # Gone, or just being written.
        return values if isinstance(values, dict) else {}

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
        former = self._read(name).get("token", "unreadable")
        try:
            if time.time() - path.stat().st_mtime < self.patience:
                return False
        except FileNotFoundError:
            return False  # Released just now: the next look finds it free.
        # Of those that see the same old claim, one creates this file.
        if not _linked(own, path.with_name(f".{name}.after-{former}")):
            return False
        os.replace(own, path)
        return True

    @contextlib.contextmanager
    def _kept_alive(self, name: str, token: str) -> Iterator[None]:
        path, ended = self._path(name), threading.Event()

        def touch() -> None:
            while not ended.wait(self.beat):
                if self._read(name).get("token") == token:
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
            if self._read(name).get("token") == token:
                path.unlink(missing_ok=True)


def _linked(source: Path, target: Path) -> bool:
    """Whether `target` was not there, and is now the file `source`."""
    try:
        os.link(source, target)
    except FileExistsError:
        return False
    return True
