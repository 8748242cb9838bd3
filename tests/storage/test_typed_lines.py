"""JSON as dataclasses: what fits a type hint is read, and what does not is named."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

from ut_tf.errors import UserError
from ut_tf.storage.typed_lines import plain, read_typed, typed


class Point(NamedTuple):
    """A pair."""

    step: int
    wall: float


@dataclass
class Inner:
    """A part."""

    ended: bool = False


@dataclass
class Record:
    """One of each type."""

    name: str
    kind: Literal["a", "b"] = "a"
    rate: float | None = None
    counts: dict[str, float] = field(default_factory=dict)
    points: tuple[Point, ...] = ()
    interval: tuple[float, float] | None = None
    sizes: list[int] = field(default_factory=list)
    inner: Inner = field(default_factory=Inner)
    anything: Any = None


FULL = Record(
    "x", "b", 1, {"loss": math.inf}, (Point(1, 0.5),), (0.0, 1.5), [3], Inner(True), {"y": [1]}
)


def test_what_is_written_is_read_and_what_is_not_finite_is_null() -> None:
    stored = json.loads(json.dumps(plain(FULL), allow_nan=False))
    assert stored["counts"] == {"loss": None} and stored["points"] == [[1, 0.5]]
    read = typed({**stored, "of_a_later_version": 1}, Record)
    assert math.isnan(read.counts.pop("loss"))
    FULL.counts.clear()
    assert read == FULL
    assert typed({"name": "x"}, Record) == Record("x")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, "lacks name"),
        ({"name": 1}, "name cannot be 1"),
        ({"rate": True}, "rate cannot be true"),
        ({"rate": 10**400}, "rate cannot be 1000"),
        ({"counts": {"loss": "low"}}, 'counts cannot be "low"'),
        ({"points": [[1]]}, r"points cannot be \[1\]"),
        ({"sizes": [1.5]}, "sizes cannot be 1.5"),
        ({"inner": {"ended": 1}}, "inner ended cannot be 1"),
        ([], r"cannot be \[\]"),
    ],
)
def test_what_does_not_fit_is_named(values: Any, expected: str) -> None:
    given = {"name": "x", **values} if values else values
    with pytest.raises(ValueError, match=f"^{expected}"):
        typed(given, Record)


def test_a_line_is_named_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    assert read_typed(path, Record, "record") == []
    path.write_text('{"name": "x"}\n{"name": 3}\n')
    with pytest.raises(UserError, match=r"records\.jsonl:2 is no record \(name cannot be 3\)"):
        read_typed(path, Record, "record")
    path.write_text('{"name": "x"}\n{"na')
    assert read_typed(path, Record, "record") == [Record("x")]
