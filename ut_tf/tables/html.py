"""A report as one HTML file: tables, plots and links to the runs; nothing is loaded from elsewhere.

::

    text = as_html(report, beside=Path("reports"))  # links are relative to this folder

Every text is escaped; plots are SVG in the file.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import quote

from ut_tf.figures.style import as_svg, check_installed
from ut_tf.tables.filling import FilledTable, Report
from ut_tf.tables.plots import table_plot
from ut_tf.tables.report_text import (
    heading,
    notes_below,
    summary_lines,
    table_lines,
)

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem;
  color: #222; background: #fff; }
table { border-collapse: collapse; font-size: 13px; display: block; overflow-x: auto; }
th, td { border: 1px solid #ddd; padding: .25rem .6rem; text-align: left; white-space: nowrap; }
th { background: #f3f3f3; }
tr.ours { background: #eef4fb; }
figure { margin: 1rem 0; overflow-x: auto; }
svg { max-width: 100%; height: auto; }
"""


def as_html(report: Report, beside: Path) -> str:
    """The report as an HTML document.

    Args:
      report: to be shown.
      beside: the folder of the document, which links begin from.

    Raises:
      UserError: matplotlib is missing.
    """
    check_installed()
    title = f"ut-report: runs beside the {report.publication}'s tables"
    parts = [f"<h1>{html.escape(title)}</h1>"]
    parts += [_table(filled, report.publication, beside) for filled in report.tables]
    if report.not_evaluated:
        items = "".join(
            f"<li>{_link(run.folder, beside)}: <code>{html.escape(command)}</code></li>"
            for run, command in report.not_evaluated
        )
        parts.append(f"<h2>Not evaluated yet</h2>\n<ul>{items}</ul>")
    if report.others:
        header, lines = summary_lines(report.others)
        folders = [row.cell.folders for row in report.others]
        parts.append(f"<h2>Other runs</h2>\n{_grid(header, lines, folders, beside)}")
    body = "\n".join(parts)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def _table(filled: FilledTable, publication: str, beside: Path) -> str:
    header, rows = table_lines(filled, publication)
    folders = [
        () if row is None else [folder for cell in row.cells.values() for folder in cell.folders]
        for row, _ in rows
    ]
    grid = _grid(header, [cells for _, cells in rows], folders, beside)
    title = html.escape(heading(filled).removeprefix("## "))
    below = "".join(f"\n<p>{html.escape(text)}</p>" for text in notes_below(filled))
    return f"<h2>{title}</h2>\n{grid}{below}{_plot(filled, title)}"


def _plot(filled: FilledTable, title: str) -> str:
    figure = table_plot(filled)
    if figure is None:
        return ""
    svg = as_svg(figure)
    # Within HTML neither the XML declaration nor the document type belongs before the element.
    svg = svg[svg.index("<svg") :].strip()
    # Each plot has identifiers of its own, so that none refers to another's.
    mark = f"t{filled.table.number}-"
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{mark}", svg)
    return f'\n<figure aria-label="{title}">\n{svg}\n</figure>'


def _grid(
    header: Sequence[str],
    lines: Sequence[Sequence[str]],
    folders: Sequence[Iterable[Path]],
    beside: Path,
) -> str:
    head = "".join(f"<th>{html.escape(text)}</th>" for text in (*header, "runs"))
    body = []
    for cells, runs in zip(lines, folders, strict=True):
        links = ", ".join(_link(folder, beside) for folder in dict.fromkeys(runs))
        row = "".join(f"<td>{html.escape(text.strip('`'))}</td>" for text in cells)
        kind = ' class="ours"' if links else ""
        body.append(f"<tr{kind}>{row}<td>{links}</td></tr>")
    return f"<table>\n<tr>{head}</tr>\n" + "\n".join(body) + "\n</table>"


def _link(folder: Path, beside: Path) -> str:
    place = os.path.relpath(folder.resolve(), beside.resolve())
    target = quote(Path(place).as_posix())
    return f'<a href="{html.escape(target)}/">{html.escape(folder.name or str(folder))}</a>'
