"""Files with a JSON object a line, of which a line may be damaged.

A line that ends in ``"crc32": "0f1e2d3c"`` is compared with that checksum of the object before it;
lines of version 0.4 have none.
"""

import collections
import json
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ut_tf.notices import warn
from ut_tf.storage.files import MOST_JSON_BYTES, open_regular, read_bounded

_BEYOND_STEPS = 10**18
_SEAL = re.compile(rb', "crc32": "([0-9a-f]{8})"\}\s*\Z')
_SEAL_BYTES = 64
_SHOWN_KEY = 80


def sealed(text: str) -> str:
    """The text of a JSON object that is not empty, with its checksum as the last value."""
    return f'{text[:-1]}, "crc32": "{zlib.crc32(text.encode()):08x}"}}'


def objects(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the objects of a file that is there, without the lines that hold none: the last one of
    a process that was killed while it wrote, or one with a damaged byte.
    """
    if not path.is_file():
        return
    for line in lines(path):
        values = read_object(line)
        if values is not None:
            yield values


def lines(path: Path) -> Iterator[bytes]:
    """Yields the lines of a file with their ends, however long it is; a line that is longer than
    MOST_JSON_BYTES comes in parts, and the last one may have no end.
    """
    with open_regular(path) as file:
        while line := file.readline(MOST_JSON_BYTES):
            yield line


def finished_lines(content: bytes, path: Path) -> list[bytes]:
    """The lines of a file's content, without their ends. A last line that has no end and holds no
    object is left out with a warning: the process that wrote it was killed, or writes it now.
    """
    *whole, last = content.split(b"\n")
    if not last:
        return whole
    if read_object(last) is not None:
        return [*whole, last]
    warn(f"{path}, line {len(whole) + 1} is cut short and left out.")
    return whole


def read_object(line: bytes) -> dict[str, Any] | None:
    """The JSON object in a line, without its checksum; None: there is none, or it is damaged."""
    if seal := _SEAL.search(line, max(len(line) - _SEAL_BYTES, 0)):
        line = line[: seal.start()] + b"}"
        if zlib.crc32(line) != int(seal[1], 16):
            return None
    try:
        values = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def read_object_of(path: Path) -> dict[str, Any]:
    """The JSON object that a file holds; empty where there is none that can be read."""
    try:
        return read_object(read_bounded(path)) or {}
    except OSError:
        return {}


class DoubledKeyError(ValueError):
    """An object of JSON has a key twice; the text says which."""


def unique_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The object of its keys and values, an ``object_pairs_hook`` of ``json.loads``, which itself
    would take the last value without a word.

    Raises:
      DoubledKeyError: a key stands twice in it.
    """
    values = dict(pairs)
    if len(values) < len(pairs):
        ((key, _),) = collections.Counter(name for name, _ in pairs).most_common(1)
        raise DoubledKeyError(f"the key {json.dumps(key)[:_SHOWN_KEY]} stands twice in an object")
    return values


def step_of(values: dict[str, Any]) -> int | None:
    """The step that an object is of; None: it names none."""
    step = values.get("step")
    if not isinstance(step, int) or isinstance(step, bool):
        return None
    return step if 0 <= step < _BEYOND_STEPS else None
