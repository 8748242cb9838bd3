"""The table of metrics that people read: a row for each metric, a column for each set of examples
and each group of them.

Example::

    metrics_table({"error": 7.43, "error/1": 0.0}, {"error": (6.5, 8.4)}, {"": 3000})

A figure has as many digits as its interval supports. Groups with the same figures share a
column, and a metric that repeats another is not shown. JSON output has them all. Columns that the
terminal has no room for stand below the others.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tabulate import tabulate

from ut_tf.evaluation.metric_names import parse_name, set_of, with_set, without_set
from ut_tf.metrics.intervals import Interval
from ut_tf.metrics.sums import group_title
from ut_tf.ordering import natural_order

if TYPE_CHECKING:
    from ut_tf.metrics.sums import Group

_UNITS = {
    "error": "%",
    "mean_error": "%",
    "loss": "nats",
    "ponder_time": "steps",
    "ponder_time_std": "steps",
}
# A mean over groups of equal size, and the source's time beside the encoder's, say nothing new.
_REPEATS = {"mean_error": "error", "ponder_time": "ponder_time/source"}
_INDENT = "  "
_EXAMPLES = "examples"


class _Place(NamedTuple):
    """A set of examples ("" without a name), and a group in it ("": all)."""

    set_name: str
    group: str


_Figures = dict[str, str]
"""Figures as text by metric."""


class _Column(NamedTuple):
    """What is shown of some examples: `figures` as text by metric."""

    titles: list[str]
    figures: _Figures


def metrics_table(
    metrics: Mapping[str, float],
    intervals: Mapping[str, Interval] | None = None,
    examples: Mapping[str, int] | None = None,
    groups: Mapping[str, Group] | None = None,
    headlines: Sequence[str] = (),
    width: int = 100,
) -> str:
    """The lines of a table, indented by two spaces.

    Args:
      metrics, intervals, examples, groups, headlines: as of ``CheckpointMeasurement``.
      width: columns of the terminal; what does not fit stands below, with its rows named again.
    """
    cells, counts = _cells(metrics, intervals or {}, examples or {}, groups or {})
    columns = _merged(cells, counts, groups or {})
    rows = _ordered_rows(cells, headlines)
    blocks: list[list[_Column]] = []
    for column in columns:
        wider = _block([*(blocks[-1] if blocks else []), column], rows).split("\n")
        if blocks and max(map(len, wider)) + len(_INDENT) <= width:
            blocks[-1].append(column)
        else:
            blocks.append([column])
    has_titles = len(columns) > 1
    table = "\n\n".join(_block(block, rows, has_titles) for block in blocks)
    return textwrap.indent(table, _INDENT)


def figure(value: float, interval: Interval | None = None) -> str:
    """A figure and its interval "[low, high]", in the digits that it supports; four without one."""
    if not math.isfinite(value):
        return "-" if math.isnan(value) else f"{value}"
    if interval is None or not all(map(math.isfinite, interval)):
        return _plain(value)
    low, high = interval
    if low == high:
        return f"{_plain(value)} [{_plain(low)}, {_plain(high)}]"
    digits = max(0, 1 - math.floor(math.log10(high - low)))
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def _cells(
    metrics: Mapping[str, float],
    intervals: Mapping[str, Interval],
    examples: Mapping[str, int],
    groups: Mapping[str, Group],
) -> tuple[dict[tuple[_Place, str], str], dict[_Place, int]]:
    """The text of each figure by column and metric, and the number of examples of columns."""
    cells: dict[tuple[_Place, str], str] = {}
    for name, value in metrics.items():
        set_name, row, group = parse_name(name, metrics, examples)
        if not _is_repeated(name, set_name, row, metrics):
            cells[_Place(set_name, group), row] = figure(value, intervals.get(name))
    counts = {_Place(name, ""): count for name, count in examples.items()}
    for name, group_of in groups.items():
        set_name = set_of(name, examples)
        counts[_Place(set_name, without_set(set_name, name))] = group_of.examples
    return cells, counts


def _is_repeated(name: str, set_name: str, row: str, metrics: Mapping[str, float]) -> bool:
    """Whether another metric of the same examples has the same meaning and figure."""
    other = _REPEATS.get(row)
    if other is None:
        return False
    twin = with_set(set_name, other)
    return twin in metrics and math.isclose(metrics[name], metrics[twin], rel_tol=1e-9)


def _ordered_rows(cells: Iterable[tuple[_Place, str]], headlines: Sequence[str]) -> list[str]:
    """The metrics: the headlines first, ponder times last, otherwise as they were measured."""
    rows = dict.fromkeys(row for _, row in cells)
    ordered = sorted(rows, key=lambda row: (row not in headlines, row.startswith("ponder_time")))
    return [_EXAMPLES, *ordered]


def _merged(
    cells: Mapping[tuple[_Place, str], str],
    counts: Mapping[_Place, int],
    groups: Mapping[str, Group],
) -> list[_Column]:
    """The columns, in the order of the numbers in their names. A group of as many examples as
    another, and with its figures, joins it under both titles.
    """
    places = sorted({place for place, _ in cells}, key=lambda place: [*map(natural_order, place)])
    figures: dict[_Place, _Figures] = {place: {} for place in places}
    for (place, row), text in cells.items():
        figures[place][row] = text
    for place in figures.keys() & counts.keys():
        figures[place][_EXAMPLES] = f"{counts[place]:,}"
    columns: dict[_Place, _Column] = {}
    for place in figures:
        title = _title(place, groups)
        twin = next((other for other in columns if _joins(place, other, figures)), None)
        if twin is None:
            own = dict(figures[place])
            columns[place] = _Column([title], own)
            continue
        columns[twin].figures.update(figures[place])
        if twin.group:
            columns[twin].titles.append(title)
    return list(columns.values())


def _joins(place: _Place, other: _Place, figures: Mapping[_Place, _Figures]) -> bool:
    """Whether two places have the same figures, and what only one of them has is the other's, too:
    the other is the whole set, or no third place could be meant.
    """
    if not _are_twins(place, other, figures):
        return False
    if not other.group or figures[place].keys() == figures[other].keys():
        return True
    return _twins(place, figures) == [other] and _twins(other, figures) == [place]


def _twins(place: _Place, figures: Mapping[_Place, _Figures]) -> list[_Place]:
    return [other for other in figures if other != place and _are_twins(place, other, figures)]


def _are_twins(place: _Place, other: _Place, figures: Mapping[_Place, _Figures]) -> bool:
    common = figures[place].keys() & figures[other].keys()
    return (
        place.set_name == other.set_name
        and _EXAMPLES in common
        and len(common) > 1
        and all(figures[place][row] == figures[other][row] for row in common)
    )


def _title(place: _Place, groups: Mapping[str, Group]) -> str:
    if not place.group:
        return place.set_name or "all"
    name = with_set(place.set_name, place.group)
    if name not in groups:
        return name
    return f"{place.set_name} {group_title(groups[name].feature, groups[name].value)}".strip()


def _label(row: str) -> str:
    """A metric with its unit."""
    parts = row.split("/")
    unit = next((_UNITS[part] for part in reversed(parts) if part in _UNITS), "")
    return f"{row} ({unit})" if unit else row


def _block(columns: Sequence[_Column], rows: Sequence[str], has_titles: bool = True) -> str:
    """A row for each metric that one of the columns has."""
    body = [
        [_label(row), *(column.figures.get(row, "") for column in columns)]
        for row in rows
        if any(row in column.figures for column in columns)
    ]
    titles = [["", *("\n".join(column.titles) for column in columns)]]
    # Titles as a row: those of a header would be padded.
    every = [*(titles if has_titles else []), *body]
    table = tabulate(every, tablefmt="plain", disable_numparse=True)
    return "\n".join(line.rstrip() for line in table.split("\n"))


def _plain(value: float) -> str:
    if float(value).is_integer() and abs(value) < 1e12:
        return str(int(value))
    return f"{value:.4g}"
