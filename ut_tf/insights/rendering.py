"""The page of a document: one HTML file with everything in it.

The template ``page/index.html`` is built from the sources in page/. Besides the data, which a
script shows, the page holds a table of each example that can be read without JavaScript.
"""

import json
import re
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from ut_tf.errors import UserError, file_errors
from ut_tf.storage.files import write_text

_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}
_PLACEHOLDERS = re.compile("<!--(title|static|insights)-->")


def to_json(document: dict[str, Any]) -> str:
    """The document as one line of JSON."""
    return json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def to_html(document: dict[str, Any]) -> str:
    """The page that shows a document."""
    template = files("ut_tf.insights").joinpath("page/index.html").read_text(encoding="utf-8")
    data = to_json(document).translate(_ESCAPES)
    parts = {
        "title": escape(document["title"]),
        "static": static_part(document),
        "insights": f'<script type="application/json" id="insights">{data}</script>',
    }
    return _PLACEHOLDERS.sub(lambda match: parts[match[1]], template)


def write_document(document: dict[str, Any], path: Path) -> None:
    """Writes a document as a page (.html) or as JSON (.json).

    Raises:
      UserError: the name ends in neither, or the file cannot be written.
    """
    writers = {".html": to_html, ".htm": to_html, ".json": to_json}
    writer = writers.get(path.suffix.lower())
    if writer is None:
        raise UserError(f"{path}: expected a name that ends in .html or .json.")
    with file_errors(path, "name another file", "written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, writer(document) + "\n")


def static_part(document: dict[str, Any]) -> str:
    """The examples as tables of positions and ponder times, HTML."""
    names = [run["name"] for run in document["runs"]]
    return "\n".join(_example(example, names) for example in document["examples"])


def _example(example: dict[str, Any], names: list[str]) -> str:
    lines = [f"<section><h2>{escape(example['title'])}</h2>"]
    if example["group"] is not None:
        lines.append(f"<p>{escape(example['group'])}</p>")
    if example["target"] is not None:
        lines.append(f"<p>Right answer: {escape(example['target'])}</p>")
    for name, thought in zip(names, example["thoughts"], strict=True):
        if thought is None:
            lines.append(f"<p>{escape(name)} cannot read this example.</p>")
            continue
        probability = thought["probability"]
        shown = "" if probability is None else f" (probability {probability:.3f})"
        lines.append(f"<p>{escape(name)} answers: {escape(thought['answer'])}{shown}</p>")
        lines += [_table(part) for part in thought["parts"]]
    return "\n".join([*lines, "</section>"])


def _table(part: dict[str, Any]) -> str:
    rows = [
        f"<tr><td>{escape(position['text'])}</td><td>{position['ponder_time']:g}</td></tr>"
        for position in part["positions"]
    ]
    caption = f"{part['label']} ({part['steps']} step{'s' * (part['steps'] != 1)})"
    head = "<tr><th>position</th><th>ponder time</th></tr>"
    return "\n".join([f"<table><caption>{escape(caption)}</caption>", head, *rows, "</table>"])
