"""What an objective carries from one update to the next: a toy, trained, killed and resumed."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from tests.search.models import CLASSES, INPUTS, LANGUAGE, SPEC, random_model, random_transformer
from tests.training.toy import (
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
from ut_tf.metrics.losses import smoothed_cross_entropy
from ut_tf.problem_spec import ProblemSpec
from ut_tf.training.objective import Call, Objective, Sums, Supervision, final, make_objective
from ut_tf.training.step_supervision import drawn_part
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


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize(
    ("replicas", "accumulate"), [(1, 1), pytest.param(2, 2, marks=pytest.mark.slow)]
)
def test_a_killed_run_goes_on_with_its_carry(
    replicas: int, accumulate: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strategy = mirrored(replicas) if replicas > 1 else None
    changes = {"supervision": "drift", "accumulate_steps": accumulate, "eval_frequency": 2}
    whole = toy_run(tmp_path / "whole", train_steps=4, **changes)
    broken = dataclasses.replace(whole, output_dir=tmp_path / "broken")
    # A process that is killed leaves what has been written until then.
    stop_at(monkeypatch, 4, partial(shutil.copytree, whole.output_dir, broken.output_dir))
    for run in (whole, broken):
        train(run, strategy=strategy, log_frequency=1)
    assert losses(whole) == losses(broken) and len(losses(whole)) == 4
    for one, other in zip(*map(saved_weights, (whole, broken)), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.usefixtures("eagerly")
def test_a_carry_decides_what_is_lost(tmp_path: Path) -> None:
    carried, _ = run_steps(toy_run(tmp_path, supervision="drift", dropout=0.0), 2)
    plain, _ = run_steps(toy_run(tmp_path, dropout=0.0), 2)
    assert carried[0].loss == plain[0].loss  # The mean begins at 0.
    assert carried[1].loss > plain[1].loss


def test_a_carry_of_another_dtype_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"Shrinking\.after returns .*float32 \[1\]|Shrinking"):
        train(toy_run(tmp_path, supervision="shrinking"))


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_another_supervision_refuses_a_carry(tmp_path: Path) -> None:
    run = toy_run(tmp_path, supervision="drift", train_steps=1)
    train(run)
    with pytest.raises(UserError, match="2 tensors"):
        train(toy_run(tmp_path, supervision="final", train_steps=2))


ALIGNED = ProblemSpec("tokens", "aligned", 9, 9, shared_vocab=True)
STEPS = 3
NO_DROPOUT = {"dropout": 0.0, "attention_dropout": 0.0, "relu_dropout": 0.0}


def features(spec: ProblemSpec) -> dict[str, Any]:
    targets = INPUTS[:, 0] % 4 if spec.targets == "class" else INPUTS
    given = {"targets": tf.constant(targets), "weight": tf.constant([1.0, 0.0, 1.0])}
    return {**given, "update": tf.constant([3, 4], tf.int64), "inputs": tf.constant(INPUTS)}


def objective(spec: ProblemSpec, supervision: str, more: str = "", **changes: Any) -> Objective:
    model = random_model(spec=spec, **{"num_steps": STEPS, **NO_DROPOUT, **changes})
    given = f"label_smoothing=0.1,supervision={supervision}{more}"
    return make_objective(model, make_hparams("ut_tiny", f"num_steps={STEPS},{given}"), 1)


def loss_and_gradients(of: Objective, given: Any) -> tuple[Any, list[Any]]:
    weights = [weight.value for weight in of._model.trainable_variables]
    with tf.GradientTape() as tape:
        loss = of.sums(given, of.counts(given))[0].loss
    gradients = tape.gradient(loss, weights, unconnected_gradients="zero")
    return loss, [tf.convert_to_tensor(gradient) for gradient in gradients]


def cross_entropy(model: Any, given: Any) -> Any:
    entropy = smoothed_cross_entropy(model(given), given["targets"], 0.1)
    weights = tf.reshape(given["weight"], [-1] + [1] * (entropy.shape.rank - 1))
    if entropy.shape.rank == 2:
        weights *= tf.cast(given["targets"] != 0, tf.float32)
    return tf.reduce_sum(entropy * weights) / tf.reduce_sum(weights * tf.ones_like(entropy))


@pytest.mark.parametrize(
    "spec",
    [ALIGNED, *(pytest.param(x, marks=pytest.mark.slow) for x in (SPEC, CLASSES, LANGUAGE))],
    ids=lambda spec: spec.targets,
)
def test_each_is_the_mean_over_networks_of_every_depth(spec: ProblemSpec) -> None:
    given = features(spec)
    # Of an encoder-decoder the decoder alone is supervised step by step: one of one step reads the
    # whole encoder's states, which no other depth of both gives.
    changes = {"mix_layers_before": 1} if spec is LANGUAGE else {}
    of = objective(spec, "each", **changes)
    loss, gradients = loss_and_gradients(of, given)
    if spec is SPEC:
        final = objective(spec, "final")
        assert float(loss) != float(final.sums(given, final.counts(given))[0].loss)
        assert all(np.isfinite(gradient).all() for gradient in gradients)
        return
    losses, every = [], []
    for steps in range(1, STEPS + 1):
        model = random_model(spec=spec, num_steps=steps, **NO_DROPOUT, **changes)
        model.set_weights(of._model.get_weights())
        with tf.GradientTape() as tape:
            losses.append(cross_entropy(model, given))
        weights = [weight.value for weight in model.trainable_variables]
        found = tape.gradient(losses[-1], weights, unconnected_gradients="zero")
        every.append([tf.convert_to_tensor(gradient) / STEPS for gradient in found])
    sums = [tf.add_n(parts) for parts in zip(*every, strict=True)]
    assert float(loss) == pytest.approx(float(sum(losses)) / STEPS, rel=1e-5)
    totals, counts = of.sums(given, of.counts(given))[0].reported["step_losses"].numpy()
    np.testing.assert_allclose(totals / counts, losses, rtol=1e-5)
    for one, other in zip(gradients, sums, strict=True):
        assert_close(one, other, 1e-4)


@pytest.mark.slow
def test_progressive_is_the_weighted_sum_of_both_parts() -> None:
    given = features(ALIGNED)
    losses = {
        alpha: float(loss_and_gradients(of, given)[0])
        for alpha in (0.0, 0.25, 1.0)
        for of in [objective(ALIGNED, "progressive", f",progressive_alpha={alpha}")]
    }
    assert losses[0.25] == pytest.approx(0.75 * losses[0.0] + 0.25 * losses[1.0], rel=1e-6)
    first, then = drawn_part(given["update"], STEPS).numpy()
    model = random_model(spec=ALIGNED, num_steps=int(first + then), **NO_DROPOUT)
    assert losses[1.0] == pytest.approx(float(cross_entropy(model, given)), rel=1e-5)
    of = objective(ALIGNED, "progressive", ",progressive_alpha=0.25")
    totals, counts = of.sums(given, of.counts(given))[0].reported["step_losses"].numpy()
    expected = np.zeros(STEPS)
    for steps, loss in ((STEPS, losses[0.0]), (int(first + then), losses[1.0])):
        expected[steps - 1] += loss * counts.sum() / 2
    np.testing.assert_allclose(totals, expected, rtol=1e-5)


def test_every_part_is_drawn_and_none_beyond_the_depth() -> None:
    drawn = {
        tuple(drawn_part(tf.constant([7, update], tf.int64), 3).numpy()) for update in range(200)
    }
    assert drawn == {(n, k) for n in range(3) for k in range(1, 4 - n)}


@pytest.mark.slow
def test_two_replicas_train_like_one(tmp_path: Path) -> None:
    changes = {
        "model": "universal_transformer",
        "supervision": "progressive",
        "batch_unit": "examples",
        "dropout": 0.0,
    }
    two, _ = run_steps(toy_run(tmp_path, "toy_class", batch_size=4, **changes), 2, mirrored(2))
    one, _ = run_steps(toy_run(tmp_path, "toy_class", batch_size=8, **changes), 2)
    assert [step.loss for step in two] == pytest.approx([step.loss for step in one], rel=2e-4)


def test_models_without_such_steps_are_refused() -> None:
    hparams = make_hparams("ut_tiny", "supervision=each")
    for model in (random_transformer(), random_model(halting="basic")):
        with pytest.raises(UserError, match=r"supervision=each needs .*halting=none"):
            make_objective(model, hparams, 1)
