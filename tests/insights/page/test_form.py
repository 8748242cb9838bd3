"""The form of a served page: one's own input, and the server's refusals."""

from __future__ import annotations

import base64
import hashlib
import json
import pathlib
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.insights.page import synthetic
from tests.insights.page.pages import TEMPLATE, page_of
from tests.insights.page.tab import Tab


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        examples = [] if self.path.startswith("/?none") else [synthetic.facts_example()]
        document = synthetic.document("facts", examples)
        document["serve"] = {"input_hint": "numbered sentences", "multiline": True}
        self._send(200 if self.path.split("?")[0] == "/" else 204, page_of(document))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/think" and json.loads(body)["input"] == "1 a\n2 b ?":
            own = {**synthetic.facts_example("own"), "title": "my own question"}
            self._send(200, json.dumps({"examples": [own]}))
        else:
            self._send(400, json.dumps({"error": "expected <b>numbered</b> sentences"}))

    def log_message(self, format: str, *args: object) -> None:
        del format, args

    def _send(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        if status != 204:
            self.wfile.write(text.encode())


@pytest.fixture
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


def _send(tab: Tab, text: str) -> None:
    tab.run("document.getElementById('own-input').value = arguments[0]", text)
    tab.click(".own [type=submit]")


def test_an_input_of_ones_own_becomes_the_example_that_is_shown(tab: Tab, address: str) -> None:
    tab.visit(address)
    assert tab.find("#own-input").get_attribute("placeholder") == "numbered sentences"
    _send(tab, "1 a\n2 b ?")
    tab.wait(lambda: tab.text(".example-head h2") == "my own question", "the answer")
    assert tab.texts("#example option:checked") == ["my own question"]
    assert tab.count("#example option") == 2


def test_a_refusal_is_shown_as_text(tab: Tab, address: str) -> None:
    tab.visit(address)
    _send(tab, "nonsense")
    refusal = "expected <b>numbered</b> sentences"
    tab.wait(lambda: tab.text(".form-message") == refusal, "the refusal")
    assert tab.text(".example-head h2") == "where is the letter"
    # The browser itself reports the status 400.
    assert all("400" in message for message in tab.errors())


def test_a_page_without_examples_waits_for_an_input(tab: Tab, address: str) -> None:
    tab.visit(f"{address}?none")
    assert not tab.find(".static-table").is_displayed()
    assert not tab.find(".player").is_displayed()
    for key in ("ArrowRight", "n", "End", " "):
        tab.press(key)
    _send(tab, "1 a\n2 b ?")
    tab.wait(lambda: tab.count(".headline") == 1, "the answer")
    assert tab.text(".step-label") == "step 6 of 6"
    assert tab.find(".player").is_displayed()


ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = ROOT / "page"
BUILD_FILES = [
    "../ut_tf/web/theme.css",
    "build.mjs",
    "package.json",
    "package-lock.json",
    "tsconfig.json",
]


def test_the_built_page_is_that_of_the_sources() -> None:
    sources = [path for path in (PAGE / "src").rglob("*") if path.is_file()]
    names = [path.relative_to(PAGE).as_posix() for path in sources]
    digest = hashlib.sha256()
    for name in sorted([*BUILD_FILES, *names]):
        digest.update(f"{name}\0".encode())
        digest.update((PAGE / name).read_bytes() + b"\0")
    built = re.search(r'<meta name="sources-sha256" content="(\w+)">', TEMPLATE.read_text("utf-8"))
    assert built is not None
    assert built[1] == digest.hexdigest(), "page/ was changed: run `make page`"


def test_the_built_script_is_the_only_one_that_may_run() -> None:
    html = TEMPLATE.read_text("utf-8")
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{allowed}'" in html
    assert "default-src 'none'" in html


def test_the_page_is_small_whole_and_loads_nothing() -> None:
    html = TEMPLATE.read_text("utf-8")
    assert len(html.encode()) < 1_000_000
    for mark in ("<!--title-->", "<!--static-->", "<!--insights-->"):
        assert html.count(mark) == 1
    assert re.findall(r"""(?:src|href)\s*=\s*["']?(?!data:)\w""", html.split("<script>")[0]) == []
    assert re.findall(r"(?:url|@import)\(?[\"' ]*https?:", html) == []


def test_the_sources_parse_no_markup() -> None:
    parsers = r"innerHTML|outerHTML|insertAdjacentHTML|DOMParser|document\.write|\.html\(|\beval\b"
    for path in (PAGE / "src").rglob("*.ts"):
        assert re.findall(parsers, path.read_text("utf-8")) == [], path


def test_the_licenses_of_what_is_bundled_lie_beside_it() -> None:
    licenses = (TEMPLATE.parent / "LICENSES.txt").read_text("utf-8")
    for name in ("d3-selection", "d3-scale", "@fontsource-variable/inter"):
        assert re.search(rf"^{re.escape(name)} \d", licenses, re.MULTILINE)


def test_the_lockfile_names_no_registry() -> None:
    assert "resolved" not in (PAGE / "package-lock.json").read_text("utf-8")
