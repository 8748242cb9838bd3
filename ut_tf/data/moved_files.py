"""Files of a problem that have been moved: known by their content.

::

    arguments = where_same("classify_files", stored.problem_args, run.problem_args, [data_dir])

A run's data is prepared under the names that its files had, with their checksums.
"""

import contextlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ut_tf import registry
from ut_tf.data.prepared import SUMMARY_FILE
from ut_tf.storage.files import read_bounded, sha256_of


def where_same(
    problem: str, stored: Mapping[str, Any], given: Mapping[str, Any], folders: Iterable[Path]
) -> dict[str, Any]:
    """The given arguments, with the stored names of those files that have the content that the
    stored ones had when data was prepared from them.

    Args:
      problem: the problem's registered name.
      stored, given: its arguments.
      folders: data directories.
    """
    declared = registry.problems.file_arguments(problem)
    moved = {
        name: value
        for name, value in given.items()
        if name in declared and name in stored and stored[name] != value
    }
    if not moved:
        return dict(given)
    digests = _digests(folders)
    kept = {
        name: stored[name]
        for name, value in moved.items()
        if _are_same(_names(stored[name]), _names(value), digests)
    }
    return {**given, **kept}


def _are_same(former: list[str], now: list[str], digests: Mapping[str, str]) -> bool:
    """Whether each file has the checksum that is known of the former one in its place."""
    if len(former) != len(now):
        return False
    try:
        return all(
            before == after or digests.get(before) == sha256_of(Path(after))
            for before, after in zip(former, now, strict=True)
        )
    except OSError:
        return False


def _names(value: Any) -> list[str]:
    return [str(name) for name in value] if isinstance(value, list) else [str(value)]


def _digests(folders: Iterable[Path]) -> dict[str, str]:
    """The checksums of source files by name, in the summaries of prepared data."""
    digests: dict[str, str] = {}
    for path in (path for folder in folders for path in folder.glob(f"*/*/{SUMMARY_FILE}")):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            for record in json.loads(read_bounded(path))["files"]:
                digests[str(record["path"])] = str(record["sha256"])
    return digests
