"""benchmarks/machine.py, threads.py and halting.py: the machine's header, the best of
several rounds, and positions that halt by chance.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import tensorflow as tf

from ut_tf import registry
from ut_tf.layers.attention import padding_bias
from ut_tf.layers.block import BlockContext

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def _module(name: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location(
        f"benchmark_{name}", BENCHMARKS / f"{name}.py"
    )
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module


def test_the_header_names_flags_peak_and_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = _module("machine")
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("flags\t: fpu amx_bf16 avx2 sse\n")
    assert machine.speed_flags(cpuinfo) == ["avx2", "amx_bf16"]

    monkeypatch.setattr(machine, "speed_flags", lambda: ["avx2", "amx_bf16"])
    monkeypatch.setattr(machine, "machine_peaks", lambda *_: {"float32": 3e9, "bfloat16": 4e9})
    measured = machine.Machine(0.25, {"float32": 2e9, "bfloat16": 5e9}, 8).with_peaks_again()
    assert "flags avx2 amx_bf16;" in measured.header()
    assert "float32 3.0, bfloat16 5.0; load average 0.25" in measured.header()
    assert measured.row()["flags"] == ["avx2", "amx_bf16"]


def test_the_best_of_all_rounds_counts() -> None:
    threads = _module("threads")
    trained = {"flags": [], "float32": {"steps_per_second": 4.0, "cpu_ms_per_step": 300.0}}
    assert threads.times_of(trained) == {"float32": (250.0, 300.0)}
    rounds = [{"float32": (250.0, 300.0)}, {"float32": (200.0, 310.0)}]
    assert threads.best_of(rounds) == {"float32": (200.0, 300.0)}


def test_positions_halt_by_chance_after_the_given_share_of_the_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry.halting_forms, "_registered", {})
    halting = _module("halting")
    mask = tf.ones([30, 40])
    states, context = tf.random.normal([30, 40, 8]), BlockContext(bias=padding_bias(mask))
    for compute in ("dense", "compact"):
        recurrence = halting.make_recurrence(8, share=0.5, steps=6, compute=compute)
        _, details = recurrence(states, mask, None, context, training=False)
        assert np.mean(details.ponder_times) == pytest.approx(3.0, abs=0.3)
