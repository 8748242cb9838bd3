"""benchmarks/faults/ledger.py finds examples that are used twice, or not at all."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

FAULTS = Path(__file__).parents[2] / "benchmarks" / "faults"


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [str(FAULTS), *sys.path])
    module = importlib.import_module("ledger")
    monkeypatch.setattr(module, "EXAMPLES", 6)
    return module


def entries(*workers: list[list[list[int]]]) -> list[dict[int, list[list[int]]]]:
    """The ledger of each worker: of each update, the examples each time that it was made."""
    return [dict(enumerate(updates, start=1)) for updates in workers]


def test_a_right_ledger_has_no_mistakes(ledger: ModuleType) -> None:
    # The second update was lost with its process, and made again.
    one = entries([[[0, 4, 2]], [[1, 3, 5], [1, 3, 5]], [[5, 4, 3]]])
    assert ledger.mistakes_in(one, 3) == []
    two = entries([[[0, 4]], [[2]]], [[[1]], [[3, 5]]])
    assert ledger.mistakes_in(two, 2) == []


def test_a_cut_line_spoils_no_other(ledger: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "ledger"
    lines = ['{"step": 1, "examples": [0, 4]}', '{"step": 2, "exam', '{"step": 2, "examples": [3]}']
    file.write_text("".join(f"\n{line}" for line in lines))
    assert ledger.entries_of(file) == {1: [[0, 4]], 2: [[3]]}


@pytest.mark.parametrize(
    ("updates", "mistake"),
    [
        ([[[0, 4, 2]], [[1, 3, 4]]], "epoch 0: examples [4] more than once"),
        ([[[0, 4, 2]], [[1, 3, 5], [1, 5, 3]]], "update 2 of worker 0 was made of different"),
        ([[[0, 4, 2]]], "3 examples in all updates: less than an epoch"),
        # An update that was left out after a kill moves the epochs.
        ([[[0, 1, 2]], [], [[0, 1, 2]], [[3, 4, 5]]], "epoch 0: examples [0, 1, 2] more than once"),
    ],
)
def test_mistakes_are_found(
    ledger: ModuleType, updates: list[list[list[int]]], mistake: str
) -> None:
    assert ledger.mistakes_in(entries(updates), len(updates))[0].startswith(mistake)
