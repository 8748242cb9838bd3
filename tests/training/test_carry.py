"""What an objective carries from one update to the next: a toy, trained, killed and resumed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.training.toy import (
    Killed,
    kill,
    losses,
    mirrored,
    run_steps,
    saved_weights,
    stop_at,
    toy_run,
)
from ut_tf import registry
from ut_tf.config.hparams import HParams
from ut_tf.errors import UserError
from ut_tf.factories import make_hparams
from ut_tf.problem_spec import ProblemSpec
from ut_tf.training.objective import Call, Sums, Supervision, final
from ut_tf.training.plan import BatchShape, make_plan
from ut_tf.training.trainer import train


class Drift:
    """A moving mean of a replica's ids; its value is a feature of the call."""

    def start(self, features: Mapping[str, Any]) -> Any:
        del features
        return {"mean": tf.zeros([1]), "updates": tf.zeros([1], tf.int32)}

    def inputs(self, features: Mapping[str, Any], carry: Any) -> Mapping[str, Any]:
        return {**features, **carry}

    def after(self, call: Call) -> Any:
        mean = tf.reduce_mean(tf.cast(call.features["inputs"], tf.float32))
        return {
            "mean": 0.7 * call.features["mean"] + 0.3 * mean,
            "updates": call.features["updates"] + 1,
        }


class Pull:
    """Draws logits to zero, the stronger the larger the mean is."""

    needs_details = False

    def __init__(self, shares: int) -> None:
        self._shares = shares

    def counts(self, features: Mapping[str, Any]) -> dict[str, Any]:
        del features
        return {}

    def sums(self, call: Call, counts: Mapping[str, Any]) -> Sums:
        del counts
        squares = tf.reduce_mean(tf.square(call.logits))
        return Sums({"pull": call.features["mean"][0] * squares / self._shares}, {})


class Shrinking(Drift):
    def after(self, call: Call) -> Any:
        return {**super().after(call), "updates": tf.zeros([1])}


def drift(model: Any, hparams: HParams, shares: int) -> Supervision:
    terms = final(model, hparams, shares).terms
    return Supervision((*terms, Pull(shares)), Drift())


def shrinking(model: Any, hparams: HParams, shares: int) -> Supervision:
    return Supervision(final(model, hparams, shares).terms, Shrinking())


@pytest.fixture(autouse=True)
def _own_supervisions(monkeypatch: pytest.MonkeyPatch) -> None:
    for function in (drift, shrinking):
        own = {function.__name__: (function, __file__)}
        monkeypatch.setattr(
            registry.supervisions, "_registered", {**registry.supervisions._registered, **own}
        )


@pytest.mark.usefixtures("rewritten_graphs")
@pytest.mark.parametrize(
    ("replicas", "accumulate"), [(1, 1), pytest.param(2, 2, marks=pytest.mark.slow)]
)
def test_a_killed_run_goes_on_with_its_carry(
    replicas: int, accumulate: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strategy = mirrored(replicas) if replicas > 1 else None
    changes = {"supervision": "drift", "accumulate_steps": accumulate, "eval_frequency": 5}
    runs = [toy_run(tmp_path / name, train_steps=12, **changes) for name in ("whole", "broken")]
    train(runs[0], strategy=strategy, log_frequency=1)
    with monkeypatch.context() as patch:
        stop_at(patch, 8, kill)
        with pytest.raises(Killed):
            train(runs[1], strategy=strategy, log_frequency=1)
    train(runs[1], strategy=strategy, log_frequency=1)
    assert losses(runs[0]) == losses(runs[1])
    for one, other in zip(*map(saved_weights, runs), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_carry_decides_what_is_lost(tmp_path: Path) -> None:
    carried, _ = run_steps(toy_run(tmp_path, supervision="drift", dropout=0.0), 2)
    plain, _ = run_steps(toy_run(tmp_path, dropout=0.0), 2)
    assert carried[0].loss == plain[0].loss  # The mean begins at 0.
    assert carried[1].loss > plain[1].loss


def test_a_carry_of_another_dtype_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"Shrinking\.after returns .*float32 \[1\]|Shrinking"):
        train(toy_run(tmp_path, supervision="shrinking"))


def test_another_supervision_refuses_a_carry(tmp_path: Path) -> None:
    run = toy_run(tmp_path, supervision="drift", train_steps=2)
    train(run)
    with pytest.raises(UserError, match="2 tensors"):
        train(toy_run(tmp_path, supervision="final", train_steps=4))


@pytest.mark.slow
def test_a_training_that_carries_is_planned() -> None:
    spec, batch = ProblemSpec("tokens", "tokens", 20, 20, shared_vocab=True), BatchShape(4, 3, 3)
    small = "hidden_size=8,filter_size=8,num_heads=1,num_steps=2"
    plain, carrying = (
        make_plan(
            make_hparams("ut_tiny", small + more),
            spec,
            [batch],
            batch,
            tf.distribute.get_strategy(),
        )
        for more in ("", ",supervision=drift")
    )
    assert carrying.flop == plain.flop > 0
