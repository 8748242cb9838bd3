"""A model that has diverged on the validation data is never the best, and is told."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from tests.training.toy import ToyCopy, toy_run
from ut_tf.evaluation.evaluator import Evaluator
from ut_tf.evaluation.validations import diverging, judged
from ut_tf.storage.checkpoints import CheckpointStore
from ut_tf.storage.layout import METRICS_FILE
from ut_tf.training.trainer import train

# Update by update; of the first and the last alone both are numbers.
EVALUATIONS = [
    {"accuracy": 0.5, "loss": 1.0},
    {"accuracy": 0.9, "loss": math.nan},
    {"accuracy": 0.9, "loss": math.inf},
    {"accuracy": math.nan, "loss": 0.5},
    {"accuracy": math.inf, "loss": 0.5},
    {"accuracy": 0.9, "loss": 0.5, "long/loss": math.nan},
    {"accuracy": 0.6, "loss": 0.9},
]


@pytest.mark.usefixtures("eagerly")
def test_what_is_no_number_is_told_and_never_the_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ToyCopy, "selection_metric", ("accuracy", "max"))
    run = toy_run(tmp_path, eval_frequency=1, train_steps=7, keep_checkpoint_max=9)
    found = iter(EVALUATIONS)
    monkeypatch.setattr(Evaluator, "evaluate", lambda *_: next(found))
    best = []
    original = CheckpointStore.mark_best
    monkeypatch.setattr(
        CheckpointStore,
        "mark_best",
        lambda self, step: best.append(step) or original(self, step),  # type: ignore[func-returns-value]
    )
    train(run)
    # The first mark is that of the beginning, if any.
    assert best[-7:] == [1, 1, 1, 1, 1, 1, 7]
    assert CheckpointStore(tmp_path).best_step() == 7
    lines = [line for line in capsys.readouterr().err.splitlines() if "diverged" in line]
    told = ["loss is nan", "loss is inf", "accuracy is nan", "accuracy is inf", "long/loss is nan"]
    assert len(lines) == len(told)
    for step, (line, words) in enumerate(zip(lines, told, strict=True), 2):
        assert line.startswith(f"warning: at step {step} ") and words in line
        assert "that of step 1 stays" in line and "lower learning_rate" in line
    assert list(judged(tmp_path / METRICS_FILE, "accuracy")) == [(1, 0.5), (7, 0.6)]


def test_where_no_evaluation_is_sound_none_is_the_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Evaluator, "evaluate", lambda *_: {"loss": math.inf})
    run = toy_run(tmp_path, eval_frequency=2, train_steps=4)
    train(run)
    assert CheckpointStore(tmp_path).best_step() is None
    assert capsys.readouterr().err.count("does not count as the best, none is;") == 2


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, None])
def test_losses_of_every_set_are_looked_at_and_those_of_groups_are_not(
    number: float | None,
) -> None:
    metrics = {"loss": 1.0, "long/loss": number, "loss/task_1": math.nan, "error": math.nan}
    assert list(diverging(metrics)) == ["long/loss"]
    # As a file has it.
    assert list(diverging(json.loads(json.dumps(metrics)))) == ["long/loss"]
