"""The scripts of benchmarks/, which are no package and import each other by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Imports a script by name."""
    for folder in (BENCHMARKS / "faults", BENCHMARKS):
        monkeypatch.syspath_prepend(str(folder))
    return importlib.import_module
