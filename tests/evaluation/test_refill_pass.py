"""Evaluations in slots that refill: the metrics of whole batches, and what cannot be judged so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.bin.tiny_runs import save
from tests.evaluation.test_depth_sweep import BASIC, ToyAligned
from tests.training.toy import toy_run
from ut_tf import registry
from ut_tf.errors import UserError
from ut_tf.evaluation.evaluator import evaluate, measure_checkpoint

RULE = {"eval_exit": "kl", "eval_exit_threshold": 0.1, "eval_num_steps": 6}
FORMS = [
    ("toy_aligned", BASIC | {"input_start_symbol": True, "memory_tokens": 2}),
    ("toy_class", {"halting": "pondernet", "act_max_steps": 3}),
    ("toy_aligned", RULE),
    ("toy_class", {"eval_num_steps": 3}),
]


@pytest.fixture(autouse=True)
def _aligned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.problems._registered, "toy_aligned", (ToyAligned, __file__))


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(("problem", "changes"), FORMS)
def test_metrics_are_those_of_whole_batches(
    problem: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    run = toy_run(tmp_path, problem, model="universal_transformer", **changes)
    save(run, (1,))
    whole, refilled = measure_checkpoint(run), measure_checkpoint(run, refill=3)
    # It is a share of the work of whole batches.
    for values in (whole.metrics, whole.intervals):
        values.pop("compute_share", None)
    assert refilled.metrics == pytest.approx(whole.metrics, rel=1e-5, abs=1e-6)
    assert refilled.intervals.keys() == whole.intervals.keys()
    assert refilled.examples == whole.examples


@pytest.mark.parametrize(
    ("problem", "changes", "told"),
    [
        pytest.param("toy_copy", BASIC, "answers from its encoder", marks=pytest.mark.slow),
        ("toy_class", {"halting": "random"}, "with whole batches"),
    ],
)
def test_models_that_cannot_refill_are_refused(
    problem: str, changes: dict[str, Any], told: str, tmp_path: Path
) -> None:
    run = toy_run(tmp_path, problem, model="universal_transformer", **changes)
    save(run, (1,))
    with pytest.raises(UserError, match=told):
        evaluate(run, refill=4)
