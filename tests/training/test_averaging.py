"""Averaged checkpoints, and weights restored for use."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.training.toy import toy_run
from ut_tf.errors import UserError
from ut_tf.run import Run
from ut_tf.run_weights import restore_weights
from ut_tf.storage.checkpoints import CheckpointStore
from ut_tf.training.averaging import (
    MOST,
    average_checkpoints,
    averaged_steps,
    best_steps,
    last_steps,
)


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


def save(
    run: Run, steps: list[int], best_step: int | None, averages: list[Any] | None = None
) -> None:
    store, model = CheckpointStore(run.output_dir), run.make_model()
    for step in steps:
        fill(model, float(step))
        checkpoint = tf.train.Checkpoint(model=model, averages=averages or [])
        store.save(step, checkpoint, {"best_step": best_step, "averaged": bool(averages)})


def weights_of(run: Run, which: str) -> tuple[int, set[float]]:
    model = run.make_model()
    step = restore_weights(model, run, which)
    return step, {
        float(value) for weight in model.trainable_variables for value in weight.numpy().ravel()
    }


def test_the_mean_of_the_last_two(run: Run, tmp_path: Path) -> None:
    assert average_checkpoints(run, last_steps(run, 2), tmp_path / "mean") == 6
    mean = Run.load(tmp_path / "mean")
    assert weights_of(mean, "best") == (6, {4.0})
    assert weights_of(mean, "last") == (6, {4.0})
    assert averaged_steps(tmp_path / "mean") == [2, 6]
    assert averaged_steps(run.output_dir) == averaged_steps(tmp_path / "nothing") == []


def test_the_same_mean_is_made_once_and_nothing_gives_way_to_another(
    run: Run, tmp_path: Path
) -> None:
    mean = tmp_path / "mean"
    (tmp_path / ".tmp-mean-77").mkdir()
    average_checkpoints(run, [1, 2], mean)
    (mean / "export" / "1").mkdir(parents=True)
    assert average_checkpoints(run, [2, 1], mean) == 2
    assert (mean / "export" / "1").is_dir()
    with pytest.raises(UserError, match=r"holds the mean of the steps 1, 2: .*`destination`"):
        average_checkpoints(run, [2, 6], mean)
    # Trained again: the steps are the same, the weights are not.
    shutil.rmtree(run.output_dir / "checkpoints")
    save(run, [1, 2], best_step=1)
    with pytest.raises(UserError, match="holds the mean of the steps 1, 2: "):
        average_checkpoints(run, [1, 2], mean)
    assert averaged_steps(mean) == [1, 2]
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "mean"):
        with pytest.raises(UserError, match="`destination`"):
            average_checkpoints(run, [1, 2], place)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "mean", "run"]


def test_a_damaged_checkpoint_is_not_in_the_mean(run: Run, tmp_path: Path) -> None:
    (CheckpointStore(run.output_dir).path(6) / "state.json").write_text("{}")
    average_checkpoints(run, last_steps(run, 2), tmp_path / "mean")
    assert weights_of(Run.load(tmp_path / "mean"), "last") == (2, {1.5})


def test_the_best_by_the_metric_that_chooses_checkpoints(run: Run, tmp_path: Path) -> None:
    values = {1: 0.5, 2: 0.3, 3: 0.1, 6: 0.5}  # Step 3 is no longer there.
    lines = [
        json.dumps({"kind": "eval", "step": step, "loss": value}) for step, value in values.items()
    ]
    others = [
        json.dumps({"kind": "train", "step": 1, "loss": 0.0}),
        json.dumps({"kind": "eval", "step": 6, "loss": None}),
        # An evaluation with a loss that is no number of any set is never among the best.
        json.dumps({"kind": "eval", "step": 1, "loss": 0.0, "long/loss": None}),
        '{"kind": "ev',
    ]
    (run.output_dir / "metrics.jsonl").write_text("\n".join([*lines, *others]))
    assert best_steps(run, 1) == [2]
    assert best_steps(run, 2) == [2, 6]  # Of equals the later one.
    assert best_steps(run) == [1, 2, 6]
    assert average_checkpoints(run, best_steps(run, 2), tmp_path / "mean") == 6
    assert weights_of(Run.load(tmp_path / "mean"), "best") == (6, {4.0})


def test_without_a_number_all_there_are_but_no_more_than_eight(run: Run) -> None:
    assert last_steps(run) == [1, 2, 6]
    save(run, list(range(10, 20)), best_step=2)
    (CheckpointStore(run.output_dir).path(18) / "state.json").write_text("{}")
    assert last_steps(run) == [2, 15, 16, 17, 19]
    assert MOST == 8


def test_mistakes(run: Run, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"`n`=4: .* has 3 intact checkpoints"):
        last_steps(run, 4)
    with pytest.raises(UserError, match=r"metrics\.jsonl has no loss of any checkpoint of \[1, 2"):
        best_steps(run)
    (run.output_dir / "metrics.jsonl").write_text(
        json.dumps({"kind": "eval", "step": 2, "loss": 1.0})
    )
    with pytest.raises(UserError, match=r"`best`=2: .* has 1 intact checkpoints judged by loss"):
        best_steps(run, 2)
    with pytest.raises(UserError, match="already exists"):
        average_checkpoints(run, [2], run.output_dir)
    with pytest.raises(UserError, match=r"expected best, last, or one of \[1, 2, 6\]"):
        average_checkpoints(run, [2, 3], tmp_path / "mean")
    with pytest.raises(UserError, match="no checkpoint is named"):
        average_checkpoints(run, [], tmp_path / "mean")
    assert not (tmp_path / "mean").exists()


def test_best_last_step_and_path(run: Run) -> None:
    path = CheckpointStore(run.output_dir).path(1)
    assert [weights_of(run, which) for which in ("best", "last", "1", str(path))] == [
        (2, {2.0}),
        (6, {6.0}),
        (1, {1.0}),
        (1, {1.0}),
    ]


def test_a_damaged_best_falls_back_to_the_last(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    (CheckpointStore(run.output_dir).path(2) / "state.json").write_text("{}")
    assert weights_of(run, "best") == (6, {6.0})
    assert "state.json" in capsys.readouterr().err


def test_the_moving_average_is_what_is_restored(run: Run) -> None:
    model = run.make_model()
    averages = [tf.Variable(tf.fill(weight.shape, 0.5)) for weight in model.trainable_variables]
    save(run, [8], best_step=8, averages=averages)
    assert weights_of(run, "best") == (8, {0.5})
