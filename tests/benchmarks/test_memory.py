"""benchmarks/memory.py: its rows, and the command itself."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "memory.py"
    specification = importlib.util.spec_from_file_location("benchmark_memory", path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module


def test_growth_is_against_the_length_before_and_the_ratio_against_the_first_model(
    benchmark: ModuleType,
) -> None:
    first, second = benchmark.rows_of(
        {4: {"a": 0.001, "b": 0.002}, 8: {"a": 0.002, "b": 0.008}}, ["a", "b"]
    )
    assert first == {
        "length": 4,
        "a_ms": 1.0,
        "a_growth": None,
        "b_ms": 2.0,
        "b_growth": None,
        "ratio": 2.0,
    }
    assert (second["a_growth"], second["b_growth"], second["ratio"]) == (2.0, 4.0, 4.0)


@pytest.mark.usefixtures("eagerly")
def test_command_prints_a_table_and_json(
    benchmark: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    small = "hidden_size=8,filter_size=8,num_heads=2,num_layers=1,memory_size=2"
    assert (
        benchmark.main(
            [
                f"--hparams={small}",
                "--lengths=4",
                "--seconds=0",
                "--peak_repetitions=0",
                "--intra_op_threads=0",
                "--inter_op_threads=0",
            ]
        )
        == 0
    )
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert isinstance(found["flags"], list)
    assert [row["length"] for row in found["rows"]] == [4] and found["rows"][0]["ratio"] > 0


@pytest.mark.parametrize(
    ("models", "mistake"),
    [
        ("mem_transformer,transformers", "unknown model 'transformers'"),
        ("memn2n", "the model memn2n does not have it"),
    ],
)
def test_models_that_cannot_be_measured_are_named(
    models: str,
    mistake: str,
    benchmark: ModuleType,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert (
        benchmark.main(
            [
                f"--models={models}",
                "--hparams=num_heads=1",
                "--peak_repetitions=0",
                "--intra_op_threads=0",
                "--inter_op_threads=0",
            ]
        )
        == 1
    )
    assert mistake in capsys.readouterr().err
