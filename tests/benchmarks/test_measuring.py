"""What the benchmarks share, and a tiny run of decode.py, memory.py, halting.py and scaling.py."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf

from ut_tf import registry
from ut_tf.layers.attention_weights import padding_bias
from ut_tf.layers.block import BlockContext

DECODING = ["--vocab_size=20", "--batch_size=2", "--source_length=3", "--repetitions=1"]
SMALL = "hidden_size=8,filter_size=8,num_heads=2,num_layers=1"


def printed(capsys):
    """The line of JSON."""
    return json.loads(capsys.readouterr().out.splitlines()[-1])


@pytest.fixture
def run(script, monkeypatch):
    """Runs a script in this process, whose threads are set for good."""

    def run_here(name, *flags):
        module = script(name)
        monkeypatch.setattr(module, "set_threads", lambda *_: None)
        return module.main([*flags, "--peak_repetitions=0"])

    return run_here


def test_the_header_names_flags_peak_and_load(script, monkeypatch):
    measuring = script("measuring")
    monkeypatch.setattr(measuring, "speed_flags", lambda: ["avx2", "amx_bf16"])
    monkeypatch.setattr(measuring, "machine_peaks", lambda *_: {"float32": 3e9, "bfloat16": 4e9})
    machine = measuring.Machine(0.25, {"float32": 2e9, "bfloat16": 5e9}, 8).with_peaks_again()
    assert "flags avx2 amx_bf16;" in machine.header()
    assert "float32 3.0, bfloat16 5.0; load average 0.25" in machine.header()


def test_calls_take_turns_after_one_that_is_not_timed(script):
    calls = []
    functions = {name: lambda name=name: calls.append(name) for name in "ab"}
    seconds = script("measuring").in_turns(functions, repetitions=2)
    assert "".join(calls) == "ababab"
    assert [len(each) for each in seconds.values()] == [2, 2]


@pytest.mark.usefixtures("eagerly")
def test_decoding_is_measured(run, capsys):
    flags = [f"--hparams={SMALL}", *DECODING, "--models=transformer", "--ctranslate2=no"]
    assert run("decode", *flags, "--lengths=3,5", "--beam_sizes=2") == 0
    rows = printed(capsys)["rows"]
    assert [(row["beam_size"], row["length"]) for row in rows] == [(2, 3), (2, 5)]
    for row in rows:
        speed = 2 * row["length"] / row["seconds"]
        assert row["symbols_per_second"] == pytest.approx(speed, rel=0.05)


def test_decoding_is_compared_with_ctranslate2(run, capsys):
    pytest.importorskip("ctranslate2")
    flags = [f"--hparams={SMALL}", *DECODING, "--models=transformer", "--lengths=4"]
    assert run("decode", *flags, "--beam_sizes=1") == 0
    ours, theirs = printed(capsys)["rows"]
    ratio = ours["symbols_per_second"] / theirs["symbols_per_second"]
    assert ours["times_ctranslate2"] == pytest.approx(ratio, rel=0.05)


def test_growth_is_against_the_length_before_and_the_ratio_against_the_first_model(script):
    times = {4: {"a": 0.001, "b": 0.002}, 8: {"a": 0.002, "b": 0.008}}
    first, second = script("memory").rows_of(times)
    assert (first["a_growth"], first["b_ms"], first["ratio"]) == (None, 2.0, 2.0)
    assert (second["a_growth"], second["b_growth"], second["ratio"]) == (2.0, 4.0, 4.0)


@pytest.mark.usefixtures("eagerly")
def test_lengths_are_measured(run, capsys):
    assert run("memory", f"--hparams={SMALL},memory_size=2", "--lengths=4", "--seconds=0") == 0
    (row,) = printed(capsys)["rows"]
    assert row["length"] == 4 and row["ratio"] > 0


def test_positions_halt_by_chance_after_the_given_share_of_the_steps(script, monkeypatch):
    monkeypatch.setattr(registry.halting_forms, "_registered", {})
    halting = script("halting")
    halting.register_by_chance.cache_clear()
    mask = tf.ones([30, 40])
    states, context = tf.random.normal([30, 40, 8]), BlockContext(bias=padding_bias(mask))
    for compute in ("dense", "compact"):
        recurrence = halting.make_recurrence(8, share=0.5, steps=6, compute=compute)
        _, details = recurrence(states, mask, None, context, training=False)
        assert np.mean(details.ponder_times) == pytest.approx(3.0, abs=0.3)


def test_what_dividing_costs_is_said_of_the_first_setting(script):
    row = {"devices": 1, "wall_ms": 9.0, "parameters": 10}
    first = {**row, "workers": 1, "cpu_ms": 100.0, "bytes": 0.0}
    two = {**row, "workers": 2, "cpu_ms": 133.0, "bytes": 80.0}
    found = script("scaling").row_of(two, first)
    assert (found["lost"], found["sent_gradients"]) == ("+33%", 2.0)
