"""Averaged checkpoints, and weights restored for use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from toy import toy_run

from ut_tf.errors import UserError
from ut_tf.run import Run
from ut_tf.training.averaging import average_checkpoints
from ut_tf.training.checkpoints import CheckpointStore, restore_weights


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Three checkpoints in which every weight is the step's number."""
    run = toy_run(tmp_path / "run")
    run._write()
    save(run, [1, 2, 6], best_step=2)
    return run


def fill(model: Any, value: float) -> None:
    for weight in model.trainable_variables:
        weight.assign(np.full(weight.shape, value))


def save(run: Run, steps: list[int], best_step: int | None, averages: list[Any] | None = None) -> None:
    store, model = CheckpointStore(run.output_dir), run.make_model()
    for step in steps:
        fill(model, float(step))
        checkpoint = tf.train.Checkpoint(model=model, averages=averages or [])
        store.save(step, checkpoint, {"best_step": best_step, "averaged": bool(averages)})


def weights_of(run: Run, which: str) -> tuple[int, set[float]]:
    model = run.make_model()
    step = restore_weights(model, run, which)
    return step, {float(value) for weight in model.trainable_variables for value in weight.numpy().ravel()}


def test_the_mean_of_the_last_two(run: Run, tmp_path: Path) -> None:
    assert average_checkpoints(run, 2, tmp_path / "mean") == 6
    mean = Run.load(tmp_path / "mean")
    assert weights_of(mean, "best") == (6, {4.0})
    assert weights_of(mean, "last") == (6, {4.0})


def test_a_damaged_checkpoint_is_not_in_the_mean(run: Run, tmp_path: Path) -> None:
    (CheckpointStore(run.output_dir).path(6) / "state.json").write_text("{}")
    average_checkpoints(run, 2, tmp_path / "mean")
    assert weights_of(Run.load(tmp_path / "mean"), "last") == (2, {1.5})


def test_mistakes(run: Run, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has 3 intact checkpoints"):
        average_checkpoints(run, 4, tmp_path / "mean")
    with pytest.raises(UserError, match="already exists"):
        average_checkpoints(run, 2, run.output_dir)
    assert not (tmp_path / "mean").exists()


def test_best_last_step_and_path(run: Run) -> None:
    path = CheckpointStore(run.output_dir).path(1)
    assert [weights_of(run, which) for which in ("best", "last", "1", str(path))] == [(2, {2.0}), (6, {6.0}), (1, {1.0}), (1, {1.0})]


def test_a_damaged_best_falls_back_to_the_last(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    (CheckpointStore(run.output_dir).path(2) / "state.json").write_text("{}")
    assert weights_of(run, "best") == (6, {6.0})
    assert "state.json" in capsys.readouterr().err


def test_the_moving_average_is_what_is_restored(run: Run) -> None:
    model = run.make_model()
    averages = [tf.Variable(tf.fill(weight.shape, 0.5)) for weight in model.trainable_variables]
    save(run, [8], best_step=8, averages=averages)
    assert weights_of(run, "best") == (8, {0.5})


def test_no_such_checkpoint(run: Run, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"expected best, last, or one of \[1, 2, 6\]"):
        weights_of(run, "7")
    with pytest.raises(UserError, match="train first"):
        weights_of(toy_run(tmp_path / "empty"), "best")
    assert json.loads((run.output_dir / "config.json").read_text())["problem"] == "toy_copy"
