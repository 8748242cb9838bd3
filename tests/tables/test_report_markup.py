"""Reports about runs that others have named: no name becomes markup, or an order to a terminal."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

import pytest

from tests.bin.stub_runs import evaluate, stub_run
from tests.tables.finished_runs import finished_run
from ut_tf.bin import report

COPY = "algorithmic_copy_decimal40"
SCRIPT = "</script><script>alert(1)</script>"
IMAGE = '"><img src=x onerror=alert(1)>'
LINK = r"![x](http://x.example/a)\[y](javascript:alert(1))[z\](javascript:alert(1))"
ORDER = "\x1b]0;owned\x07\x1b[2J"
HARMLESS = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "table", "tr", "th", "td"}
HARMLESS |= {"a", "p", "ul", "li", "code", "figure", "svg", "g", "path", "defs", "use", "clippath"}
HARMLESS |= {"rect", "metadata", "rdf:rdf", "cc:work", "dc:type", "dc:date", "dc:format", "text"}
HARMLESS |= {"dc:creator", "cc:agent", "dc:title", "details", "summary", "br"}


class Markup(HTMLParser):
    """The elements of a page, and what its links lead to."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.orders: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name == "href"]
        self.orders += [name for name, _ in attrs if name.startswith("on")]


@pytest.fixture
def hostile(runs):
    """Runs with markup in their folders, sets, problems and models."""
    names = ["javascript:alert(1)", IMAGE.replace("/", ""), "<script>alert(1)<", f"a{ORDER}b"]
    for seed, name in enumerate(names):
        evaluate(stub_run(runs / name, COPY, "ut_algorithmic", seed), {"char_acc": 0.5}, 0.5)
    for number, text in enumerate((SCRIPT, IMAGE, LINK, f"a|b\n# c{ORDER}")):
        for problem in (COPY, "unknown"):
            folder = stub_run(runs / f"{problem}{number}", COPY, "ut_algorithmic")
            evaluate(folder, {text: 0.5, "length_400/char_acc": 0.5}, 0.5)
            path = folder / "config.json"
            config = json.loads(path.read_text())
            changes = {"hparams_set": text, "overrides": f"dropout=0.1,{text}"}
            changes["problem"] = text if problem == "unknown" else COPY
            path.write_text(json.dumps({**config, **changes}))
    stub_run(runs / f"not evaluated {IMAGE.replace('/', '')}", COPY, "ut_algorithmic", 9)
    return runs


@pytest.mark.usefixtures("hostile")
def test_a_page_of_html_has_no_element_of_a_name(run_report):
    html = run_report("--format=html")
    markup = Markup(html)
    assert markup.tags <= HARMLESS
    assert markup.orders == []
    assert not any(link.lower().startswith(("javascript:", "data:")) for link in markup.links)
    assert "alert(1)" in html


@pytest.mark.usefixtures("hostile")
def test_markdown_has_neither_elements_nor_further_cells_nor_orders(run_report):
    text = run_report()
    assert "alert(1)" in text
    # What is indented is code, in which nothing is an element.
    prose = [line for line in text.splitlines() if not line.startswith("    ")]
    assert "<" not in "".join(prose)
    assert "![x]&#40;http" in "".join(prose)
    assert "](" not in "".join(prose)
    assert not any(ord(sign) < 32 and sign != "\n" for sign in text)
    assert "\n# c" not in text


def test_kept_results_have_no_element_of_a_name(tmp_path):
    file, page = tmp_path / "results.jsonl", tmp_path / "page.html"
    finished_run(tmp_path / "run", "babi_qa_task1_1k", {"error": 1.0})
    assert report.main([str(tmp_path / "run"), f"--record={file}", "--table=babi"]) == 0
    texts = {"row": IMAGE, "command": SCRIPT, "evaluation": SCRIPT, "curve": "javascript:alert(1)"}
    texts |= {"version": IMAGE, "commit": SCRIPT, "hparams_set": f"{IMAGE}{LINK}"}
    line = {**json.loads(file.read_text()), **texts}
    file.write_text(json.dumps(line) + "\n")
    assert report.main([str(file), "--format=html", f"--output={page}"]) == 0
    markup = Markup(page.read_text())
    assert markup.tags <= HARMLESS
    assert markup.orders == []
    assert all(":" not in link for link in markup.links)
    assert report.main([str(file), f"--output={tmp_path / 'page.md'}"]) == 0
    text = (tmp_path / "page.md").read_text()
    assert "<" not in text
    assert "](" not in text
