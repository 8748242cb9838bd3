"""Tables as one HTML page: nothing is loaded from elsewhere, and every text is escaped.

::

    report_page(report, beside=Path("reports"))     # with plots, and links to the runs
    records_page([kept.render("lengths")], curves=Path("results"))

Below a table of kept records stand its runs: command, commit, machine, what chose the checkpoint,
when the test data was read, and a link to the learning curve.
"""

import dataclasses
import os
import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from urllib.parse import quote

from ut_tf.tables.lines import FilledTable
from ut_tf.tables.publication import Report
from ut_tf.tables.record import ResultRecord
from ut_tf.tables.rendered import as_texts
from ut_tf.tables.texts import RenderedTable, processor_text
from ut_tf.web.style_sheet import style_sheet

_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def report_page(report: Report, beside: Path) -> str:
    """A report.

    Args:
      report: to be shown.
      beside: the folder of the page, which links begin from.

    Raises:
      UserError: matplotlib is missing.
    """
    from ut_tf.figures.style import check_installed

    check_installed()
    title = f"Runs beside the {report.publication}'s tables"
    parts = [_filled(filled, beside) for filled in report.tables]
    if report.not_evaluated:
        items = "".join(
            f"<li>{_folder_link(run.folder, beside)}: <code>{escape(command)}</code></li>"
            for run, command in report.not_evaluated
        )
        parts.append(f"<section><h2>Not evaluated yet</h2>\n<ul>{items}</ul></section>")
    if report.others.lines:
        parts.append(_filled(report.others, beside))
    return _page(title, parts)


def records_page(tables: Sequence[RenderedTable], curves: Path) -> str:
    """Tables of kept records.

    Args:
      tables: in their order.
      curves: folder that the records' learning curves are named in, as seen from the page.
    """
    parts = []
    for table in tables:
        runs = "\n".join(f"<li>{_record(record, curves)}</li>" for record in table.runs)
        count = f"<details><summary>{len(table.runs)} runs</summary>"
        details = f"\n{count}\n<ul>\n{runs}\n</ul></details>" if runs else ""
        parts.append(_section(table, after=details))
    return _page("Results", parts)


def _page(title: str, parts: Iterable[str]) -> str:
    head = f'<p class="kicker">ut-report</p>\n<h1>{escape(title)}</h1>'
    body, style = "\n".join([head, *parts]), style_sheet("theme", "report")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def _section(table: RenderedTable, links: Sequence[str] | None = None, after: str = "") -> str:
    """A table below its title; `links`: to the runs of each line, where there are some of ours;
    `after`: HTML at its end.
    """
    head = [_escaped(text) for text in table.header] + (["runs"] if links is not None else [])
    body = []
    for place, line in enumerate(table.rows):
        cells = "".join(f"<td>{_escaped(text)}</td>" for text in line)
        cells += f'<td class="runs">{links[place]}</td>' if links is not None else ""
        kind = ' class="ours"' if links and links[place] else ""
        body.append(f"<tr{kind}>{cells}</tr>")
    rows = "\n".join([f"<tr>{''.join(f'<th>{text}</th>' for text in head)}</tr>", *body])
    notes = "".join(f"\n<p>{_escaped(text)}</p>" for text in table.below)
    return (
        f"<section>\n<h2>{_escaped(table.name)}</h2>\n<table>\n{rows}\n</table>{notes}{after}\n"
        "</section>"
    )


def _filled(filled: FilledTable, beside: Path) -> str:
    # Only with a line for each row is there a place for its links.
    flat = dataclasses.replace(filled.table, upright=False)
    table = as_texts(dataclasses.replace(filled, table=flat))
    links = [
        ", ".join(_folder_link(folder, beside) for folder in folders) for folders in table.folders
    ]
    return _section(table, links, _plot(filled, table.name) if filled.publication else "")


def _plot(filled: FilledTable, title: str) -> str:
    from ut_tf.figures.style import as_svg
    from ut_tf.tables.plots import table_plot

    figure = table_plot(filled)
    if figure is None:
        return ""
    for part in (figure, *figure.axes):
        part.set_facecolor("none")
    svg = as_svg(figure)
    # Within HTML neither the XML declaration nor the document type belongs before the element.
    svg = svg[svg.index("<svg") :].strip()
    # Each plot has identifiers of its own, so that none refers to another's.
    mark = f"t{filled.table.name.replace(' ', '-')}-"
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{mark}", svg)
    return f'\n<figure aria-label="{escape(title)}">\n{svg}\n</figure>'


def _folder_link(folder: Path, beside: Path) -> str:
    place = Path(os.path.relpath(folder.resolve(), beside.resolve()))
    return _link(f"{quote(place.as_posix())}/", folder.name or str(folder))


def _record(record: ResultRecord, curves: Path) -> str:
    """What is known of a run, in a line."""
    commands = "<br>".join(
        f"<code>{_escaped(text)}</code>" for text in (record.command, record.evaluation) if text
    )
    chosen = record.selection or {}
    facts = [
        f"ut-tf {record.version}" + (f", commit {record.commit}" if record.commit else ""),
        processor_text(record),
        f"chosen by {chosen['metric']} {chosen['value']:.4g} on validation data" if chosen else "",
        f"test data read {', '.join(record.test_read)}" if record.test_read else "",
    ]
    texts = [_escaped(fact) for fact in facts if fact]
    if record.curve:
        texts.append(_link(quote((curves / record.curve).as_posix()), "learning curve"))
    return f"{commands}<br>{'; '.join(texts)}"


def _link(target: str, text: str) -> str:
    return f'<a href="{escape(target)}">{escape(text)}</a>'


def _escaped(text: str) -> str:
    """A text in Markdown without its marks."""
    return escape(_LINK.sub(r"\1", text).replace("`", "").replace("**", ""))
