"""The built page belongs to the sources beside it, and asks for nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import re

from tests.insights.page.pages import ROOT, TEMPLATE

PAGE = ROOT / "page"
BUILD_FILES = ["build.mjs", "package.json", "package-lock.json", "tsconfig.json"]


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
