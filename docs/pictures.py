"""Draws the picture of a page of ut-insights anew: ``make pictures``.

The model comes with ut-tf and the story is below, so the picture needs no training. Needed are
chromium and selenium, as for the tests of pages.
"""

import base64
import sys
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.browser import NoBrowser, started  # noqa: E402
from tests.insights.page.tab import Tab  # noqa: E402
from ut_tf.bin import insights  # noqa: E402

PICTURE = ROOT / "docs" / "images" / "think.png"
MODEL = "babi"
STORY = (
    "Anna moved to the garage. Anna grabbed the coin. Anna returned to the attic. Dimitri walked to"
    " the studio. Anna went to the pantry. Dimitri took the letter. Anna grabbed the umbrella."
    " Dimitri dropped the letter. Dimitri grabbed the lamp. Dimitri took the letter. Dimitri moved"
    " to the attic. Where is the coin?"
)
_WIDTH = 1120
_MARGIN = 24
_COLORS = 128
# Of elements of the page, in pixels from its top.
_PLACES = """
const edge = (selector, side) =>
    document.querySelector(selector).getBoundingClientRect()[side] + scrollY;
return {top: edge("main", "top"), bottom: edge("#answers", "bottom"),
        player: edge(".player", "bottom") - edge(".player", "top")};
"""


def draw(driver: Any, folder: Path) -> bytes:
    """The picture as PNG: from the choice of an example to the answers after each step, with the
    player below them.

    Args:
      driver: selenium's driver.
      folder: where the page is written.
    """
    page = folder / "think.html"
    if insights.main([f"--model={MODEL}", f"--input={STORY}", f"--html={page}", "--no_open"]):
        raise SystemExit("the page could not be written")
    tab = Tab(driver, folder)
    driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
    _resize(driver, 2000)
    tab.visit(f"file://{page}")
    places = tab.run(_PLACES)
    height = places["bottom"] + places["player"] + _MARGIN
    _resize(driver, round(height))
    clip = {
        "x": 0,
        "y": places["top"],
        "width": _WIDTH,
        "height": height - places["top"],
        "scale": 1,
    }
    shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png", "clip": clip})
    return base64.b64decode(shot["data"])


def _resize(driver: Any, height: int) -> None:
    """Gives the page that height, whatever the window adds to it."""
    size = {"width": _WIDTH, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            driver = started(Path(folder) / "profile")
        except NoBrowser as error:
            raise SystemExit(str(error)) from error
        try:
            picture = Image.open(BytesIO(draw(driver, Path(folder)))).convert("RGB")
        finally:
            driver.quit()
    picture.quantize(_COLORS).save(PICTURE, optimize=True)
    print(PICTURE.relative_to(ROOT))


if __name__ == "__main__":
    main()
