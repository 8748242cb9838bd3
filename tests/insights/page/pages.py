"""A document put into the built page, as ut-insights does it."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
TEMPLATE = ROOT / "ut_tf" / "insights" / "page" / "index.html"


def page_of(document: dict[str, Any]) -> str:
    """The page of a document, HTML."""
    data = json.dumps(document)
    for sign in "<>&":
        data = data.replace(sign, f"\\u{ord(sign):04x}")
    rows = "".join(
        f"<tr><td>{escape(position['text'])}</td><td>{position['ponder_time']}</td></tr>"
        for example in document["examples"]
        for thought in example["thoughts"][:1]
        for part in thought["parts"]
        for position in part["positions"][:20]
    )
    html = TEMPLATE.read_text(encoding="utf-8")
    html = html.replace("<!--title-->", escape(document["title"]))
    html = html.replace("<!--static-->", f"<table><tbody>{rows}</tbody></table>")
    script = f'<script type="application/json" id="insights">{data}</script>'
    return html.replace("<!--insights-->", script)
