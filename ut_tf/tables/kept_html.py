"""Tables of kept results as one HTML page: nothing is loaded from elsewhere.

::

    text = html_page([kept.render("lengths")], curves=Path("results"))

Below each table stand its runs: command, commit, machine, what chose the checkpoint, when the test
data was read, and a link to the learning curve.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from ut_tf.tables.kept_text import RenderedTable, processor_text
from ut_tf.tables.record import ResultRecord

_HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Results</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem }
table { border-collapse: collapse; font-size: 13px; display: block; overflow-x: auto }
td, th { border: 1px solid #ddd; padding: .25rem .6rem; text-align: left }
li { font-size: 13px; margin-bottom: .4rem }
</style>
</head>
<body>
"""
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def html_page(tables: Sequence[RenderedTable], curves: Path) -> str:
    """The page.

    Args:
      tables: in their order.
      curves: folder that the records' learning curves are named in, as seen from the page.
    """
    parts = "\n".join(_table(rendered, curves) for rendered in tables)
    return f"{_HEAD}{parts}\n</body>\n</html>"


def _table(rendered: RenderedTable, curves: Path) -> str:
    head = "".join(f"<th>{_escaped(text)}</th>" for text in rendered.header)
    body = "\n".join(
        f"<tr>{''.join(f'<td>{_escaped(text)}</td>' for text in row)}</tr>" for row in rendered.rows
    )
    below = "".join(f"\n<p>{_escaped(text)}</p>" for text in rendered.below)
    runs = "\n".join(f"<li>{_run(record, curves)}</li>" for record in rendered.runs)
    details = (
        f"\n<details><summary>{len(rendered.runs)} runs</summary>\n<ul>\n{runs}\n</ul></details>"
        if runs
        else ""
    )
    return (
        f"<h2>{_escaped(rendered.name)}</h2>\n<table>\n<tr>{head}</tr>\n{body}\n</table>"
        f"{below}{details}"
    )


def _run(record: ResultRecord, curves: Path) -> str:
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
    text = "; ".join(_escaped(fact) for fact in facts if fact)
    link = ""
    if record.curve:
        target = html.escape(quote((curves / record.curve).as_posix()))
        link = f'; <a href="{target}">learning curve</a>'
    return f"{commands}<br>{text}{link}"


def _escaped(text: str) -> str:
    return html.escape(_LINK.sub(r"\1", text).replace("`", "").replace("**", ""))
