"""A report as text: Markdown for people, CSV for spreadsheets (one figure a line), JSON for
programs.

::

    print(as_markdown(report))

In Markdown a row whose cells have several seeds is two lines, the best seed and the
mean over the seeds; a figure of one seed has its interval. Rows of other data than the table's have
a mark whose words stand below the table.
"""

import csv
import io
import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from ut_tf.markdown import as_prose, as_table, one_line
from ut_tf.tables.cells import Cell, Values, marks_of
from ut_tf.tables.layout import LENGTH, NOTHING, Column
from ut_tf.tables.paper_report import FilledTable, Report, Row
from ut_tf.tables.summary import Summary
from ut_tf.tables.texts import bounds, number, with_deviation

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
    return as_table(header, lines, padded=True)


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
    values = _values(report)
    for table in values["tables"]:
        for row in (*table["published"], *table["rows"]):
            about = {name: value for name, value in row.items() if name in _FIELDS}
            for title, cell in row["cells"].items():
                lines = _csv_of_cell(cell) if "mean" in cell else _csv_as_printed(row, cell)
                for line in lines:
                    writer.writerow({"table": table["number"], **about, "column": title, **line})
    for row in values["other_runs"]:
        about = {name: row[name] for name in ("model", "source", "note")}
        for line in _csv_of_cell(row):
            writer.writerow({"table": "other runs", **about, "column": row["problem"], **line})
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


def _csv_as_printed(row: dict[str, Any], cell: dict[str, Any]) -> Iterator[dict[str, Any]]:
    statistic = re.match("mean|best|", row["seeds"])
    for measure, value in cell["values"].items():
        yield {"measure": measure, "statistic": statistic and statistic[0], "value": value}


def _csv_of_cell(cell: dict[str, Any]) -> Iterator[dict[str, Any]]:
    problems = f"{cell['problems']} of {cell['of_problems']}"
    for measure in cell["mean"]:
        best, interval, mean, deviation = (
            (cell[name] or {}).get(measure) for name in ("best", "intervals", "mean", "deviation")
        )
        low, high = interval or (None, None)
        figures = {"best": best, "low": low, "high": high, "mean": mean, "deviation": deviation}
        for statistic, value in figures.items():
            if value is not None:
                yield {
                    "measure": measure,
                    "statistic": statistic,
                    "value": value,
                    "seeds": cell["seeds"],
                    "problems": problems,
                }


def as_json(report: Report) -> str:
    """The report as one JSON object; figures that are not there are null."""
    return json.dumps(_values(report), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _values(report: Report) -> dict[str, Any]:
    return {
        "tables": [_values_of_table(table, report.publication) for table in report.tables],
        "not_evaluated": [
            {"run": str(run.folder), "command": command} for run, command in report.not_evaluated
        ],
        "other_runs": [
            {
                "problem": row.problem,
                "model": row.system,
                "source": row.recipe,
                "note": row.note,
                **_values_of_cell(row.cell, [row.metric]),
            }
            for row in report.others
        ],
    }


def _table_text(filled: FilledTable, publication: str) -> str:
    table = filled.table
    header, rows = table_lines(filled, publication)
    lines = [cells for _, cells in rows]
    text = (
        _upright(lines, header, _settings(filled) if any(table.variants) else [])
        if table.upright
        else as_table(header, lines, padded=True)
    )
    below = [as_prose(note) for note in notes_below(filled)]
    return "\n\n".join([f"## {heading(filled)}", text, *below])


def heading(filled: FilledTable) -> str:
    """The heading of a table."""
    return f"Table {filled.table.name}. {filled.table.title}"


def notes_below(filled: FilledTable) -> list[str]:
    """The texts below a table: what its marks mean, signatures, and which runs are left out."""
    below = [f"{mark} {note}" for note, mark in marks_of(row.note for row in filled.rows).items()]
    below += [f"Signature: {text}" for text in filled.signatures]
    return below + [f"Left out: {text}" for text in filled.left_out]


def table_lines(
    filled: FilledTable, publication: str
) -> tuple[list[str], list[tuple[Row | None, list[str]]]]:
    """The header of a table, and the cells of each line with our row that it is of; None where it
    is published.
    """
    table, has_settings = filled.table, any(filled.table.variants)
    marks = marks_of(row.note for row in filled.rows)
    titles = (column.title for column in table.figures)
    header = ["model", *(["setting"] if has_settings else []), "source", "seeds", *titles]
    lines: list[tuple[Row | None, list[str]]] = []
    for row in table.published:
        setting = [row.variant] if has_settings else []
        lines.append((None, [row.model, *setting, publication, row.seeds, *row.cells]))
    for our_row in filled.rows:
        source = our_row.recipe if our_row.joins_recipes else f"`{our_row.recipe}`"
        setting = [our_row.variant] if has_settings else []
        mark = marks.get(our_row.note, "")
        for what, cells in _row_texts(our_row, table.figures, table.unit):
            marked = [cell if cell == NOTHING else cell + mark for cell in cells]
            lines.append((our_row, [our_row.system + mark, *setting, source, what, *marked]))
    return header, lines


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
        grids.append(as_table(first, columns, padded=True))
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
    if cell is None or (statistic == "best" and cell.best is None):
        return NOTHING
    few = f" ({cell.problems} of {cell.of_problems} {unit})"
    part = few if cell.problems < cell.of_problems else ""
    if statistic == "mean":
        deviations = (cell.deviation if column.interval else None) or (None,) * len(cell.mean)
        return _means_text(column, cell.mean, deviations) + part
    best = [number(value, column.digits_of(place)) for place, value in enumerate(cell.best or ())]
    intervals = (cell.only_intervals if column.interval else None) or ()
    written = [bounds(item, column.digits_of(place)) for place, item in enumerate(intervals)]
    # All or none: of a single one nobody could tell which figure it belongs to.
    return column.text(best) + ("".join(written) if all(written) else "") + part


def _means_text(column: Column, means: Values, deviations: Values) -> str:
    # A count is a whole number, its mean is not.
    return column.text(
        [
            with_deviation(mean, deviation, max(column.digits_of(place), 1))
            for place, (mean, deviation) in enumerate(zip(means, deviations, strict=True))
        ]
    )


def _headline(cell: Cell) -> tuple[str, str, str]:
    """Best with its interval, mean and deviation of a cell's first figure, all with equally many
    digits behind the point: as many as they need, but no more than four digits of the largest.
    """
    best = cell.best[0] if cell.best else None
    low, high = (cell.only_intervals[0] if cell.only_intervals else None) or (None, None)
    figures = (best, low, high, cell.mean[0], cell.deviation[0] if cell.deviation else None)
    known = [figure for figure in figures if figure is not None]
    largest = max(map(abs, known), default=0.0)
    most = max(4 - math.ceil(math.log10(largest)), 0) if largest else 0
    needed = max((len(f"{figure:.4g}".partition(".")[2]) for figure in known), default=0)
    form = f".{min(needed, most)}f" if most <= _MOST_DIGITS else ".4g"
    texts = [NOTHING if figure is None else format(figure, form) for figure in figures]
    interval = "" if low is None else f" [{texts[1]}, {texts[2]}]"
    return texts[0] + interval, texts[3], texts[4]


def _values_of_table(filled: FilledTable, publication: str) -> dict[str, Any]:
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
                for column, text in zip(table.figures, row.cells, strict=True)
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
                column.title: _values_of_cell(row.cells[column.title], _names(column))
                for column in table.figures
                if column.title in row.cells
            },
        }
        for row in filled.rows
    ]
    about = {
        "number": table.name,
        "title": table.title,
        "columns": [column.title for column in table.figures],
    }
    return {
        **about,
        "published": published,
        "rows": ours,
        "signatures": [*filled.signatures],
        "left_out": [*filled.left_out],
    }


def _values_of_cell(cell: Cell, names: Sequence[str]) -> dict[str, Any]:
    def named(values: Sequence[Any] | None) -> dict[str, Any] | None:
        return None if values is None else dict(zip(names, values, strict=True))

    return {
        "best": named(cell.best),
        "intervals": named(cell.only_intervals),
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
    source = column.sources[0]
    names = [metric.removeprefix(f"length_{LENGTH}/") for metric in column.metrics_of(source)]
    return [name.replace("error", "accuracy") if source.from_error else name for name in names]


def printed_numbers(text: str) -> list[float]:
    """The numbers in a cell as it was printed."""
    return [float(number) for number in re.findall(r"\d*\.?\d+", text)]
