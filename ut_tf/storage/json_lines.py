"""Files with a JSON object a line, of which a line may be damaged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ut_tf.storage.files import MOST_LINES_BYTES, read_bounded

_BEYOND_STEPS = 10**18


def objects(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the objects of a file that is there, without the lines that hold none: the last one of
    a process that was killed while it wrote, or one with a damaged byte.
    """
    if not path.is_file():
        return
    for line in read_bounded(path, MOST_LINES_BYTES).split(b"\n"):
        values = read_object(line)
        if values is not None:
            yield values


def read_object(line: bytes) -> dict[str, Any] | None:
    """The JSON object in a line; None where there is none."""
    try:
        values = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def step_of(values: dict[str, Any]) -> int | None:
    """The step that an object is of; None: it names none."""
    step = values.get("step")
    if not isinstance(step, int) or isinstance(step, bool):
        return None
    return step if 0 <= step < _BEYOND_STEPS else None
