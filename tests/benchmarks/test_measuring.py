"""What the benchmarks share, and a tiny run of decode.py, memory.py, halting.py and scaling.py."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf

from ut_tf import registry
from ut_tf.layers.attention_weights import padding_bias
from ut_tf.layers.block import BlockContext

pytestmark = pytest.mark.slow

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
