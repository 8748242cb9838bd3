"""Gradients of a batch's parts, computed at the same time: they add up to those of the batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tests.close import assert_close
from tests.training.toy import mirrored, run_steps, toy_run
from ut_tf.errors import UserError
from ut_tf.factories import make_hparams
from ut_tf.training import parallel_parts
from ut_tf.training.parallel_parts import count_parts

EXACT: dict[str, Any] = {
    "batch_unit": "examples",
    "batch_size": 16,
    "min_length_bucket": 8,
    "max_length": 8,
    "dropout": 0.0,
    "warmup_steps": 0,
    "clip_norm": 0.5,
    "halting": "basic",
    "act_loss_weight": 0.1,
}


@pytest.mark.parametrize(
    ("parts", "changes"),
    [
        (3, {}),  # 16 rows: parts of 5, 5 and 6.
        (3, {"batch_size": 2}),  # One part has no rows.
        (2, {"curriculum": "length", "gradient_noise": 0.1, "accumulate_steps": 2}),
        pytest.param(2, {"replicas": 2}, marks=pytest.mark.slow),
        pytest.param(2, {"supervision": "each"}, marks=pytest.mark.slow),
    ],
    ids=lambda value: str(value),
)
def test_parts_train_as_the_whole_batch(
    tmp_path: Path, parts: int, changes: dict[str, Any]
) -> None:
    strategy = mirrored(changes["replicas"]) if "replicas" in changes else None
    given = {**EXACT, **{name: changes[name] for name in changes if name != "replicas"}}
    if "supervision" in given:
        given |= {"halting": "none", "num_steps": 2, "model": "universal_transformer"}
        given |= {"attention_dropout": 0.0, "relu_dropout": 0.0}
    whole, weights = run_steps(toy_run(tmp_path, parallel_parts=1, **given), 3, strategy)
    cut, others = run_steps(toy_run(tmp_path, parallel_parts=parts, **given), 3, strategy)
    for one, other in zip(whole, cut, strict=True):
        assert other.loss == pytest.approx(one.loss, rel=1e-4)
        assert other.tokens == one.tokens
        assert other.ponder_histogram == one.ponder_histogram
    for weight, other in zip(weights, others, strict=True):
        assert_close(weight, other, 1e-4)


def test_what_cannot_be_cut_into_parts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"parallel_parts=2: neither XLA.*; set it to 1\.$"):
        run_steps(toy_run(tmp_path, parallel_parts=2, jit_compile=True), 1)


@pytest.mark.parametrize(
    ("changes", "cores", "expected"),
    [
        ("", 2, 2),
        ("", 1, 1),
        ("", 8, 1),
        ("parallel_parts=1", 2, 1),
        ("parallel_parts=4", 8, 4),
        ("hidden_size=64", 2, 1),
        ("halting=basic", 2, 1),
        ("jit_compile=true", 2, 1),
        ("supervision=deep,input_injection=add,q_head=true", 2, 1),
    ],
)
def test_two_cores_compute_two_parts_of_a_wide_network(
    monkeypatch: pytest.MonkeyPatch, changes: str, cores: int, expected: int
) -> None:
    monkeypatch.setattr(parallel_parts, "usable_cores", lambda: cores)
    width = "" if "hidden_size" in changes else "hidden_size=128,"
    hparams = make_hparams("ut_tiny", f"{width}{changes}".rstrip(","))
    assert count_parts(hparams, tf.distribute.get_strategy()) == expected


def test_replicas_are_parts_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_parts, "usable_cores", lambda: 2)
    assert count_parts(make_hparams("ut_tiny", "hidden_size=128"), mirrored(2)) == 1
