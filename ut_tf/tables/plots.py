"""The plot of a filled table: a panel for each column, with a mark for each row.

Published rows are gray and hollow. A row of ours has its interval (one seed) or its standard
deviation (several), where it is known. Only the first figure of a cell is drawn.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from ut_tf.figures.style import COLORS, PUBLISHED_COLOR, in_style, new_panels
from ut_tf.figures.words import in_words
from ut_tf.tables.cells import Cell
from ut_tf.tables.exports import printed_numbers
from ut_tf.tables.layout import LENGTH, Column
from ut_tf.tables.lines import FilledTable

_PANELS_PER_LINE = 3


class _Mark(NamedTuple):
    label: str
    value: float
    low: float
    high: float
    is_ours: bool


def table_plot(filled: FilledTable) -> Any | None:
    """The figure of a table's columns that one of our rows fills; None where there is none."""
    columns = [
        column
        for column in filled.table.figures
        if any(column.title in line.cells for line in filled.lines)
    ]
    if not columns:
        return None
    marks = [list(_marks(filled, column)) for column in columns]
    height = 0.9 + 0.22 * max(map(len, marks))
    figure, axes = new_panels(len(columns), _PANELS_PER_LINE, panel=(4.2, height))
    with in_style():
        for axis, column, members in zip(axes, columns, marks, strict=True):
            _draw(axis, members)
            axis.set_title(column.title)
            axis.set_xlabel(_in_words(column))
    return figure


def _in_words(column: Column) -> str:
    """The metric that a panel shows: of each cell the first one."""
    if column.from_error or any(source.from_error for source in column.sources):
        return in_words("accuracy")
    parts = [part for part in column.metrics[0].split("/") if LENGTH not in part]
    return in_words("/".join(parts)).partition(", ")[0]


def _draw(axis: Any, marks: list[_Mark]) -> None:
    for place, mark in enumerate(reversed(marks)):
        color = COLORS[0] if mark.is_ours else PUBLISHED_COLOR
        axis.errorbar(
            [mark.value],
            [place],
            xerr=[[mark.value - mark.low], [mark.high - mark.value]],
            fmt="o",
            color=color,
            markerfacecolor=color if mark.is_ours else "white",
            capsize=3,
        )
    axis.set_yticks(range(len(marks)), [mark.label for mark in reversed(marks)], fontsize=7)
    axis.set_ylim(-0.6, len(marks) - 0.4)


def _marks(filled: FilledTable, column: Column) -> Iterator[_Mark]:
    number = filled.table.figures.index(column)
    for row in filled.table.published:
        for value in printed_numbers(row.cells[number])[:1]:
            label = ", ".join(filter(None, (row.model, row.seeds)))
            yield _Mark(f"{label} (published)", value, value, value, False)
    for line in filled.lines:
        cell = line.cells.get(column.title)
        value_and_bounds = None if cell is None else _value(cell)
        if value_and_bounds is not None:
            yield _Mark(", ".join(filter(None, line.values)), *value_and_bounds, True)


def _value(cell: Cell) -> tuple[float, float, float] | None:
    """The first figure of a cell and its bounds: the mean of several seeds, or the one seed's."""
    mean = cell.mean[0] if cell.seeds > 1 or not cell.best else cell.best[0]
    if mean is None and cell.best:
        mean = cell.best[0]
    if mean is None:
        return None
    if cell.deviation and cell.deviation[0] is not None:
        return mean, mean - cell.deviation[0], mean + cell.deviation[0]
    interval = cell.intervals[0] if cell.intervals and cell.seeds == 1 else None
    low, high = interval or (mean, mean)
    return mean, min(low, mean), max(high, mean)
