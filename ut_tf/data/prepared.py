"""Prepared data: made once by one process, read with one error for every kind of damage.

How it is used::

    folder = PreparedFolder(path, needed=["words.txt"], fields={"vocab_size": int})
    folder.make_once(lambda: ...)     # writes words.txt and, last, folder.finish({"vocab_size": 9})
    folder.summary()["vocab_size"]
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ut_tf.errors import UserError, file_errors
from ut_tf.notices import warn
from ut_tf.storage.files import read_bounded, remove_leftovers, sha256_of, write_text
from ut_tf.storage.locks import exclusive

if TYPE_CHECKING:
    from ut_tf.data.problem import Problem

SUMMARY_FILE = "summary.json"
# TensorFlow's errors and those that wrap others have no errno, but the system's words in their
# text.
_REFUSALS = (
    *(
        os.strerror(code)
        for code in (
            errno.EACCES,
            errno.EPERM,
            errno.EROFS,
            errno.ENOSPC,
            errno.EDQUOT,
            errno.EIO,
            errno.EFBIG,
        )
    ),
    # tensorflow-datasets looks before it writes.
    "Not enough disk space",
)


class DamageError(Exception):
    """Prepared data is not as it was written; ``guard_reading`` makes it a UserError."""


class NotPreparedError(UserError):
    """The data of a problem is not in the data directory."""


class PreparedFolder:
    """A folder that is filled once; its summary.json, written last, says that it is complete.

    Args:
      path: the folder.
      needed: names of the files and folders in it without which it is not complete.
      fields: what the summary must hold, by name, and of which type.
      digest_keys: names of files and the summary's keys that hold their sha256, where it does not
        stand in the summary's "sha256" by the file's name.
    """

    def __init__(
        self,
        path: Path,
        needed: Iterable[str],
        fields: Mapping[str, type],
        digest_keys: Mapping[str, str] | None = None,
    ) -> None:
        self.path = path
        self._needed = tuple(needed)
        self._fields = dict(fields)
        self._digest_keys = dict(digest_keys or {})

    def is_complete(self) -> bool:
        """Whether the summary and all needed files are there."""
        return (self.path / SUMMARY_FILE).is_file() and all(
            (self.path / name).exists() for name in self._needed
        )

    def make_once(self, make: Callable[[], None]) -> bool:
        """Fills the folder unless it is complete; returns whether `make` was called.

        Several workers may start at once with the same empty folder: the first fills it, the others
        wait and find it complete.

        Args:
          make: writes the files and ends with ``finish``.
        """
        if self.is_complete():
            return False
        with exclusive(self.path.with_name(f".{self.path.name}.lock")):
            # Another process may have filled it in the meantime.
            if self.is_complete():
                return False
            remove_leftovers(self.path)
            make()
        return True

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Writes the summary; everything else must be written before."""
        write_text(self.path / SUMMARY_FILE, json.dumps(summary, indent=2) + "\n")

    def digests(self, names: Iterable[str]) -> dict[str, str]:
        """The sha256 of files in the folder, by name."""
        return {name: sha256_of(self.path / name) for name in names}

    def summary(self) -> dict[str, Any]:
        """The summary.

        Raises:
          UserError: it cannot be read, lacks a field, or a needed file is not as it was written.
        """
        with self.reading():
            summary = json.loads(read_bounded(self.path / SUMMARY_FILE))
            if not isinstance(summary, dict):
                raise DamageError(f"{SUMMARY_FILE} holds no object")
            for name, kind in self._fields.items():
                if not isinstance(summary.get(name), kind):
                    raise DamageError(f"{SUMMARY_FILE} has no {name!r}")
            for name in self._needed:
                self._check_digest(summary, name)
        return summary

    def verified(self, name: str) -> Path:
        """The path of a file in the folder.

        Raises:
          UserError: the file is missing, or its content is not as it was written.
        """
        summary = self.summary()
        with self.reading():
            self._check_digest(summary, name)
        return self.path / name

    def reading(self) -> contextlib.AbstractContextManager[None]:
        """A context in which any error means that the folder is damaged."""
        return guard_reading(self.path)

    def require(self, problem: Problem, data_dir: Path) -> Self:
        """The folder itself; raises NotPreparedError if it is not complete."""
        if not self.is_complete():
            raise NotPreparedError(
                f"{problem.name} is not prepared in {data_dir}: prepare it with ut-datagen, or name"
                " the `data_dir` that has it."
            )
        return self

    def refuse_changed_sources(self) -> None:
        """Raises UserError if one of the files in the summary's "files" (see ``source_record``) is
        there, but has changed.
        """
        with self.reading():
            records = self.summary()["files"]
            sources = [(Path(record["path"]), int(record["size"]), record) for record in records]
        for path, size, record in sources:
            if path.is_file() and not _is_same(path, size, record):
                raise UserError(
                    f"{path} has changed since {self.path} was prepared from it: put the former"
                    " file back, or delete that folder and begin new runs with what is prepared"
                    " then."
                )

    def warn_of_other_sources(self, problem: Problem, sources: str) -> None:
        """Prints that `sources`, present now, are not those that the data was prepared from."""
        warn(
            f"{problem.name} uses the data in {self.path}, prepared earlier from other"
            f" files than {sources}: delete that folder to prepare it from these."
        )

    def _check_digest(self, summary: Mapping[str, Any], name: str) -> None:
        key = self._digest_keys.get(name)
        digest = summary[key] if key else summary.get("sha256", {}).get(name)
        if digest is not None and sha256_of(self.path / name) != digest:
            raise DamageError(f"{name} is not as it was written")


def source_record(path: Path, digest: bool = True) -> dict[str, Any]:
    """A summary's record of a source file: path and size and, with `digest`, time and sha256.

    Raises:
      UserError: the file cannot be read.
    """
    with file_errors(path, "check its name and permissions"):
        status = path.stat()
        record: dict[str, Any] = {"path": str(path), "size": status.st_size}
        if digest:
            record |= {"modified": status.st_mtime_ns, "sha256": sha256_of(path)}
    return record


def check_readable(paths: Iterable[Path]) -> None:
    """Raises UserError where one of the files cannot be read; their content is not looked at."""
    for path in paths:
        source_record(path, digest=False)


def check_sources(paths: Iterable[Path], data_dir: Path) -> None:
    """Raises UserError where one of the files cannot be read and nothing in `data_dir` was prepared
    from it; needs no problem, so it can be asked first of all.
    """
    for path in paths:
        try:
            check_readable([path])
        except UserError:
            if not _was_prepared(path, data_dir):
                raise


def _was_prepared(path: Path, data_dir: Path) -> bool:
    """Whether a summary in `data_dir` names the file."""
    written = json.dumps(str(path)).encode()
    for summary in data_dir.glob(f"*/*/{SUMMARY_FILE}"):
        with contextlib.suppress(OSError):
            if written in read_bounded(summary):
                return True
    return False


def prepare_data(problem: Problem, data_dir: Path, tmp_dir: Path) -> None:
    """Prepares the data in `data_dir`, with archives from `tmp_dir`; neither needs to be writable
    if it is already there.

    Raises:
      UserError: the data cannot be had, or a directory cannot be read or written.
    """
    first = [refusal for folder in (data_dir, tmp_dir) if (refusal := _make(folder))]
    try:
        problem.prepare(data_dir, tmp_dir)
    except UserError:
        raise
    except Exception as error:
        errors = [*first, *_chain(error)]
        reason = next((text for cause in errors if (text := _refusal(cause))), None)
        if reason is None:
            raise
        raise UserError(
            f"the data of {problem.name or type(problem).__name__} cannot be prepared in {data_dir}"
            f" with archives in {tmp_dir} ({reason}): free or permit what is refused, or give"
            " another `data_dir` and `tmp_dir`."
        ) from error


@contextlib.contextmanager
def guard_reading(folder: Path) -> Iterator[None]:
    """Turns whatever reading prepared data may raise into one error; tensorflow-datasets has no
    common class for its own.
    """
    import tensorflow as tf

    try:
        yield
    except (UserError, MemoryError, tf.errors.ResourceExhaustedError):
        raise
    except PermissionError as error:
        raise UserError(
            f"{error.filename or folder} cannot be read: {error.strerror}; change its"
            " permissions, or give another `data_dir`."
        ) from error
    except Exception as error:
        reason = str(error).strip()[:200]
        if not isinstance(error, DamageError):
            reason = f"{type(error).__name__}: {reason}"
        raise UserError(
            f"{folder} is damaged ({reason}): delete it, it will be prepared again."
        ) from error


def _is_same(path: Path, size: int, record: Mapping[str, Any]) -> bool:
    status = path.stat()
    if status.st_size != size:
        return False
    if "sha256" not in record:
        return True
    return bool(status.st_mtime_ns == record.get("modified") or sha256_of(path) == record["sha256"])


def _make(folder: Path) -> OSError | None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return error
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yields an error, then its cause, then that one's cause, and so on."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _refusal(error: BaseException) -> str | None:
    """The refusal of the operating system in words, if the error is one."""
    if isinstance(error, OSError) and error.errno is not None:
        return f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)
    text = str(error)
    return next(
        (f"{words}: {' '.join(text.split())[:200]}" for words in _REFUSALS if words in text), None
    )
