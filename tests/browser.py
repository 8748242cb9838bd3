"""One browser for all tests of pages, and the pages that it opens."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.insights.page.tab import Tab

_INSTALL = "apt-get install -y chromium chromium-driver, and pip install selenium"
_OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,900",
]


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A headless Chromium."""
    webdriver = pytest.importorskip("selenium.webdriver", reason=f"selenium is missing: {_INSTALL}")
    binary = shutil.which("chromium") or shutil.which("chromium-browser")
    driver_path = shutil.which("chromedriver")
    if not binary or not driver_path:
        pytest.skip(f"chromium or chromedriver is missing: {_INSTALL}")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for option in _OPTIONS:
        options.add_argument(option)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=driver_path)
    driver = webdriver.Chrome(options=options, service=service)
    yield driver
    driver.quit()


@pytest.fixture
def tab(browser: Any, tmp_path: Path) -> Iterator[Tab]:
    """An empty page; at the end of the test the console must hold no error."""
    tab = Tab(browser, tmp_path)
    tab.errors()
    yield tab
    assert tab.errors() == []
