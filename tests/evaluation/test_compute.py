"""Metrics against FLOP and time: the points, what they cost by hand, and the command."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.bin.tiny_runs import save
from tests.training.toy import ToyCopy, toy_run
from ut_tf import registry
from ut_tf.bin import eval as eval_command
from ut_tf.data.problem import EvaluationSet
from ut_tf.errors import UserError
from ut_tf.evaluation import compute, exit_thresholds
from ut_tf.evaluation.compute import sweep_compute
from ut_tf.evaluation.measurement import Measurement
from ut_tf.evaluation.oracle import AtOracle, can_exit
from ut_tf.evaluation.records import read_records
from ut_tf.evaluation.uses import Judged, Uses
from ut_tf.models.graph_flop import call_flop
from ut_tf.problems.reasoning.prefix_sums import PrefixSums
from ut_tf.run import Run

pytestmark = pytest.mark.usefixtures("eager")
UT = "universal_transformer"
NOISY = {"input_injection": "add", "initial_state": "noise"}


class FewSums(PrefixSums):
    """Few short strings of bits."""

    def __init__(self, name: str = "") -> None:
        super().__init__(4, 20, 5, 6, 6, name=name)


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.problems._registered, "few_sums", (FewSums, __file__))
    monkeypatch.setitem(exit_thresholds.THRESHOLDS, "state_difference", (1e6,))
    monkeypatch.setattr(compute, "ORACLE_SCALES", (1.0,))
    monkeypatch.setattr(compute, "RESTARTS", (3,))


def flop_of_steps(run: Run, length: int = 6, **steps: float) -> float:
    specs = {
        name: tf.TensorSpec([1, length], tf.int32)
        for name in ("inputs", "targets", "position_difficulty")
    }
    return call_flop(run.make_model(), specs, steps)


def test_flop_of_a_step_by_hand(tmp_path: Path) -> None:
    sizes = {"hidden_size": 8, "filter_size": 12, "num_heads": 2}
    run = toy_run(tmp_path, "few_sums", model=UT, **sizes, halting="basic", transition="fc")
    run = run.prepare(run.make_problem())
    flop = [flop_of_steps(run, encoder=steps) for steps in (0.0, 1.0, 3.5)]
    # Four projections, logits and sums of attention, two layers of the transition, halting.
    step = 2 * 6 * (4 * 8 * 8 + 2 * 6 * 8 + 2 * 8 * 12 + 8)
    assert flop[1] - flop[0] == step and flop[2] - flop[0] == 3.5 * step
    assert flop[0] == 2 * 6 * 8 * run.spec.target_vocab_size


@pytest.mark.slow
def test_restarts_cost_what_they_compute(tmp_path: Path) -> None:
    run = toy_run(tmp_path, "few_sums", model=UT, **NOISY)
    run = run.prepare(run.make_problem())
    head = 2 * 6 * run.hparams.network.hidden_size * run.spec.target_vocab_size
    plain = flop_of_steps(run, encoder=2.0)
    restarted = flop_of_steps(run.in_use("eval_restarts=3"), encoder=2.0)
    assert restarted == pytest.approx(4 * plain) and plain > head


@pytest.mark.slow
def test_the_oracles_positions_exit_at_their_difficulty(tmp_path: Path) -> None:
    run = toy_run(tmp_path, "few_sums", model=UT, eval_num_steps=6)
    model = run.make_model()
    inputs = tf.constant([[2, 3, 3, 2, 3], [3, 2, 3, 0, 0]])
    difficulty = tf.constant([[1, 2, 3, 0, -1], [2, 2, 2, 0, 0]])
    batch = {"inputs": inputs, "position_difficulty": difficulty}
    steps = AtOracle(model, 1.5)(batch, return_details=True)[1].encoder.ponder_times
    np.testing.assert_array_equal(steps, [[2, 3, 5, 1, 6], [3, 3, 3, 0, 0]])
    late = {**batch, "position_difficulty": tf.maximum(difficulty, 1)}
    read = inputs > 0
    np.testing.assert_allclose(
        AtOracle(model, 100.0)(late)[read], model(batch)[read], rtol=0.0, atol=1e-5
    )
    # Where zeros at the end were left out, and where padding stands before the symbols.
    short = {"inputs": inputs, "position_difficulty": difficulty[:, :3]}
    cut = AtOracle(model, 1.0)(short, return_details=True)[1].encoder.ponder_times
    np.testing.assert_array_equal(cut, [[1, 2, 3, 1, 1], [2, 2, 2, 0, 0]])
    padded = {name: tf.pad(value, [[0, 0], [2, 0]]) for name, value in batch.items()}
    moved = AtOracle(model, 1.5)(padded, return_details=True)[1].encoder.ponder_times
    np.testing.assert_array_equal(moved[:, 2:], steps)
    assert can_exit(run) and not can_exit(toy_run(tmp_path / "t", model="transformer"))


@pytest.mark.slow
def test_costs_of_all_curves(tmp_path: Path) -> None:
    run = toy_run(tmp_path, "few_sums", model=UT, num_steps=3, eval_num_steps=3, **NOISY)
    run = run.prepare(run.make_problem())
    save(run, (1,))
    points = sweep_compute(run, (1,), ["state_difference"], lengths=(4,)).points
    one, full, at_once, restarts, chosen, oracle = points
    # All positions exit after one step; FLOP are then those of one step.
    assert at_once.mean_steps == one.mean_steps == 1.0
    assert at_once.flop == pytest.approx(one.flop, rel=0.05)
    losses = [point.metrics["length_4/loss"] for point in (one, at_once)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert restarts.flop == pytest.approx(4 * full.flop)
    assert one.flop < oracle.flop <= full.flop * 1.05
    # The median of 3 / difficulty, weighted by the difficulties 1 to 4 and 1 to 16.
    assert chosen.value == pytest.approx(3 / 11)


@pytest.fixture
def unjudged(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Models that are judged without being called."""
    models: list[Any] = []

    def judge(_uses: Uses, model: Any) -> Judged:
        models.append(model)
        name = "length_4/seq_accuracy"
        measured = Measurement({name: 0.5}, {name: (0.25, 0.75)}, {"length_4": 6})
        return Judged(measured, float(len(models)), 1.5, lambda: 1e6 * len(models))

    monkeypatch.setattr(Uses, "judge", judge)
    return models


@pytest.mark.slow
def test_points_records_and_files(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    unjudged: list[Any],
) -> None:
    run = toy_run(tmp_path, "few_sums", model=UT, num_steps=3, eval_num_steps=3, **NOISY)
    run = run.prepare(run.make_problem())
    save(run, (1,))
    monkeypatch.setattr(Run, "load", lambda *_args, **_options: run)
    monkeypatch.setattr(Run, "prepare", lambda run, _problem: run)
    monkeypatch.setattr("ut_tf.evaluation.compute.collected", lambda *_: SimpleScale())
    flags = ["--compute", "--lengths=4", "--depth_sweep=1", "--exit_sweep=state_difference"]
    assert eval_command.main([f"--output_dir={tmp_path}", *flags]) == 0
    captured = capsys.readouterr()
    values = json.loads((tmp_path / "compute.json").read_text())
    assert json.loads(captured.out) == values
    assert [(point["curve"], point["value"]) for point in values["points"]] == [
        ("eval_num_steps", 1),
        ("eval_num_steps", 3),
        ("state_difference", 1e6),
        ("eval_restarts", 3),
        ("oracle", 0.75),
        ("oracle", 1.0),
    ]
    assert [point["usual"] for point in values["points"]] == [False, True, *[False] * 4]
    assert [isinstance(model, AtOracle) for model in unjudged] == [False] * 4 + [True] * 2
    assert [model.max_steps(False) for model in unjudged] == [1, 3, 3, 3, 3, 3]
    assert [point["flop"] for point in values["points"]] == [1e6 * n for n in range(1, 7)]
    with (tmp_path / "compute.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 6
    used = [record.used_with for record in read_records(tmp_path)]
    assert used == [
        "eval_num_steps=1",
        "",
        "eval_exit=state_difference,eval_exit_threshold=1000000.0",
        "eval_restarts=3",
    ]
    assert "as trained eval_num_steps=3" in captured.err and "0.5 [0.25, 0.75]" in captured.err
    assert (tmp_path / "compute.svg").is_file() and (tmp_path / "compute.png").is_file()


class SimpleScale:
    """What ``collected`` returns, as far as it is read."""

    def scale(self) -> float:
        return 0.75


def test_answers_that_a_search_writes_have_no_flop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets = [EvaluationSet("", "test", "greedy")]
    monkeypatch.setattr(ToyCopy, "evaluation_sets", lambda *_: sets)
    run = toy_run(tmp_path, model=UT)
    save(run, (1,))
    with pytest.raises(UserError, match="a search writes the answers of toy_copy"):
        sweep_compute(run, (1,), ["state_difference"])


def test_flags_that_do_not_go_together(capsys: pytest.CaptureFixture[str]) -> None:
    for flag in ("--by_difficulty", "--figures=f", "--decode_hparams=alpha=1"):
        assert eval_command.main(["--output_dir=x", "--compute", flag]) == 2
        assert "do not go together" in capsys.readouterr().err
