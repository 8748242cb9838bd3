"""Draws the pictures of the documentation anew: ``make pictures``.

A board that is solved step by step, a page of ut-insights, and the regret of ways to stop. The
models come with ut-tf, board and story are below, and the regret is kept in results/, so nothing is
trained. The page needs chromium and selenium, as its tests do.
"""

import base64
import json
import sys
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.browser import NoBrowser, started  # noqa: E402
from tests.insights.page.tab import Tab  # noqa: E402
from ut_tf.bin import insights  # noqa: E402
from ut_tf.figures.board_steps import BoardSteps, board_steps, save_animation  # noqa: E402
from ut_tf.figures.by import regret_bars  # noqa: E402
from ut_tf.figures.style import as_image  # noqa: E402
from ut_tf.insights.inspector import Inspector  # noqa: E402
from ut_tf.problems.reasoning.rounds import rounds_of_singles, units  # noqa: E402
from ut_tf.problems.reasoning.sudoku import BLANK_ID, SIZES  # noqa: E402
from ut_tf.run import Run  # noqa: E402
from ut_tf.sharing.places import model_folder  # noqa: E402

PICTURE = ROOT / "docs" / "images" / "think.png"
MODEL = "babi"
STORY = (
    "Anna moved to the garage. Anna grabbed the coin. Anna returned to the attic. Dimitri walked to"
    " the studio. Anna went to the pantry. Dimitri took the letter. Anna grabbed the umbrella."
    " Dimitri dropped the letter. Dimitri grabbed the lamp. Dimitri took the letter. Dimitri moved"
    " to the attic. Where is the coin?"
)
BOARD_PICTURE = ROOT / "docs" / "images" / "board.gif"
BOARD_MODEL = "sudoku6"
BOARD = "15.... ..4... .1.3.. 2.61.. .....3 ...54."
SOLUTION = "152436 364215 415362 236154 541623 623541"
# Of each problem and way to stop, what ``ut-report --by=regret`` draws.
REGRET = ROOT / "results" / "regret.json"
REGRET_PICTURE = ROOT / "docs" / "images" / "regret.png"
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


def board() -> BoardSteps:
    """The steps of the board, and the rounds of singles in which its cells are known."""
    clues, digits = (
        np.array([[int(cell) for cell in text.replace(" ", "").replace(".", "0")]])
        for text in (BOARD, SOLUTION)
    )
    # It counts digits from 0.
    rounds = rounds_of_singles(units(SIZES[6]), digits - 1, clues > 0)
    (thinker,) = Inspector.from_run(Run.load(model_folder(BOARD_MODEL))).thinkers
    given = thinker.given(
        {
            "inputs": (clues[0] + BLANK_ID).astype(np.int32),
            "targets": (digits[0] + BLANK_ID).astype(np.int32),
            "position_difficulty": rounds[0],
        }
    )
    return board_steps({"thoughts": [thinker.think(given)], "target": given.target})


def regret() -> bytes:
    """The figure of ways to stop, as PNG."""
    return as_image(regret_bars(json.loads(REGRET.read_text(encoding="utf-8"))))


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
    save_animation(board(), BOARD_PICTURE)
    print(BOARD_PICTURE.relative_to(ROOT))
    REGRET_PICTURE.write_bytes(regret())
    print(REGRET_PICTURE.relative_to(ROOT))
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
