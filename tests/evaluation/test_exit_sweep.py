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
from ut_tf import registry, run_weights
from ut_tf.bin import eval as eval_command
from ut_tf.errors import UserError
from ut_tf.evaluation.compute import sweep_compute
from ut_tf.evaluation.exit_thresholds import THRESHOLDS, possible_rules, rules_at_thresholds
from ut_tf.evaluation.records import read_records
from ut_tf.models.universal_transformer.exit_rules import ExitRule
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
    sweep = sweep_compute(run, rules=["state_difference"], exits_only=True)
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


def test_a_rule_of_one_s_own_has_thresholds_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Own(ExitRule):
        """A rule."""

        sweep_thresholds = (0.1, 0.2)

    monkeypatch.setitem(registry.exit_rules._registered, "own", (Own, ""))
    run = toy_run(tmp_path, model="universal_transformer")
    assert rules_at_thresholds(run, ["own"]) == [("own", 0.1), ("own", 0.2)]
    with pytest.raises(UserError, match="the exit rule Own calls `logits\\(\\)`: set reads_logits"):
        Own().asked(None)


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
        sweep_compute(run, exits_only=True)


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
