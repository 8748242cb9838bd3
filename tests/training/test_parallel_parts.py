"""Gradients of a batch's parts, computed at the same time: they add up to those of the batch."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from tests.training.toy import mirrored, run_steps, toy_run
from ut_tf.errors import UserError
from ut_tf.factories import make_hparams
from ut_tf.models.graph_flop import graph_flop
from ut_tf.problem_spec import ProblemSpec
from ut_tf.training.plan import BatchShape, RandomTraining
from ut_tf.training.step_report import StepReport

EXACT: dict[str, Any] = {
    "batch_unit": "examples",
    "batch_size": 16,
    "min_length_bucket": 8,
    "max_length": 8,
    "dropout": 0.0,
    "warmup_steps": 0,
    "clip_norm": 0.5,
    # Gradients that are 0 but for rounding must not become steps.
    "adam_epsilon": 1e-3,
}
HALTING: dict[str, Any] = {**EXACT, "halting": "basic", "act_loss_weight": 0.1}
ATTENTION: dict[str, Any] = {
    **EXACT,
    "model": "universal_transformer",
    "num_steps": 2,
    "attention_dropout": 0.0,
    "relu_dropout": 0.0,
}


def assert_same(one: StepReport, other: StepReport) -> None:
    """Compares all that two updates report."""
    for field in dataclasses.fields(StepReport):
        values, others = (np.asarray(getattr(report, field.name)) for report in (one, other))
        if field.name != "added":
            np.testing.assert_allclose(others, values, 1e-4, 1e-6, err_msg=field.name)


@pytest.mark.parametrize(
    ("parts", "changes", "replicas"),
    [
        (3, HALTING, 1),  # 16 rows: parts of 5, 5 and 6.
        # One part has no rows.
        pytest.param(3, {**ATTENTION, "batch_size": 2}, 1, marks=pytest.mark.slow),
        pytest.param(
            2,
            {**HALTING, "curriculum": "length", "accumulate_steps": 2},
            1,
            marks=pytest.mark.slow,
        ),
        pytest.param(2, {**HALTING, "gradient_noise": 0.1}, 2, marks=pytest.mark.slow),
        pytest.param(2, {**ATTENTION, "supervision": "each"}, 1, marks=pytest.mark.slow),
        pytest.param(2, {**ATTENTION, "supervision": "progressive"}, 1, marks=pytest.mark.slow),
    ],
    ids=["uneven", "no rows", "curriculum", "replicas", "each", "progressive"],
)
def test_parts_train_as_the_whole_batch(
    tmp_path: Path, parts: int, changes: dict[str, Any], replicas: int
) -> None:
    strategy = mirrored(replicas) if replicas > 1 else None
    whole, weights = run_steps(toy_run(tmp_path, **changes), 3, strategy)
    cut, others = run_steps(toy_run(tmp_path, parallel_parts=parts, **changes), 3, strategy)
    for one, other in zip(whole, cut, strict=True):
        assert_same(one, other)
    for weight, other_weight in zip(weights, others, strict=True):
        assert_close(weight, other_weight, 1e-4)


def test_what_cannot_be_cut_into_parts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"parallel_parts=2: neither XLA.*; set it to 1\.$"):
        run_steps(toy_run(tmp_path, parallel_parts=2, jit_compile=True), 1)


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_a_plan_counts_the_operations_of_all_parts() -> None:
    spec, batch = ProblemSpec("tokens", "aligned", 9, 9), BatchShape(4, 5, 0)

    def flop(changes: str) -> float:
        hparams = make_hparams("ut_tiny", f"hidden_size=8,filter_size=8,num_heads=1{changes}")
        return graph_flop(*RandomTraining(hparams, spec, tf.distribute.get_strategy()).graph(batch))

    assert flop(",parallel_parts=2") == flop("") > 0.0
