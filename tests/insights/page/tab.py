"""The browser's page as a reader uses it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.insights.page.pages import page_of


class Tab:
    """One page in the browser.

    Args:
      driver: selenium's driver.
      folder: where pages are written.
    """

    def __init__(self, driver: Any, folder: Path) -> None:
        self.driver = driver
        self._folder = folder

    def open(self, document: dict[str, Any], fragment: str = "", drawn: bool = True) -> None:
        """Opens the page of a document; `drawn`: waits until its script has drawn it."""
        path = self._folder / "page.html"
        path.write_text(page_of(document), encoding="utf-8")
        self.visit(f"file://{path}{fragment}", drawn)

    def visit(self, address: str, drawn: bool = True) -> None:
        """Opens an address anew, even where only the fragment is another."""
        self.driver.get("about:blank")
        self.driver.get(address)
        if drawn:
            # A busy machine may run the page's script after the browser calls it loaded.
            script = "return document.querySelector('#static') === null"
            self.wait(lambda: self.run(script), "the page draws nothing")

    def run(self, script: str, *arguments: Any) -> Any:
        """The result of a script in the page."""
        return self.driver.execute_script(script, *arguments)

    def find(self, selector: str) -> Any:
        """The first element of a CSS selector."""
        return self.driver.find_element("css selector", selector)

    def count(self, selector: str) -> int:
        """Number of elements of a CSS selector."""
        return self.run("return document.querySelectorAll(arguments[0]).length", selector)

    def texts(self, selector: str) -> list[str]:
        """The texts of the elements of a CSS selector."""
        script = "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)"
        return self.run(script, selector)

    def text(self, selector: str) -> str:
        """The text of the first element of a CSS selector."""
        return self.texts(selector)[0]

    def click(self, selector: str) -> None:
        """Clicks the first element of a CSS selector."""
        self.run(
            "document.querySelector(arguments[0])"
            ".dispatchEvent(new MouseEvent('click', {bubbles: true}))",
            selector,
        )

    def press(self, key: str) -> None:
        """Presses a key where the focus is."""
        self.run(
            "(document.activeElement || document.body).dispatchEvent("
            "new KeyboardEvent('keydown', {key: arguments[0], bubbles: true, cancelable: true}))",
            key,
        )

    def slide(self, step: int) -> None:
        """Moves the slider to a step."""
        self.run(
            "const slider = document.getElementById('step'); slider.value = arguments[0];"
            "slider.dispatchEvent(new Event('input', {bubbles: true}))",
            step,
        )

    def wait(self, condition: Callable[[], Any], what: str) -> None:
        """Waits until a condition holds."""
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, 10, poll_frequency=0.05).until(lambda _: condition(), what)

    def errors(self) -> list[str]:
        """What the console has said since it was last asked."""
        return [entry["message"] for entry in self.driver.get_log("browser")]
