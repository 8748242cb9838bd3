"""The pictures of the README show what the shipped models do."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.usefixtures("eager")
def test_the_board_is_solved_as_the_readme_says(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("PIL")
    monkeypatch.setattr(sys, "path", [str(ROOT / "docs"), *sys.path])
    import pictures

    steps = pictures.board()
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    told = re.search(r"the (\d+) blank cells .* after (\d) to (\d) steps; .* (\d) to (\d) r", text)
    assert told is not None
    blank = [cell for cell, given in enumerate(steps.given) if not given]
    stopped = [steps.stopped[cell] for cell in blank]
    rounds = [(steps.rounds or [])[cell] for cell in blank]
    seen = [len(blank), min(stopped), max(stopped), min(rounds), max(rounds)]
    assert [int(number) for number in told.groups()] == seen
    assert "".join(steps.answers[-1]) == steps.target
