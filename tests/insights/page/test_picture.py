"""The picture of the page in docs/insights.md shows what its caption says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from tests.insights.page.tab import Tab

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
def test_the_picture_shows_the_wrong_answer_after_three_steps(browser: Any, tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "docs" / "pictures.py")
    assert spec and spec.loader
    pictures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pictures)
    try:
        assert pictures.draw(browser, tmp_path).startswith(b"\x89PNG")
        tab = Tab(browser, tmp_path)
        assert "a question takes five steps, the facts of its story one to three](images/think" in (
            (ROOT / "docs" / "insights.md").read_text(encoding="utf-8")
        )
        assert "The facts took 1 to 3 steps" in tab.text("main")
        answers = tab.texts("#answers tbody strong")
        assert answers == ["attic", "attic", "attic", "pantry", "pantry"]
        assert "where it looks, at step" in tab.text("#thinking")
        hidden = tab.run(
            "const edge = (selector) => document.querySelector(selector).getBoundingClientRect();"
            "return edge('#answers tbody tr:last-child').bottom > edge('.player').top"
        )
        assert not hidden
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": False})
