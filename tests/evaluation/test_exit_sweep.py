"""The table of exit rules: metrics, steps and time of a run under each."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.bin.tiny_runs import digits_run, save
from tests.training.toy import toy_run
from ut_tf import run_weights
from ut_tf.bin import eval as eval_command
from ut_tf.errors import UserError
from ut_tf.evaluation.compute import ComputePoint, ComputeSweep, sweep_exits
from ut_tf.evaluation.exit_thresholds import THRESHOLDS, possible_rules
from ut_tf.evaluation.measurement import CheckpointMeasurement
from ut_tf.evaluation.records import read_records
from ut_tf.run import Run
from ut_tf.storage.checkpoints import CheckpointStore

pytestmark = pytest.mark.usefixtures("eager")


@pytest.mark.slow
def test_a_run_is_judged_at_full_depth_and_under_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each point is a model of its own, whose graphs take seconds to trace.
    monkeypatch.setitem(THRESHOLDS, "state_difference", (1e6,))
    run = toy_run(tmp_path, "toy_class", model="universal_transformer", eval_num_steps=6)
    save(run, (1,))
    sweep = sweep_exits(run, rules=["state_difference"])
    assert [(point.curve, point.value) for point in sweep.points] == [
        ("none", None),
        ("state_difference", 1e6),
    ]
    full, at_once = sweep.points
    assert (full.mean_steps, at_once.mean_steps) == (6.0, 1.0)
    assert all(point.milliseconds > 0.0 for point in sweep.points)
    assert full.metrics["loss"] != at_once.metrics["loss"]
    sweep.write(tmp_path, "exit_sweep")
    kept = json.loads((tmp_path / "exit_sweep.json").read_text())
    assert kept == sweep.to_dict()
    with (tmp_path / "exit_sweep.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["loss"]) for row in rows] == [point.metrics["loss"] for point in sweep.points]
    assert rows[0]["value"] == "" and float(rows[1]["value"]) == 1e6


def test_rules_that_a_model_cannot_take_are_left_out(tmp_path: Path) -> None:
    states = ["acceleration", "cosine", "state_difference"]
    logits = [
        *("argmax_equal", "argmax_stable", "confidence", "entropy", "kl", "kl_reverse", "minp_kl"),
    ]
    tokens = toy_run(tmp_path, model="universal_transformer")
    assert possible_rules(tokens) == states + logits
    assert possible_rules(toy_run(tmp_path, "toy_class", model="universal_transformer")) == states
    mixed = toy_run(tmp_path, model="universal_transformer", mix_layers_after=1)
    assert possible_rules(mixed) == states


@pytest.mark.slow
def test_another_model_has_no_rules(tmp_path: Path) -> None:
    run = toy_run(tmp_path, model="transformer")
    save(run, (1,))
    with pytest.raises(UserError, match="the model transformer does not have it"):
        sweep_exits(run)


def exit_point(rule: str, use: str, metrics: dict[str, float], *costs: float) -> ComputePoint:
    steps, milliseconds = costs
    measured = CheckpointMeasurement(metrics, split="test")
    threshold = None if rule == "none" else 0.001
    return ComputePoint(rule, threshold, use, False, measured, steps, None, milliseconds)


NO_LOSS = {"length_4/seq_acc": 0.5, "loss": float("nan")}
SWEEP = ComputeSweep(
    70,
    ("length_4/seq_acc",),
    (
        exit_point("none", "eval_exit=none", NO_LOSS, 6.0, 1.25),
        exit_point("kl", "eval_exit=kl", {"length_4/seq_acc": 0.4375, "loss": 1.0}, 3.5, 0.75),
    ),
)


@pytest.mark.slow
def test_ut_eval_shows_and_keeps_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = toy_run(tmp_path, model="universal_transformer")
    save(run, (1,))
    monkeypatch.setattr(Run, "load", lambda *_args, **_options: run)
    monkeypatch.setattr(Run, "prepare", lambda run, _problem: run)
    asked = {}

    def swept(run: Run, rules: Sequence[str], **options: Any) -> ComputeSweep:
        assert run.output_dir == tmp_path
        asked["rules"] = rules
        for number, point in enumerate(SWEEP.points, start=1):
            options["on_point"](point.use, number, len(SWEEP.points))
        return SWEEP

    monkeypatch.setattr("ut_tf.evaluation.compute.sweep_exits", swept)
    assert eval_command.main([f"--output_dir={tmp_path}", "--exit_sweep=kl,entropy"]) == 0
    captured = capsys.readouterr()
    assert asked["rules"] == ("kl", "entropy")
    assert read_records(tmp_path) == []
    *_, full, kl, drawn = captured.err.splitlines()
    progress = [line for line in captured.err.splitlines() if "evaluated eval_exit=" in line]
    assert [line.partition("evaluated ")[2] for line in progress] == [
        "eval_exit=none (1 of 2)",
        "eval_exit=kl (2 of 2)",
    ]
    assert full.split() == ["eval_exit=none", "0.5", "6.00", "1.25"]
    assert kl.split() == ["eval_exit=kl", "0.4375", "3.50", "0.75"]
    assert drawn.endswith("exit_sweep.svg") and (tmp_path / "exit_sweep.png").is_file()
    (line,) = captured.out.splitlines()
    assert json.loads(line) == json.loads((tmp_path / "exit_sweep.json").read_text())
    assert json.loads(line)["points"][0]["metrics"]["loss"] is None
    assert eval_command.main([f"--output_dir={tmp_path}", "--exit_sweep"]) == 0
    assert asked["rules"] == ()
    assert eval_command.main([f"--output_dir={tmp_path}", "--exit_sweep=kle"]) == 1
    assert "did you mean kl" in capsys.readouterr().err
    assert eval_command.main(["--output_dir=x", "--exit_sweep", "--test_problem=y"]) == 2


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run whose checkpoint of step 100 goes as soon as it has been read; step 200 is there then,
    and the best.
    """
    run = digits_run(tmp_path / "run", steps=())
    save(run, (100,), {"middle/char_acc": 0.25, "loss": 2.0})
    store, real = CheckpointStore(run.output_dir), run_weights.read_checkpoint

    def read_checkpoint(*arguments: Any) -> Any:
        found = real(*arguments)
        if store.steps() == [100]:
            save(run, (200,), {"middle/char_acc": 0.5, "loss": 1.0})
            shutil.rmtree(store.path(100))
        return found

    monkeypatch.setattr(run_weights, "read_checkpoint", read_checkpoint)
    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags",
    [
        ["--lengths=3", "--checkpoint=last"],
        ["--lengths=3", "--figures={output_dir}/figures"],
        ["--lengths=3", "--checkpoint=100"],
    ],
)
def test_ut_eval_keeps_its_work(run: Run, flags: Sequence[str]) -> None:
    assert eval_command.main([f"--output_dir={run.output_dir}", *flags]) == 0
    (record,) = read_records(run.output_dir)
    assert record.step == 100
    assert record.selection is not None and record.selection["value"] == 0.25
