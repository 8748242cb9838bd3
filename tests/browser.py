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
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--window-size=1280,900",
]


class NoBrowser(Exception):
    """Chromium or what drives it is missing; the message says what to install."""


def started(profile: Path) -> Any:
    """A headless Chromium, which the caller must quit.

    Args:
      profile: a folder for what it stores.

    Raises:
      NoBrowser: a part is missing.
    """
    try:
        from selenium import webdriver
    except ImportError as error:
        raise NoBrowser(f"selenium is missing: {_INSTALL}") from error
    binary = shutil.which("chromium") or shutil.which("chromium-browser")
    driver_path = shutil.which("chromedriver")
    if not binary or not driver_path:
        raise NoBrowser(f"chromium or chromedriver is missing: {_INSTALL}")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for option in _OPTIONS:
        options.add_argument(option)
    options.add_argument(f"--user-data-dir={profile}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=driver_path)
    return webdriver.Chrome(options=options, service=service)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A headless Chromium."""
    try:
        driver = started(tmp_path_factory.mktemp("profile"))
    except NoBrowser as missing:
        pytest.skip(str(missing))
    yield driver
    driver.quit()


@pytest.fixture
def tab(browser: Any, tmp_path: Path) -> Iterator[Tab]:
    """An empty page; at the end of the test the console must hold no error."""
    tab = Tab(browser, tmp_path)
    tab.errors()
    yield tab
    assert tab.errors() == []
