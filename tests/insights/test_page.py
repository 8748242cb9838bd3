"""The page and the server: nothing that a user or a vocabulary writes becomes markup."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import requests
from starlette.exceptions import HTTPException

import ut_tf
from tests.bin.tiny_runs import WORDS, stories_run
from ut_tf.errors import UserError
from ut_tf.insights.inspector import Inspector
from ut_tf.insights.rendering import static_part, to_html
from ut_tf.insights.served_page import LIMITS, MOST_BYTES, InsightsPage, insights_routes
from ut_tf.web.server import WebServer

MARKUP = "<img src=x onerror=alert(1)>"
SCRIPT = "</script><script>alert(2)</script>&\u2028"
HPARAMS = "hidden_size=8,filter_size=8,num_heads=1,transition=fc,act_max_steps=3"
STORY = f"1 Mary moved to {MARKUP}\n2 Where is {SCRIPT}?"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ut_tf.Run:
    return stories_run(
        tmp_path_factory.mktemp("markup") / "run",
        hparams_set="ut_act_babi",
        hparams=HPARAMS,
        words=(MARKUP, *WORDS[1:], SCRIPT.strip()),
        answers=(MARKUP, SCRIPT.strip(), "kitchen"),
    )


class Page(HTMLParser):
    """The elements, the text and the data of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.data: list[str] = []
        self.cells: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self.is_data = ("id", "insights") in attrs

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] == "script" and self.is_data:
            self.data.append(data)
            self.is_data = False
        elif self.tags and self.tags[-1] == "td":
            self.cells.append(data)


def test_markup_stays_text(run: ut_tf.Run, tmp_path: Path) -> None:
    path = tmp_path / "think.html"
    document = ut_tf.inspect_run(run, STORY, to_file=path)
    html = path.read_text(encoding="utf-8")
    page = Page(html)
    (data,) = page.data
    assert json.loads(data) == document
    assert document["examples"][0]["input"] == STORY.strip()
    # Unknown words are read as the first one of the vocabulary.
    assert MARKUP in document["examples"][0]["thoughts"][0]["parts"][0]["positions"][0]["text"]
    assert "alert(1)" in json.dumps(
        document["examples"][0]["thoughts"][0]["parts"][0]["predictions"]
    )
    assert not {"img", "b"} & set(page.tags)
    assert page.tags.count("script") == Page(to_html({**document, "examples": []})).tags.count(
        "script"
    )
    static = Page(static_part(document))
    assert set(static.tags) <= {"section", "h2", "p", "table", "caption", "tr", "th", "td"}
    assert MARKUP in "".join(static.cells)
    (raw,) = re.findall(r'<script type="application/json" id="insights">(.*?)</script>', html, re.S)
    assert not {"<", ">", "&", "\u2028"} & set(raw)
    assert MARKUP not in html and "<script>alert" not in html


def test_a_placeholder_in_the_data_is_text(run: ut_tf.Run) -> None:
    document = ut_tf.inspect_run(run, "1 Mary left.\n2 Where is <!--insights-->?")
    assert json.loads(Page(to_html(document)).data[0]) == document
    assert "&lt;!--insights--&gt;" in static_part(document)


@pytest.mark.slow
def test_files_end_in_html_or_json(run: ut_tf.Run, tmp_path: Path) -> None:
    document = ut_tf.inspect_run(run, STORY, to_file=tmp_path / "new" / "think.json")
    assert json.loads((tmp_path / "new" / "think.json").read_text(encoding="utf-8")) == document
    with pytest.raises(UserError, match=r"ends in \.html or \.json"):
        ut_tf.inspect_run(run, STORY, to_file=tmp_path / "think.txt")


@pytest.fixture(scope="module")
def inspector(run: ut_tf.Run) -> Inspector:
    return Inspector.from_run(run)


@pytest.fixture(scope="module")
def server(inspector: Inspector) -> Iterator[WebServer]:
    page = InsightsPage(inspector, inspector.document([]))
    routes = insights_routes(lambda: page) + insights_routes(lambda: page, "/insights/")
    with WebServer(routes, "ut-insights", limits=LIMITS) as made:
        yield made


def ask(server: WebServer, path: str, body: bytes | None = None) -> tuple[int, str]:
    reply = requests.request(
        "GET" if body is None else "POST", f"{server.address}/{path}", data=body, timeout=60
    )
    return reply.status_code, reply.content.decode("utf-8")


def test_the_server_answers_what_is_typed(run: ut_tf.Run, server: WebServer) -> None:
    status, html = ask(server, "")
    assert (status, json.loads(Page(html).data[0])["serve"]["multiline"]) == (200, True)
    status, answer = ask(server, "think", json.dumps({"input": STORY}).encode())
    expected = ut_tf.inspect_run(run, STORY)["examples"]
    (example,) = json.loads(answer)["examples"]
    assert (status, example["thoughts"]) == (200, expected[0]["thoughts"])
    _, answer = ask(server, "think", b'{"input": "1 \\ud800.\\n2 Where?"}')
    assert json.loads(answer)["examples"][0]["input"] == "1 \ufffd.\n2 Where?"
    _, answer = ask(server, "think", b'{"input": "Mary left. Where is Mary?"}')
    assert json.loads(answer)["examples"][0]["input"] == "1 Mary left.\n2 Where is Mary?"
    # Relative paths of the page need the slash.
    assert ask(server, "insights") == ask(server, "")
    assert ask(server, "insights/think", b'{"input": ""}')[0] == 400


def test_the_server_refuses_in_a_sentence(server: WebServer) -> None:
    two = "1 Mary left.\n2 Where is Mary?\n3 Where is John?"
    refusals = {
        json.dumps({"input": "2 Where is Mary?"}): (400, "; correct that line."),
        json.dumps({"input": two}): (400, "2 examples"),
        json.dumps(["input"]): (400, "not JSON of the form"),
        "{": (400, "not JSON of the form"),
        json.dumps({"input": "a" * MOST_BYTES}): (413, "at most"),
    }
    for body, (code, words) in refusals.items():
        status, answer = ask(server, "think", body.encode())
        assert status == code and words in json.loads(answer)["error"], body[:40]
    assert ask(server, "elsewhere")[0] == ask(server, "elsewhere", b"{}")[0] == 404


def test_what_is_refused_never_reaches_the_model(
    inspector: Inspector, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = InsightsPage(inspector, inspector.document([]))
    monkeypatch.setattr(inspector.thinkers[0], "think", lambda _: pytest.fail("the model ran"))
    story = "1 Mary left.\n2 Where is Mary?\n"
    refusals = {
        json.dumps({"input": 9 * story}).encode(): "9 examples: give one at a time",
        b"[" * 20_000: "not JSON of the form",
        b" " * (MOST_BYTES + 1): "at most",
    }
    for body, words in refusals.items():
        with pytest.raises(HTTPException, match=words):
            asyncio.run(page.think(body))
