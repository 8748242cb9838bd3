"""Steps beside those of an algorithm: what the figures are, by hand, and through the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.bin.tiny_runs import save
from tests.training.toy import toy_run
from ut_tf import registry
from ut_tf.bin import eval as eval_command
from ut_tf.errors import UserError
from ut_tf.evaluation.by_difficulty import Positions, _of_batch, _report, judge_by_difficulty
from ut_tf.problems.reasoning.prefix_sums import PrefixSums
from ut_tf.run import Run


class ToySums(PrefixSums):
    """Few short strings of bits."""

    def __init__(self, name: str = "") -> None:
        super().__init__(6, 50, 7, 20, 20, name=name)


@pytest.fixture(autouse=True)
def _sums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.problems._registered, "toy_sums", (ToySums, __file__))


def made(**changes: Any) -> Positions:
    """Three examples with two positions each, and four steps."""
    fields: dict[str, Any] = {
        "example": np.array([0, 0, 1, 1, 2, 2]),
        "oracle": np.array([1.0, 2.0, 1.0, 2.0, 1.0, 2.0]),
        "steps": np.array([2.0, 4.0, 2.0, 4.0, 3.0, 4.0]),
        "final": np.array([1.0, 3.0, 2.0, 1.0, 1.0, 4.0]),
        "right": np.array(
            [[1, 1, 1, 1], [0, 0, 1, 1], [0, 1, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 1]],
            bool,
        ),
    }
    return Positions(**{**fields, **changes})


def test_figures_by_hand() -> None:
    positions = made()
    # Ratios 2, 2, 2, 2, 3, 2: the least mean |steps - a * oracle| is at 2.
    assert positions.scale() == 2.0
    report = _report(positions, positions.scale(), 7, "test")
    first, second = report.points
    assert (first.difficulty, first.positions) == (1, 3)
    wasted = np.mean([1, 0, 2])
    assert first.metrics == pytest.approx(
        {"accuracy": 1.0, "steps": 7 / 3, "final": 4 / 3, "wasted": wasted}
    )
    assert second.metrics["accuracy"] == pytest.approx(2 / 3)
    assert report.totals["too_many"] == pytest.approx(1 / 6) and report.totals["too_few"] == 0.0
    # After 2, 4, 2, 4, 2 and 4 steps.
    assert report.totals["oracle_accuracy"] == pytest.approx(5 / 6)
    # Ranks of the steps 1.5, 5, 1.5, 5, 3, 5; of the oracle 2, 5, 2, 5, 2, 5.
    ranks = np.corrcoef([1.5, 5, 1.5, 5, 3, 5], [2, 5, 2, 5, 2, 5])[0, 1]
    assert report.totals["spearman"] == pytest.approx(ranks)
    assert report.spearman_interval is not None and report.spearman_interval[1] <= 1.0


@pytest.mark.parametrize("seed", range(3))
def test_the_scale_has_the_least_mean_absolute_difference(seed: int) -> None:
    draws = np.random.default_rng(seed)
    oracle, steps = draws.integers(1, 9, 6).astype(float), draws.integers(1, 20, 6).astype(float)
    scale = made(oracle=oracle, steps=steps).scale()
    error = np.abs(steps - scale * oracle).mean()
    for other in np.linspace(0.0, 20.0, 500):
        assert error <= np.abs(steps - other * oracle).mean() + 1e-12


def test_one_depth_for_all_has_no_correlation() -> None:
    report = _report(made(steps=np.full(6, 4.0)), 4.0, 7, "test")
    assert report.spearman_interval is None and "none" in report.table()
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False))["totals"]["spearman"] is None


def halting_run(folder: Path) -> Run:
    halting = {"halting": "basic", "act_max_steps": 5, "act_halting_bias_init": -0.5}
    return toy_run(folder, "toy_sums", model="universal_transformer", **halting)


def test_steps_and_answers_are_the_models(tmp_path: Path) -> None:
    run = halting_run(tmp_path)
    model, problem = run.make_model(), run.make_problem()
    table = problem.examples("test", run.data_dir)
    batch = {**table.batch(range(len(table))), "weight": np.ones(len(table), np.float32)}
    batch = {name: np.asarray(value) for name, value in batch.items()}
    found = _of_batch(model, {name: tf.constant(value) for name, value in batch.items()}, 3)
    logits, details = model(batch, return_details=True)
    judged = batch["targets"] > 0
    np.testing.assert_array_equal(found.steps, details.encoder.ponder_times.numpy()[judged])
    right = np.argmax(logits, -1) == batch["targets"]
    np.testing.assert_array_equal(found.solved, right[judged])
    assert (found.final <= found.steps).all() and (found.wasted == found.steps - found.final).all()
    assert found.example.min() == 3
    np.testing.assert_array_equal(found.oracle, batch["position_difficulty"][judged])


def test_zeros_that_a_batch_leaves_out_count(tmp_path: Path) -> None:
    run = halting_run(tmp_path)
    model = run.make_model()
    inputs = tf.constant([[2, 3, 3, 2], [3, 3, 2, 2]])
    batch = {"inputs": inputs, "targets": inputs, "weight": tf.ones([2])}
    known = {"position_difficulty": tf.constant([[1, 2, 0, 0], [0, 3, 0, 0]])}
    whole = _of_batch(model, {**batch, **known}, 0)
    short = {name: value[:, :2] for name, value in known.items()}
    for one, other in zip(
        vars(whole).values(), vars(_of_batch(model, {**batch, **short}, 0)).values(), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    assert whole.oracle.tolist() == [1, 2, 3]


def test_the_command_prints_and_keeps_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = halting_run(tmp_path)
    save(run, (1,))
    monkeypatch.setattr(Run, "load", lambda *_args, **_options: run)
    monkeypatch.setattr(Run, "prepare", lambda run, _problem: run)
    eval_command.main([f"--output_dir={run.output_dir}", "--by_difficulty", "--json"])
    out = capsys.readouterr()
    report = json.loads(out.out)
    kept = json.loads((run.output_dir / "by_difficulty.json").read_text())
    assert report == kept and "regret: " in out.err
    # The sets of 6 and of 24 bits.
    assert [point["difficulty"] for point in report["points"]] == [*range(1, 25)]
    assert (run.output_dir / "by_difficulty.csv").read_text().startswith("difficulty,positions,")


def test_a_problem_of_unknown_depth_is_refused(tmp_path: Path) -> None:
    run = toy_run(tmp_path, model="universal_transformer")
    save(run, (1,))
    with pytest.raises(UserError, match="need a problem whose depth is known at each position"):
        judge_by_difficulty(run)
