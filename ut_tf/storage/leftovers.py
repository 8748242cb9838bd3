"""Folders that are filled beside their place, and what killed processes leave of them.

::

    with filled_beside(folder) as temporary:   # .tmp-<name>-<process>, removed in the end
        ...
        temporary.rename(folder)

A process locks the folder that it fills. The system gives the lock up for a process that is killed,
so whoever gets it may remove the folder. Where a file system has no locks, leftovers stay.
"""

import fcntl
import glob
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_RETRY_SECONDS = 0.01
_FILLED = "tmp"


def beside(folder: Path, kind: str) -> Path:
    """The place of this process beside `folder`, for a folder of that kind."""
    return folder.with_name(f".{kind}-{folder.name}-{os.getpid()}")


def left_beside(folder: Path, kind: str) -> list[Path]:
    """What any processes have beside `folder`, for folders of that kind."""
    # Of mean-best there is .tmp-mean-best-7, which is none of mean's.
    name = re.compile(rf"\.{kind}-{re.escape(folder.name)}-[0-9]+")
    candidates = folder.parent.glob(f".{kind}-{glob.escape(folder.name)}-*")
    return sorted(path for path in candidates if name.fullmatch(path.name))


@contextmanager
def filled_beside(folder: Path) -> Iterator[Path]:
    """A new folder beside `folder`; removed in the end, unless it was renamed.

    Those that killed processes have left for the same place are removed first.
    """
    for leftover in left_beside(folder, _FILLED):
        remove_abandoned(leftover)
    temporary = beside(folder, _FILLED)
    descriptor = _made_and_locked(temporary)
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        os.close(descriptor)


def remove_abandoned(path: Path) -> None:
    """Removes a folder or a file, unless a process holds its lock."""
    with locked_at_once(path) as is_ours:
        if is_ours and path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif is_ours:
            path.unlink(missing_ok=True)


@contextmanager
def locked_at_once(path: Path) -> Iterator[bool]:
    """Holds the lock on a folder or a file within the context; gives whether that was possible."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        yield False
        return
    try:
        yield lock(descriptor)
    finally:
        os.close(descriptor)


def lock(descriptor: int) -> bool:
    """Locks what a descriptor has opened until it is closed; False where another process holds the
    lock, or the file system has none.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _made_and_locked(folder: Path) -> int:
    """Makes a folder; a descriptor of it that holds its lock, where the file system has any."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # Another process has taken it for a leftover, in the moment before it was locked.
            os.close(descriptor)
            time.sleep(_RETRY_SECONDS)
            continue
        except OSError:
            # Without locks nobody removes leftovers, and the number of a killed process comes back.
            _empty(folder)
            return descriptor
        if folder.is_dir() and os.path.samestat(os.fstat(descriptor), folder.stat()):
            return descriptor
        os.close(descriptor)


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
