"""The loop as a whole: resuming, stopping, evaluations, and errors that the user can mend."""

from __future__ import annotations

import dataclasses
import itertools
import os
import shutil
import signal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.eager import eager_functions
from tests.training.toy import Killed, ToyCopy, kill, lines, losses, saved_weights, stop_at, toy_run
from ut_tf import registry
from ut_tf.data.problem import EvaluationSet
from ut_tf.errors import UserError
from ut_tf.evaluation.evaluator import Evaluator
from ut_tf.run import Run
from ut_tf.run_weights import restore_weights
from ut_tf.storage.checkpoints import CheckpointStore
from ut_tf.storage.processes import minutes_until, read_processes
from ut_tf.training.batches import Position, TrainingBatches
from ut_tf.training.distribution import Workers
from ut_tf.training.saver import Saver
from ut_tf.training.step import TrainingStep
from ut_tf.training.trainer import TrainingInterrupted, train
from ut_tf.version import __version__


class ToyWords(ToyCopy):
    """Has a vocabulary, which a run copies."""

    name = "toy_words"

    def vocab_files(self, data_dir: Path) -> list[Path]:
        return [data_dir / "words.txt"]


registry.problems.register(ToyWords.name, ToyWords)


@pytest.mark.parametrize(
    ("error", "is_refusal"),
    [
        (UserError("it cannot be trained."), True),
        pytest.param(KeyboardInterrupt(), False, marks=pytest.mark.slow),
        pytest.param(
            tf.errors.ResourceExhaustedError(None, None, "OOM when allocating a tensor"),
            True,
            marks=pytest.mark.slow,
        ),
        pytest.param(ValueError("a mistake in code"), False, marks=pytest.mark.slow),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.usefixtures("eager")
def test_a_run_whose_first_update_failed_can_be_trained_again_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, is_refusal: bool
) -> None:
    def fail() -> None:
        raise error

    (tmp_path / "words.txt").write_text("one\ntwo\n")
    made = toy_run(tmp_path / "run", "toy_words", train_steps=1)
    run = dataclasses.replace(made, data_dir=tmp_path).write_where_missing()
    kept = [run.output_dir / "config.json", run.vocab_dir / "words.txt"]
    before = [path.read_bytes() for path in kept]
    with monkeypatch.context() as patch:
        stop_at(patch, 1, fail)
        with pytest.raises(type(error)):
            train(run)
    assert [path.exists() for path in kept] == [not is_refusal] * 2
    assert train(run).step == 1
    assert [path.read_bytes() for path in kept] == before
    assert Run.load(run.output_dir) == run


FULL: dict[str, Any] = {
    "halting": "basic",
    "average_decay": 0.9,
    "accumulate_steps": 2,
    "dtype_policy": "mixed_float16",
    "dropout": 0.3,
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A trained run that nothing stopped, with a log point every second update; without graphs."""
    run = toy_run(tmp_path_factory.mktemp("whole"), eval_frequency=4, train_steps=6)
    with eager_functions():
        train(run, log_frequency=2)
    return run


@pytest.fixture
def copied(whole: Run, tmp_path: Path) -> Run:
    """The trained run in a directory of the test's own."""
    return replaced(whole, shutil.copytree(whole.output_dir, tmp_path / "copied"))


def replaced(run: Run, output_dir: Path, **changes: Any) -> Run:
    """The run in another directory; `changes` are hyperparameters."""
    hparams = run.hparams.change(**changes)
    return dataclasses.replace(run, hparams=hparams, output_dir=output_dir)


@pytest.mark.usefixtures("rewritten_graphs")
@pytest.mark.parametrize("optimizer", ["adam", pytest.param("muon", marks=pytest.mark.slow)])
def test_a_killed_run_goes_on_to_the_same_bits(
    optimizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {**FULL, "optimizer": optimizer, "eval_frequency": 4, "train_steps": 7}
    if optimizer == "muon":
        settings["model"] = "universal_transformer"
    whole = toy_run(tmp_path / "whole", **settings)
    broken = replaced(whole, tmp_path / "broken")
    # A process that is killed leaves what has been written until then.
    stop_at(monkeypatch, 6, partial(shutil.copytree, whole.output_dir, broken.output_dir))
    expected = train(whole, log_frequency=3)
    found = train(broken, log_frequency=3)
    assert found == expected
    assert losses(broken) == losses(whole)
    assert lines(broken, "eval") == lines(whole, "eval")
    for one, other in zip(saved_weights(whole), saved_weights(broken), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_a_signal_saves_and_the_same_call_goes_on(
    whole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped = toy_run(tmp_path, train_steps=6)
    for number, updates, step in ((signal.SIGTERM, 3, 3), (signal.SIGINT, 2, 5)):
        before = signal.getsignal(number)
        with monkeypatch.context() as patch:
            stop_at(patch, updates, partial(os.kill, os.getpid(), number))
            with pytest.raises(KeyboardInterrupt, match=f"step {step}.*{tmp_path}") as raised:
                train(stopped, log_frequency=2)
        result = raised.value.result  # type: ignore[attr-defined]
        assert (result.step, result.stopped_by) == (step, "signal")
        assert CheckpointStore(stopped.output_dir).steps()[-1] == step
        assert "the same command resumes from it" in capsys.readouterr().err
        assert signal.getsignal(number) == before
    assert train(stopped, log_frequency=2).stopped_by == "train_steps"
    assert losses(stopped) == losses(whole)
    processes = read_processes(stopped.output_dir)
    assert [
        (process.begun_at, [point.step for point in process.points], process.ended)
        for process in processes
    ] == [(0, [3], "signal"), (3, [5], "signal"), (5, [6], "train_steps")]
    assert processes[0].versions["ut_tf"] == __version__
    until_5, all_minutes = (minutes_until(processes, step) for step in (5, 6))
    assert until_5 is not None and all_minutes is not None
    assert 0 < until_5.wall < all_minutes.wall


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_a_signal_in_the_last_update_keeps_a_script_from_going_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = toy_run(tmp_path, train_steps=1)
    stop_at(monkeypatch, 1, partial(os.kill, os.getpid(), signal.SIGINT))
    with pytest.raises(TrainingInterrupted) as raised:
        train(run)
    assert raised.value.result.stopped_by == "train_steps"
    assert train(run).step == 1


@pytest.mark.usefixtures("eager")
def test_a_finished_run_says_so_and_does_nothing(
    copied: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Evaluator, "evaluate", None)
    log = copied.output_dir / "metrics.jsonl"
    logged = log.read_bytes()
    result = train(copied)
    assert (result.step, result.stopped_by) == (6, "train_steps")
    assert result.metrics.items() <= lines(copied, "eval")[-1].items() and result.metrics
    assert "is trained already, to step 6" in capsys.readouterr().err
    train(copied, train_steps=1)
    assert "is trained already, to step 6" in capsys.readouterr().err
    assert log.read_bytes() == logged
    for steps in (2, 6):
        train(replaced(copied, copied.output_dir, train_steps=9), train_steps=steps)
        told = f"is at step 6 of 9 already, and `train_steps`={steps} asks for no"
        assert told in capsys.readouterr().err


@pytest.mark.usefixtures("eager")
def test_a_loss_that_is_not_finite_names_its_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = toy_run(tmp_path, eval_frequency=2)
    original, count = TrainingStep.update, 0

    def update(self: TrainingStep, *arguments: Any) -> Any:
        nonlocal count
        count += 1
        if count == 3:
            self._optimizer.weights[0].assign(
                tf.fill(self._optimizer.weights[0].shape, float("nan"))
            )
        return original(self, *arguments)

    monkeypatch.setattr(TrainingStep, "update", update)
    with pytest.raises(UserError, match=r"the loss is nan at step 3 .* the last checkpoint, of"):
        train(run, log_frequency=100)
    assert CheckpointStore(tmp_path).steps() == [2]
    assert all(np.isfinite(weight).all() for weight in saved_weights(run))


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_early_stopping_stops_a_resumed_run_at_the_same_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {1: 1.0, 2: 0.5, 3: 0.7, 4: 0.6, 5: 0.9, 6: 0.1}
    run = toy_run(tmp_path, eval_frequency=1, early_stopping_patience=3)
    state: list[Any] = []
    original = Saver.restore

    def restore(self: Any) -> Any:
        state.append(original(self))
        return state[-1]

    monkeypatch.setattr(Saver, "restore", restore)
    monkeypatch.setattr(Evaluator, "evaluate", lambda self, sets: {"loss": values[state[-1].step]})  # noqa: ARG005
    with monkeypatch.context() as patch:
        stop_at(patch, 4, kill)
        with pytest.raises(Killed):
            train(run)
    result = train(run)
    assert (result.step, result.stopped_by, result.metrics) == (5, "early_stopping", {"loss": 0.9})
    store = CheckpointStore(tmp_path)
    assert store.best_step() == 2
    assert store.steps() == [2, 4, 5]
    assert train(run).stopped_by == "early_stopping"


@pytest.mark.usefixtures("eager")
def test_damage_costs_only_the_way_from_the_checkpoint_before(
    whole: Run, copied: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("metrics.jsonl", "processes.jsonl"):
        with (copied.output_dir / name).open("ab") as file:
            file.write(b"\xff\n")
    (CheckpointStore(copied.output_dir).path(6) / "variables.index").write_bytes(b"")
    train(copied, log_frequency=2)
    told = capsys.readouterr().err
    assert "variables.index has 0 bytes" in told
    assert "processes before this one are not known" in told
    assert minutes_until(read_processes(copied.output_dir), 6) is None
    for one, other in zip(saved_weights(whole), saved_weights(copied), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.usefixtures("eager")
def test_the_average_is_evaluated_but_not_trained_on(
    whole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    averaged = toy_run(tmp_path, average_decay=0.999, train_steps=2)
    seen: list[Any] = []
    original = Evaluator.evaluate

    def evaluate(self: Evaluator, sets: Any) -> dict[str, float]:
        weights = self._context.model.trainable_variables
        seen[:] = [weight.numpy() for weight in weights]
        return original(self, sets)

    monkeypatch.setattr(Evaluator, "evaluate", evaluate)
    train(averaged, log_frequency=2)
    assert losses(averaged)[2] == losses(whole)[2]
    model = averaged.make_model()
    restore_weights(model, averaged, "last")
    for restored, evaluated in zip(model.trainable_variables, seen, strict=True):
        np.testing.assert_array_equal(restored.numpy(), evaluated)
    assert any(
        (one.numpy() != other).any()
        for one, other in zip(model.trainable_variables, saved_weights(whole), strict=False)
    )


def test_positions_in_the_data_go_on_over_epochs() -> None:
    def numbers(epoch: int, skip: int) -> Any:
        return tf.data.Dataset.range(epoch * 10, epoch * 10 + 3).skip(skip)

    workers = Workers.of(tf.distribute.get_strategy())
    batches = TrainingBatches(numbers, workers)
    seen = []
    for _ in range(7):
        seen.append((int(batches.next()), batches.position))
    assert [number for number, _ in seen] == [0, 1, 2, 10, 11, 12, 20]
    for before, after in itertools.pairwise(seen):
        assert int(TrainingBatches(numbers, workers, before[1]).next()) == after[0]
    assert seen[2][1] == Position(0, 3)


def test_an_epoch_without_batches_is_an_error() -> None:
    batches = TrainingBatches(
        lambda *_: tf.data.Dataset.range(0), Workers.of(tf.distribute.get_strategy())
    )
    with pytest.raises(UserError, match="no batch"):
        batches.next()


def test_a_validation_that_cannot_be_is_told_before_the_first_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets = [EvaluationSet("", "validation", "ranking")]
    monkeypatch.setattr(ToyCopy, "validation_sets", lambda _: sets)
    stop_at(monkeypatch, 1, kill)
    with pytest.raises(UserError, match="needs the feature 'alternative'"):
        train(toy_run(tmp_path))


@pytest.mark.usefixtures("eager")
def test_the_first_lines_say_what_is_trained_and_foretell_a_rate_of_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = toy_run(tmp_path, schedule="cosine", decay_steps=1, train_steps=2)
    train(run, train_steps=1)
    parameters = run.make_model().count_params()
    devices = "the CPU (no GPU found; GPUs need pip install 'tensorflow[and-cuda]')"
    beginning = f"training {run.hparams.model} ({parameters:,} parameters) on {devices}"
    assert capsys.readouterr().err.splitlines()[0] == beginning
    train(run)
    warning, following, *_ = capsys.readouterr().err.splitlines()
    assert warning.startswith("warning: `train_steps`=2 is above `decay_steps`=1")
    assert "set `decay_steps`=2" in warning
    assert following == beginning
