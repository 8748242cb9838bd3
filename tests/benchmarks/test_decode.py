"""benchmarks/decode.py: a tiny run of the command, with and without CTranslate2."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

TINY = "hidden_size=8,filter_size=8,num_heads=2,num_steps=1,num_layers=1"


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "decode.py"
    specification = importlib.util.spec_from_file_location("benchmark_decode", path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def arguments(benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The flags of a tiny run, in this process, whose threads are set for good."""
    monkeypatch.setattr(benchmark, "set_threads", lambda *_: None)
    sizes = ["--vocab_size=20", "--batch_size=2", "--source_length=3"]
    return [f"--hparams={TINY}", *sizes, "--repetitions=1", "--peak_repetitions=0"]


@pytest.mark.usefixtures("eagerly")
def test_command_prints_a_table_and_json(
    benchmark: ModuleType, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        benchmark.main(
            [
                *arguments,
                "--models=transformer",
                "--lengths=3,5",
                "--beam_sizes=2",
                "--ctranslate2=no",
            ]
        )
        == 0
    )
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    rows = found["measurements"]
    assert [(row["model"], row["beam_size"], row["length"]) for row in rows] == [
        ("transformer", 2, 3),
        ("transformer", 2, 5),
    ]
    assert all(
        row["symbols_per_second"] == pytest.approx(2 * row["length"] / row["seconds"], rel=0.05)
        for row in rows
    )


def test_command_compares_with_ctranslate2(
    benchmark: ModuleType, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ctranslate2")
    assert (
        benchmark.main([*arguments, "--models=transformer", "--lengths=4", "--beam_sizes=1"]) == 0
    )
    ours, theirs = json.loads(capsys.readouterr().out.splitlines()[-1])["measurements"]
    assert ours["times_ctranslate2"] == pytest.approx(
        ours["symbols_per_second"] / theirs["symbols_per_second"], rel=0.05
    )


def test_outputs_have_the_forced_length(benchmark: ModuleType) -> None:
    network = benchmark.make_networks(benchmark.parse([f"--hparams={TINY}"]))[
        "universal_transformer"
    ]
    shape = benchmark.Shape(batch_size=2, source_length=3, vocab_size=20, length=6)
    symbols = benchmark.our_search(
        benchmark.make_model("universal_transformer", network, 20, "float32"), 2, shape
    )()
    assert symbols.shape == (2, 1, 6) and (symbols[:, :, :-1] > 1).all()


def test_what_is_missing_is_said(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(benchmark, "has_ctranslate2", lambda: False)
    assert benchmark.main(["--ctranslate2=yes"]) == 1
    assert "pip install ctranslate2" in capsys.readouterr().err
