"""A report as text: Markdown for people, CSV for spreadsheets (one figure a line), JSON for
programs.

::

    print(as_markdown(report))

In Markdown a row whose cells have several seeds is two lines, the best seed and the
mean over the seeds; a figure of one seed has its interval. Rows of other data than the table's have
a mark whose words stand below the table.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from tabulate import tabulate

from ut_tf.markdown import as_cell, as_prose, one_line
from ut_tf.tables.cells import Cell
from ut_tf.tables.filling import LENGTH, FilledTable, Report, Row
from ut_tf.tables.layout import Column, Measure, PublishedRow
from ut_tf.tables.summary import Summary

NOTHING = "-"
OF_LENGTH = f"length_{LENGTH}/"
_MARKS = "†‡§¶"
# Behind the point; smaller figures have an exponent.
_MOST_DIGITS = 6


def as_markdown(report: Report) -> str:
    """The report as Markdown, readable in a terminal as it is."""
    parts = [_table_text(table, report.publication) for table in report.tables]
    if report.not_evaluated:
        parts.append(
            "\n".join(
                [
                    "## Not evaluated yet",
                    "",
                    *(f"    {one_line(command)}" for _, command in report.not_evaluated),
                ]
            )
        )
    if report.others:
        parts.append(f"## Other runs\n\n{summary_table(report.others)}")
    return "\n\n".join(parts)


def summary_table(rows: Sequence[Summary]) -> str:
    """The headline figures as a table."""
    header, lines = summary_lines(rows)
    return _grid(lines, header)


def summary_lines(rows: Sequence[Summary]) -> tuple[list[str], list[list[str]]]:
    """The header and the lines of the table of headline figures, a line for each row."""
    header = ["problem", "model", "set", "metric", "seeds", "best", "mean", "deviation", "data"]
    lines = [
        [
            row.problem,
            row.system,
            row.recipe,
            row.metric,
            str(row.cell.seeds),
            *_headline(row.cell),
            row.note,
        ]
        for row in rows
    ]
    if any(row.note for row in rows):
        return header, lines
    return header[:-1], [line[:-1] for line in lines]


def as_csv(report: Report) -> str:
    """One line for each figure: of published rows what was printed, of ours best, mean,
    deviation, and the interval's bounds.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, _FIELDS, lineterminator="\n")
    writer.writeheader()
    for table in report.tables:
        writer.writerows(_csv_lines(table, report.publication))
    for row in report.others:
        about = {
            "table": "other runs",
            "model": row.system,
            "source": row.recipe,
            "note": row.note,
            "column": row.problem,
        }
        writer.writerows({**about, **line} for line in _csv_of_cell(row.cell, [row.metric]))
    return text.getvalue()


_FIELDS = (
    "table",
    "model",
    "source",
    "variant",
    "column",
    "measure",
    "statistic",
    "value",
    "seeds",
    "problems",
    "note",
)


def as_json(report: Report) -> str:
    """The report as one JSON object; figures that are not there are null."""
    values = {
        "tables": [_json_table(table, report.publication) for table in report.tables],
        "not_evaluated": [
            {"run": str(run.folder), "command": command} for run, command in report.not_evaluated
        ],
        "other_runs": [
            {
                "problem": row.problem,
                "model": row.system,
                "source": row.recipe,
                "note": row.note,
                **_json_cell(row.cell, [row.metric]),
            }
            for row in report.others
        ],
    }
    return json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _table_text(filled: FilledTable, publication: str) -> str:
    table = filled.table
    header, rows = table_lines(filled, publication)
    lines = [cells for _, cells in rows]
    text = (
        _upright(lines, header, _settings(filled) if _has_settings(filled) else [])
        if table.upright
        else _grid(lines, header)
    )
    below = [as_prose(note) for note in notes_below(filled)]
    return "\n\n".join([heading(filled), text, *below])


def heading(filled: FilledTable) -> str:
    """The heading of a table, as Markdown."""
    return f"## Table {filled.table.number}. {filled.table.title}"


def notes_below(filled: FilledTable) -> list[str]:
    """The texts below a table: what its marks mean, signatures, and which runs are left out."""
    below = [f"{mark} {note}" for note, mark in _marks(filled.rows).items()]
    below += [f"Signature: {text}" for text in filled.signatures]
    return below + [f"Left out: {text}" for text in filled.left_out]


def table_lines(
    filled: FilledTable, publication: str
) -> tuple[list[str], list[tuple[Row | None, list[str]]]]:
    """The header of a table, and the cells of each line with our row that it is of; None where it
    is published.
    """
    table, has_settings, marks = filled.table, _has_settings(filled), _marks(filled.rows)
    titles = (column.title for column in table.columns)
    header = ["model", *(["setting"] if has_settings else []), "source", "seeds", *titles]
    lines: list[tuple[Row | None, list[str]]] = []
    for row in table.published:
        setting = [row.variant] if has_settings else []
        lines.append((None, [row.model, *setting, publication, row.seeds, *row.cells]))
    for our_row in filled.rows:
        source = our_row.recipe if our_row.joins_recipes else f"`{our_row.recipe}`"
        setting = [our_row.variant] if has_settings else []
        mark = marks.get(our_row.note, "")
        for what, cells in _row_texts(our_row, table.columns, table.unit):
            marked = [cell if cell == NOTHING else cell + mark for cell in cells]
            lines.append((our_row, [our_row.system + mark, *setting, source, what, *marked]))
    return header, lines


def _has_settings(filled: FilledTable) -> bool:
    """Whether the rows of the table are of a model in a setting."""
    columns = filled.table.columns
    return any(source.variant for column in columns for source in column.sources)


def _grid(lines: Sequence[Sequence[str]], header: Sequence[str]) -> str:
    plain = [[as_cell(text) for text in line] for line in lines]
    head = [as_cell(text) for text in header]
    return tabulate(plain, headers=head, tablefmt="github", disable_numparse=True)


def _upright(lines: Sequence[Sequence[str]], header: Sequence[str], settings: Sequence[str]) -> str:
    """The table with rows and columns exchanged: what says which row it is stands on
    several lines at its head.

    Args:
      lines, header: of the table as it would lie; where there are settings they are the second
        column.
      settings: each is a table of its own, so that a terminal is wide enough; empty: there are
        none.
    """
    parts = [[line for line in lines if line[1] == setting] for setting in settings] or [[*lines]]
    grids = []
    for part in parts:
        first, *columns = zip(header, *part, strict=True)
        grids.append(_grid(columns, first))
    return "\n\n".join(grids)


def _settings(filled: FilledTable) -> list[str]:
    """The settings of our rows, in the table's order; where we have none all of the
    table's.
    """
    printed = dict.fromkeys(row.variant for row in filled.table.published)
    ours = dict.fromkeys(row.variant for row in filled.rows)
    return [
        *([variant for variant in printed if variant in ours] or ([] if ours else printed)),
        *(variant for variant in ours if variant not in printed),
    ]


def _marks(rows: Sequence[Row]) -> dict[str, str]:
    """The mark of each note, in the order of the rows."""
    notes = list(dict.fromkeys(row.note for row in rows if row.note))
    return {
        note: _MARKS[number % len(_MARKS)] * (1 + number // len(_MARKS))
        for number, note in enumerate(notes)
    }


def _row_texts(row: Row, columns: Sequence[Column], unit: str) -> Iterator[tuple[str, list[str]]]:
    """Yields what a line is of ("1", "best of 3", "mean of 3") and its cells."""
    if row.joins_recipes:
        yield "best", [_cell_text(row, column, unit, "best") for column in columns]
        return
    seeds = sorted({cell.seeds for cell in row.cells.values()})
    shown = str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    if seeds[-1] == 1:
        yield "1", [_cell_text(row, column, unit, "best") for column in columns]
        return
    if any(cell.best is not None for cell in row.cells.values()):
        yield f"best of {shown}", [_cell_text(row, column, unit, "best") for column in columns]
    yield f"mean of {shown}", [_cell_text(row, column, unit, "mean") for column in columns]


def _cell_text(row: Row, column: Column, unit: str, statistic: str) -> str:
    cell = row.cells.get(column.title)
    if cell is None:
        return NOTHING
    part = (
        f" ({cell.problems} of {cell.of_problems} {unit})"
        if cell.problems < cell.of_problems
        else ""
    )
    if statistic == "mean":
        deviations = (cell.deviation if column.deviations else None) or (None,) * len(cell.mean)
        texts = [
            _with_deviation(*figure)
            for figure in zip(cell.mean, deviations, column.digits, strict=True)
        ]
        return column.form.format(*texts) + part
    if cell.best is None:
        return NOTHING
    text = column.form.format(
        *(_number(*figure) for figure in zip(cell.best, column.digits, strict=True))
    )
    intervals = (cell.intervals if column.deviations else None) or ()
    bounds = [
        _bounds(interval, digits)
        for interval, digits in zip(intervals, column.digits, strict=False)
        if interval is not None
    ]
    # All or none: of a single one nobody could tell which figure it belongs to.
    return (
        text + (f" {' '.join(bounds)}" if bounds and len(bounds) == len(intervals) else "") + part
    )


def _number(value: float | None, digits: int) -> str:
    return NOTHING if value is None else f"{value:.{digits}f}"


def _with_deviation(mean: float | None, deviation: float | None, digits: int) -> str:
    # A count is a whole number, its mean is not.
    digits = max(digits, 1)
    return _number(mean, digits) + ("" if deviation is None else f" ± {_number(deviation, digits)}")


def _bounds(interval: tuple[float, float], digits: int) -> str:
    return f"[{interval[0]:.{digits}f}, {interval[1]:.{digits}f}]"


def _headline(cell: Cell) -> tuple[str, str, str]:
    """Best with its interval, mean and deviation of a cell's first figure, all with equally many
    digits behind the point: as many as they need, but no more than four digits of the largest.
    """
    best = cell.best[0] if cell.best else None
    low, high = (cell.intervals[0] if cell.intervals else None) or (None, None)
    figures = (best, low, high, cell.mean[0], cell.deviation[0] if cell.deviation else None)
    known = [figure for figure in figures if figure is not None]
    largest = max(map(abs, known), default=0.0)
    most = max(4 - math.ceil(math.log10(largest)), 0) if largest else 0
    needed = max((len(f"{figure:.4g}".partition(".")[2]) for figure in known), default=0)
    form = f".{min(needed, most)}f" if most <= _MOST_DIGITS else ".4g"
    texts = [NOTHING if figure is None else format(figure, form) for figure in figures]
    interval = "" if low is None else f" [{texts[1]}, {texts[2]}]"
    return texts[0] + interval, texts[3], texts[4]


def _csv_lines(filled: FilledTable, publication: str) -> Iterator[dict[str, Any]]:
    for row in filled.table.published:
        for column, text in zip(filled.table.columns, row.cells, strict=True):
            about = {
                "table": filled.table.number,
                "model": row.model,
                "source": publication,
                "variant": row.variant,
                "column": column.title,
            }
            for measure, value in zip(_names(column), printed_numbers(text), strict=False):
                yield {
                    **about,
                    "measure": measure,
                    "statistic": _printed_statistic(row),
                    "value": value,
                    "seeds": row.seeds,
                }
    for our_row in filled.rows:
        about = {
            "table": filled.table.number,
            "model": our_row.system,
            "source": our_row.recipe,
            "variant": our_row.variant,
            "note": our_row.note,
        }
        for column in filled.table.columns:
            if column.title in our_row.cells:
                for line in _csv_of_cell(our_row.cells[column.title], _names(column)):
                    yield {**about, "column": column.title, **line}


def _csv_of_cell(cell: Cell, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    for number, name in enumerate(names):
        interval = cell.intervals[number] if cell.intervals else None
        values = {
            "best": cell.best[number] if cell.best else None,
            "low": interval and interval[0],
            "high": interval and interval[1],
            "mean": cell.mean[number],
            "deviation": cell.deviation[number] if cell.deviation else None,
        }
        for statistic, value in values.items():
            if value is not None:
                problems = f"{cell.problems} of {cell.of_problems}"
                yield {
                    "measure": name,
                    "statistic": statistic,
                    "value": value,
                    "seeds": cell.seeds,
                    "problems": problems,
                }


def _json_table(filled: FilledTable, publication: str) -> dict[str, Any]:
    table = filled.table
    published = [
        {
            "model": row.model,
            "source": publication,
            "variant": row.variant,
            "seeds": row.seeds,
            "cells": {
                column.title: {
                    "text": text,
                    "values": dict(zip(_names(column), printed_numbers(text), strict=False)),
                }
                for column, text in zip(table.columns, row.cells, strict=True)
                if text != NOTHING
            },
        }
        for row in table.published
    ]
    ours = [
        {
            "model": row.system,
            "source": row.recipe,
            "variant": row.variant,
            "note": row.note,
            "cells": {
                column.title: _json_cell(row.cells[column.title], _names(column))
                for column in table.columns
                if column.title in row.cells
            },
        }
        for row in filled.rows
    ]
    about = {
        "number": table.number,
        "title": table.title,
        "columns": [column.title for column in table.columns],
    }
    return {
        **about,
        "published": published,
        "rows": ours,
        "signatures": [*filled.signatures],
        "left_out": [*filled.left_out],
    }


def _json_cell(cell: Cell, names: Sequence[str]) -> dict[str, Any]:
    def named(values: Sequence[Any] | None) -> dict[str, Any] | None:
        return None if values is None else dict(zip(names, values, strict=True))

    return {
        "best": named(cell.best),
        "intervals": named(cell.intervals),
        "mean": named(cell.mean),
        "deviation": named(cell.deviation),
        "seeds": cell.seeds,
        "problems": cell.problems,
        "of_problems": cell.of_problems,
    }


def _names(column: Column) -> list[str]:
    """The names of a column's figures: of a metric counted over several problems what is
    counted, of an error turned "accuracy".
    """
    return [_name(measure) for measure in column.sources[0].measures]


def _name(measure: Measure) -> str:
    name = measure.metric.removeprefix(OF_LENGTH)
    if measure.from_error:
        name = name.replace("error", "accuracy")
    return name if measure.over == "mean" else f"{name} > {measure.limit:g}"


def printed_numbers(text: str) -> list[float]:
    """The numbers in a cell as it was printed."""
    return [float(number) for number in re.findall(r"\d*\.?\d+", text)]


def _printed_statistic(row: PublishedRow) -> str:
    return (
        "mean" if row.seeds.startswith("mean") else "best" if row.seeds.startswith("best") else ""
    )
