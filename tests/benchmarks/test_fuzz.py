"""benchmarks/faults/fuzz.py: a sample for each parser; all is answered or refused in a sentence."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks" / "faults"
PARSERS = (
    "babi",
    "parallel_text",
    "labelled_text",
    "trees",
    "lambada",
    "agreement",
    "hparams",
    "problem_args",
    "config_json",
    "config_file",
    "metrics_jsonl",
    "checkpoint_manifest",
    "checkpoint_state",
    "t2t_hparams",
    "t2t_index",
    "query_answers",
    "serve_requests",
)


@pytest.fixture(scope="module")
def fuzz() -> ModuleType:
    specification = importlib.util.spec_from_file_location("fuzz", FOLDER / "fuzz.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", PARSERS)
def test_a_sample_of_inputs_is_answered_or_refused(fuzz: ModuleType, name: str) -> None:
    counts = fuzz.fuzz(fuzz.parsers()[name], inputs=50, seconds=5.0, seed=1)
    assert not counts.errors
    assert counts.inputs > 20
    # Samples are read, and what is damaged is not read as if nothing were.
    assert counts.answered
    assert counts.tracebacks == 0
    assert set(fuzz.parsers()) == set(PARSERS)


def test_an_error_that_is_no_sentence_is_counted(fuzz: ModuleType, tmp_path: Path) -> None:
    def divide(content: bytes, _: Path) -> None:
        assert 1 // (b"0" not in content)

    parser = fuzz.Parser((b"1", b"20"), ("0", "1"), divide)
    counts = fuzz.fuzz(parser, inputs=4, seconds=5.0, seed=0, failures=tmp_path / "kept")
    assert counts.tracebacks > 0
    assert counts.errors
    assert b"0" in next((tmp_path / "kept").iterdir()).read_bytes()
