"""The pictures of README and docs show what the shipped models do, and what was measured."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def pictures(monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("PIL")
    monkeypatch.setattr(sys, "path", [str(ROOT / "docs"), *sys.path])
    import pictures

    return pictures


def _text(name: str) -> str:
    return " ".join((ROOT / name).read_text(encoding="utf-8").split())


@pytest.mark.usefixtures("eager")
def test_the_board_is_solved_as_the_readme_says(pictures: Any) -> None:
    steps = pictures.board()
    told = re.search(
        r"the (\d+) blank cells .* after (\d) to (\d) steps; .* (\d) to (\d) r", _text("README.md")
    )
    assert told is not None
    blank = [cell for cell, given in enumerate(steps.given) if not given]
    stopped = [steps.stopped[cell] for cell in blank]
    rounds = [(steps.rounds or [])[cell] for cell in blank]
    seen = [len(blank), min(stopped), max(stopped), min(rounds), max(rounds)]
    assert [int(number) for number in told.groups()] == seen
    assert "".join(steps.answers[-1]) == steps.target


def test_the_figure_of_ways_to_stop_is_that_of_the_kept_values(pictures: Any) -> None:
    pytest.importorskip("matplotlib")
    from PIL import Image, ImageChops, ImageStat

    kept, drawn = (
        Image.open(io.BytesIO(image)).convert("L")
        for image in (pictures.REGRET_PICTURE.read_bytes(), pictures.regret())
    )
    assert kept.size == drawn.size
    difference = ImageChops.difference(kept, drawn)
    # Fonts differ a little from machine to machine; a bar of other length differs by more.
    assert ImageStat.Stat(difference).mean[0] < 0.2


def test_what_is_told_of_ways_to_stop_is_in_their_values(pictures: Any) -> None:
    of = json.loads(pictures.REGRET.read_text(encoding="utf-8"))
    text = _text("docs/results/depth.md")
    sums, boards = of["prefix_sums_32"], of["sudoku_6x6, trained to exit"]
    told = re.search(r"wait for their bits: ([\d.]+) to ([\d.]+) of the answers", text)
    assert told is not None
    early = [sums[way]["accuracy"][0] for way in ("kl 0.001", "argmax_stable 3", "entropy 0.01")]
    assert [float(share) for share in told.groups()] == [round(min(early), 2), round(max(early), 2)]
    best = boards["confidence 0.01"]
    (accuracy,), (wasted,) = best["accuracy"], best["wasted"]
    assert accuracy == max(row["accuracy"][0] for row in boards.values())
    assert f"all: accuracy {accuracy:.4g}," in text and f" {wasted:.2f} wasted" in text
    for way in ("cosine 0.001", "state_difference 0.05"):
        assert boards[way]["wasted"] == pytest.approx(boards["fixed depth"]["wasted"], rel=1e-3)
