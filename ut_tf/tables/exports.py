"""A report as text: Markdown for people, CSV for spreadsheets (one figure a line), JSON for
programs.

::

    print(report_markdown(report))
"""

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from ut_tf.markdown import one_line
from ut_tf.tables.cells import Cell
from ut_tf.tables.layout import LENGTH, NOTHING, Column
from ut_tf.tables.lines import FilledTable
from ut_tf.tables.publication import Report
from ut_tf.tables.rendered import as_markdown, as_texts

_FIELDS = (
    "table",
    "model",
    "source",
    "column",
    "measure",
    "statistic",
    "value",
    "seeds",
    "problems",
    "note",
)


def report_markdown(report: Report) -> str:
    """The report as Markdown, readable in a terminal as it is."""
    tables = [as_texts(filled) for filled in report.tables]
    parts = [f"## {table.name}\n\n{as_markdown(table, padded=True)}" for table in tables]
    if report.not_evaluated:
        commands = "\n".join(f"    {one_line(command)}" for _, command in report.not_evaluated)
        parts.append(f"## Not evaluated yet\n\n{commands}")
    if report.others.lines:
        others = as_texts(report.others)
        parts.append(f"## {others.name}\n\n{as_markdown(others, padded=True)}")
    return "\n\n".join(parts)


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
    others = []
    for line in report.others.lines:
        problem, model, source, metric, note = line.values
        (cell,) = line.cells.values()
        about = {"problem": problem, "model": model, "source": source, "note": note}
        others.append({**about, **_values_of_cell(cell, [metric])})
    return {
        "tables": [_values_of_table(table) for table in report.tables],
        "not_evaluated": [
            {"run": str(run.folder), "command": command} for run, command in report.not_evaluated
        ],
        "other_runs": others,
    }


def _values_of_table(filled: FilledTable) -> dict[str, Any]:
    table = filled.table
    published = [
        {
            "model": row.model,
            "source": filled.publication,
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
            "model": line.values[0],
            "source": line.values[1],
            "note": "; ".join(line.notes),
            "cells": {
                column.title: _values_of_cell(line.cells[column.title], _names(column))
                for column in table.figures
                if column.title in line.cells
            },
        }
        for line in filled.lines
    ]
    return {
        "number": table.name,
        "title": table.title,
        "columns": [column.title for column in table.figures],
        "published": published,
        "rows": ours,
        "below": [*filled.below],
    }


def _values_of_cell(cell: Cell, names: Sequence[str]) -> dict[str, Any]:
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
    source = column.sources[0]
    names = [metric.removeprefix(f"length_{LENGTH}/") for metric in column.metrics_of(source)]
    return [name.replace("error", "accuracy") if source.from_error else name for name in names]


def printed_numbers(text: str) -> list[float]:
    """The numbers in a cell as it was printed."""
    return [float(number) for number in re.findall(r"\d*\.?\d+", text)]
