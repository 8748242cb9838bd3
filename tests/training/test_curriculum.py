"""The curriculum: its stages, what they see, exact resuming, replicas; noise on the gradient;
relaxed sets that become one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from tests.training.toy import (
    Killed,
    ToyCopy,
    kill,
    lines,
    losses,
    mirrored,
    run_steps,
    saved_weights,
    stop_at,
    toy_run,
)
from ut_tf.config.hparams import HParams
from ut_tf.data.example_pools import ExamplePools
from ut_tf.data.pipeline import train_batches
from ut_tf.errors import UserError
from ut_tf.run_weights import restore_weights
from ut_tf.training.answer_counter import relaxation
from ut_tf.training.curriculum import Curriculum, CurriculumState, staged, stages
from ut_tf.training.distribution import Workers
from ut_tf.training.gradient_noise import GradientNoise
from ut_tf.training.optimizer import Optimizer
from ut_tf.training.step import TrainingStep
from ut_tf.training.trainer import train

# Buckets, and stages, of 4, 5, 6 and 7 symbols with the end.
STAGED: dict[str, Any] = {
    "curriculum": "length",
    "curriculum_start": 4,
    "curriculum_examples": 8,
    "curriculum_threshold": 0.3,
    "min_length_bucket": 4,
    "max_length": 7,
    "batch_size": 8,
    "batch_unit": "examples",
    "gradient_noise": 0.01,
    "eval_frequency": 15,
    "train_steps": 70,
    "label_smoothing": 0.0,
    "learning_rate": 0.03,
}


def test_stages_are_the_buckets_that_hold_examples() -> None:
    lengths = np.array([1, 2, 4, 9, 10], np.int32)
    assert stages([2, 4, 6, 8, 10, 12], lengths, 3) == [4, 10]
    assert stages([2, 4, 6, 8, 10, 12], lengths, 20) == [12]
    with pytest.raises(UserError, match="raise it"):
        stages([2], lengths[:0], 1)


@pytest.mark.parametrize(("share", "older"), [(0.5, 3), (0.75, 1), (1.0, 0), (0.1, 6)])
def test_a_stage_sees_its_share_of_the_newest(share: float, older: int) -> None:
    lengths = np.array([1, 5, 2, 9, 3, 5, 1, 2, 6, 3], np.int32)
    chosen = staged(lengths, above=3, bounds=[6, 9], share=share)
    assert sorted(chosen) == list(chosen)
    assert list(np.flatnonzero(lengths[chosen] > 3)) and (lengths[chosen] <= 6).all()
    assert (lengths[chosen] > 3).sum() == 3
    assert (lengths[chosen] <= 3).sum() == older


def test_examples_that_an_epoch_lacks_are_replaced_by_those_of_the_next_stage() -> None:
    lengths = np.array([1, 8, 2, 9, 3, 12], np.int32)
    assert list(staged(lengths, above=3, bounds=[4, 6, 8, 10], share=1.0)) == [1]
    assert list(staged(lengths, above=3, bounds=[4, 6], share=1.0)) == [0, 2, 4]


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_a_beginning_that_no_example_is_short_enough_for_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = {**STAGED, "min_length_bucket": 2, "curriculum_start": 2}
    run = toy_run(tmp_path / "run", "toy_copy", **changes)
    with pytest.raises(UserError, match=r"^`curriculum_start`=2") as refusal:
        train(run)
    assert str(refusal.value).count(". ") == 0
    assert not run.output_dir.exists()
    # What it advises is accepted.
    train(
        toy_run(tmp_path / "run", "toy_copy", **{**changes, "curriculum_start": 3}), train_steps=1
    )
    assert "curriculum: lengths up to 3 to begin with" in capsys.readouterr().err.splitlines()


def test_a_split_in_pools_is_read_whole_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    training = toy_run(tmp_path, **STAGED).hparams.training
    arguments = (ToyCopy(), tmp_path, training, 1, 1)
    Curriculum(*arguments, CurriculumState())
    assert "warning" not in capsys.readouterr().err
    pools = ExamplePools(("inputs", "targets"), 7, lambda _: pytest.fail("a pool is read"))
    monkeypatch.setattr(ToyCopy, "example_pools", lambda *_, **__: pools)
    Curriculum(*arguments, CurriculumState())
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: with `curriculum`=length the whole training split of toy_copy")
    assert "instead of 7 pools" in line


def test_a_stage_ends_when_enough_is_right(tmp_path: Path) -> None:
    training = toy_run(tmp_path, **STAGED).hparams.training
    curriculum = Curriculum(ToyCopy(), tmp_path, training, 1, 1, CurriculumState())
    assert (curriculum.bounds, curriculum.longest, curriculum.newest_above) == ([4, 5, 6, 7], 4, 0)
    curriculum.state.add(2.0, 7.0)
    assert not curriculum.advance() and curriculum.state.judged == 7.0
    curriculum.state.add(0.0, 1.0)
    assert not curriculum.advance() and curriculum.state.judged == 0.0
    for _ in range(3):
        curriculum.state.add(3.0, 8.0)
        assert curriculum.advance()
    assert (curriculum.longest, curriculum.newest_above) == (7, 6)
    assert curriculum.pull == pytest.approx(0.0005 * 1.2**3)
    curriculum.state.add(8.0, 8.0)
    assert curriculum.advance() and curriculum.state.ended and curriculum.pull == 0.0
    curriculum.state.add(8.0, 8.0)
    assert not curriculum.advance()


@pytest.mark.slow
@pytest.mark.usefixtures("rewritten_graphs")
def test_a_killed_run_goes_on_to_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {**STAGED, "curriculum_threshold": 0.05, "train_steps": 42}
    whole, broken = (
        toy_run(tmp_path / name, "toy_copy", **changes) for name in ("whole", "broken")
    )
    train(whole, log_frequency=7)
    reached = [line["curriculum_length"] for line in lines(whole, "train")]
    assert reached[0] == 4.0 and reached[-1] == 7.0 and reached == sorted(reached)
    for count in (18, 20):
        with monkeypatch.context() as patch:
            stop_at(patch, count, kill)
            with pytest.raises(Killed):
                train(broken, log_frequency=7)
    train(broken, log_frequency=7)
    assert losses(broken) == losses(whole)
    for one, other in zip(saved_weights(whole), saved_weights(broken), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_replicas_count_and_disturb_as_one_device(tmp_path: Path) -> None:
    changes = {
        "batch_unit": "examples",
        "min_length_bucket": 8,
        "max_length": 8,
        "dropout": 0.0,
        "gradient_noise": 0.1,
        "warmup_steps": 0,
    }
    one, weights = run_steps(toy_run(tmp_path, batch_size=16, **changes), 2)
    two, others = run_steps(toy_run(tmp_path, batch_size=8, **changes), 2, mirrored(2))
    assert [(report.right, report.judged) for report in one] == [
        (report.right, report.judged) for report in two
    ]
    assert one[0].judged == 16.0
    for weight, other in zip(weights, others, strict=True):
        assert_close(weight, other, 1e-4)


def test_noise_follows_from_the_seed_and_vanishes_with_the_faults() -> None:
    gradients = [tf.zeros([200, 50]), tf.zeros([200, 50])]

    def deviation(number: int, faults: float, seed: int = 1) -> list[Any]:
        return [
            one.numpy()
            for one in GradientNoise(0.5, seed)(gradients, tf.constant(number, tf.int64), faults)
        ]

    first, second = deviation(16, 0.4)
    assert np.std(first) == pytest.approx(0.5 * 0.5 * 0.4, rel=0.05)
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.05
    np.testing.assert_array_equal(first, deviation(16, 0.4)[0])
    assert np.abs(first - deviation(16, 0.4, seed=2)[0]).max() > 0.1
    assert np.abs(first - deviation(17, 0.4)[0]).max() > 0.1
    assert not np.any(deviation(16, 0.0)[0])


GPU: dict[str, Any] = {
    "hidden_size": 4,
    "num_layers": 1,
    "image_width": 1,
    "source_stretch": 1.0,
    "relaxed_sets": 2,
}


@pytest.mark.parametrize(
    ("accumulate", "parts"), [pytest.param(1, 1, marks=pytest.mark.slow), (2, 2)]
)
@pytest.mark.usefixtures("eager")
def test_relaxed_sets_are_paid_for_once(tmp_path: Path, accumulate: int, parts: int) -> None:
    run = toy_run(
        tmp_path,
        "toy_copy",
        model="neural_gpu",
        **{**STAGED, **GPU, "accumulate_steps": accumulate, "dropout": 0.0},
        parallel_parts=parts,
    )
    model = run.make_model()
    for weight in model.relaxed_weights():
        weight.assign(tf.concat([weight[:1] + 0.1, weight[1:]], 0))
    batches = train_batches(ToyCopy(), tmp_path, run.hparams.training, 1, 1, 0)
    optimizer = Optimizer(model.trainable_variables, run.hparams.training, 4)
    step = TrainingStep(
        model,
        optimizer,
        run.hparams,
        Workers.of(tf.distribute.get_strategy()),
        batches.element_spec,
    )
    step.judge.configure(0, 0.5)
    penalty = 0.5 * float(relaxation(model.relaxed_weights()))
    (report,) = step.read([step.update(list(batches.take(accumulate)))[0]])
    assert report.loss - report.cross_entropy == pytest.approx(penalty, rel=1e-4)


ENDING: dict[str, Any] = {
    **STAGED,
    **GPU,
    "train_steps": 33,
    "eval_frequency": 33,
    "dropout": 0.0,
    "tying_pull": 0.1,
    "max_length": 6,
}


@pytest.fixture
def all_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every answer counts as right, so that a curriculum ends after its stages, of 10 updates
    each.
    """
    add = CurriculumState.add
    monkeypatch.setattr(CurriculumState, "add", lambda self, _, judged: add(self, judged, judged))


@pytest.mark.slow
@pytest.mark.usefixtures("all_right")
def test_relaxed_sets_become_one_at_the_end_on_replicas_as_on_one_device(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = (
        toy_run(
            tmp_path / str(size), "toy_copy", model="neural_gpu", **{**ENDING, "batch_size": size}
        )
        for size in (8, 4)
    )
    train(one, log_frequency=11)
    assert "training examples of toy_copy are longer than `max_length`=6" in capsys.readouterr().err
    train(two, strategy=mirrored(2), log_frequency=11)
    assert [line["curriculum_length"] for line in lines(two, "train")] == [5.0, 6.0, 6.0]
    for step, loss in losses(one).items():
        assert losses(two)[step] == pytest.approx(loss, rel=1e-3)
    for weight, other in zip(saved_weights(one), saved_weights(two), strict=True):
        assert_close(weight, other, 1e-3)
    model = one.make_model()
    assert not float(model.encoder.unit_0.tied)
    restore_weights(model, one, "last")
    assert float(model.encoder.unit_0.tied) == 1.0
    # The curriculum of another run begins with sets that are free again.
    after = toy_run(tmp_path / "after", "toy_copy", model="neural_gpu", **ENDING)
    train(after, warm_start_from=one, train_steps=1)
    restore_weights(model, after, "last")
    assert not float(model.encoder.unit_0.tied)


def test_relaxed_sets_need_a_curriculum() -> None:
    with pytest.raises(UserError, match="relaxed_sets=2 become one set when a curriculum has"):
        HParams(model="neural_gpu").change(relaxed_sets=2).resolve()
