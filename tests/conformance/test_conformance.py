"""Every layer and model: serialisation, compiled fit, mixed precision, XLA, SavedModel, checkpoint,
two devices.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.conformance.cases import (
    CASES,
    COMPILED_BY_XLA,
    FITTED,
    FITTED_EAGERLY,
    IN_MIXED_PRECISION,
    ON_TWO_DEVICES,
    SAVED,
    Case,
)


def _cases(is_slow: Callable[[Case], bool], cases: list[Case] = CASES) -> Any:
    """Cases, of which some are slow tests. The scope lets all tests of a case follow each other, so
    that they share what is made of it.
    """
    parameters = [
        pytest.param(case, id=case.name, marks=[pytest.mark.slow] if is_slow(case) else [])
        for case in cases
    ]
    return pytest.mark.parametrize("case", parameters, scope="module")


def _cases_of(kept: frozenset[str]) -> Any:
    once = [case for case in CASES if case.is_stack or not case.repeats]
    return _cases(lambda case: case.name not in kept, once)


by_case = _cases(lambda case: case.repeats and (case.is_model or case.is_stack))


class Probe(keras.Model):
    """A case's layer with a scalar loss on its output: what fit, strategies and SavedModel need
    around a layer.
    """

    def __init__(self, case: Case, policy: str = "float32") -> None:
        super().__init__(dtype=policy)
        self.case = case
        self.layer = case.make(policy)
        if not case.is_model:
            self(tensors(case))  # Makes the variables, which a model has from the start.

    def call(self, inputs: dict[str, Any], training: bool = False) -> Any:
        return tf.cast(self.case.call(self.layer, inputs, training), tf.float32)


def tensors(case: Case) -> dict[str, Any]:
    return {name: tf.constant(value) for name, value in case.inputs.items()}


def made(case: Case, policy: str = "float32", seed: int = 1) -> Probe:
    keras.utils.set_random_seed(seed)
    probe = Probe(case, policy)
    generator = np.random.default_rng(seed)
    for variable in probe.trainable_variables:
        variable.assign(variable + generator.normal(scale=0.1, size=variable.shape))
    return probe


@pytest.fixture(scope="module")
def probe(case: Case) -> Probe:
    """The case's probe in float32, whose weights no test changes."""
    return made(case)


@pytest.fixture(scope="module")
def expected(case: Case, probe: Probe) -> Any:
    """What the probe computes of the case's inputs."""
    return probe(tensors(case)).numpy()


def values_and_gradients(probe: Probe, inputs: dict[str, Any]) -> tuple[Any, list[Any]]:
    """The output, and the gradients of its mean squared distance from 0.3."""
    with tf.GradientTape() as tape:
        values = probe(inputs)
        loss = tf.reduce_mean(tf.square(values - 0.3))
    # Whether an unused weight has no gradient or zeros differs between eager and compiled loops.
    weights = [weight.value for weight in probe.trainable_variables]
    return values, tape.gradient(loss, weights, unconnected_gradients=tf.UnconnectedGradients.ZERO)


def _read_back(probe: Probe, case: Case, folder: Path) -> Any:
    """The probe's layer from its configuration as JSON and its weights; a model's by its file."""
    if isinstance(probe.layer, keras.Model):
        probe.layer.save(folder / "model.keras")
        return keras.saving.load_model(folder / "model.keras")
    copy = type(probe.layer).from_config(json.loads(json.dumps(probe.layer.get_config())))
    case.call(copy, tensors(case), False)
    copy.set_weights(probe.layer.get_weights())
    return copy


@by_case
def test_configuration_and_checkpoint_make_the_same_layer(
    case: Case, probe: Probe, expected: Any, tmp_path: Path
) -> None:
    copy = _read_back(probe, case, tmp_path)
    for weight, original in zip(copy.weights, probe.layer.weights, strict=True):
        np.testing.assert_array_equal(weight, original)
    path = tf.train.Checkpoint(model=probe.layer).save(str(tmp_path / "checkpoint"))
    for variable in copy.trainable_variables:
        variable.assign(tf.zeros(variable.shape))
    tf.train.Checkpoint(model=copy).restore(path).assert_existing_objects_matched()
    np.testing.assert_array_equal(case.call(copy, tensors(case), False), expected)


@_cases_of(FITTED)
def test_compiled_fit_lowers_the_loss(case: Case) -> None:
    check_fit(case, epochs=8, run_eagerly=False)


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.name in FITTED_EAGERLY],
    ids=lambda case: case.name,
    scope="module",
)
def test_fit_lowers_the_loss(case: Case) -> None:
    """Without a graph, which takes longer to make than a few updates."""
    check_fit(case, epochs=2, run_eagerly=True)


def check_fit(case: Case, epochs: int, run_eagerly: bool) -> None:
    keras.utils.set_random_seed(2)
    probe = made(case)
    # SGD is the optimizer that is quickly compiled; large gradients would throw it off.
    probe.compile(
        keras.optimizers.SGD(0.05, clipnorm=1.0),
        loss="mse",
        jit_compile=False,
        run_eagerly=run_eagerly,
    )
    before = probe(tensors(case)).numpy()
    target = case.target(before)
    probe.fit(case.inputs, target, epochs=epochs, batch_size=len(target), verbose=0)
    # The losses of the training itself go up and down with what is dropped.
    after = probe(tensors(case)).numpy()
    assert (
        np.square(after - target).mean() < np.square(before - target).mean()
        or not probe.trainable_variables
    )


@_cases(lambda case: case.name not in IN_MIXED_PRECISION)
@pytest.mark.parametrize(
    "policy", ["mixed_bfloat16", pytest.param("mixed_float16", marks=pytest.mark.slow)]
)
def test_mixed_precision_is_near_float32(case: Case, policy: str, expected: Any) -> None:
    mixed = made(case, policy)
    values, gradients = values_and_gradients(mixed, tensors(case))
    assert np.abs(expected - values).max() < 0.1 * max(1.0, np.abs(expected).max())
    assert all(np.isfinite(tf.convert_to_tensor(g)).all() for g in gradients)
    assert all(variable.dtype == "float32" for variable in mixed.trainable_variables)


@_cases_of(COMPILED_BY_XLA)
def test_xla_gives_the_same_values_and_gradients(case: Case, probe: Probe) -> None:
    compute = tf.function(
        lambda inputs: values_and_gradients(probe, inputs), autograph=False, jit_compile=True
    )
    plain, compiled = values_and_gradients(probe, tensors(case)), compute(tensors(case))
    for one, other in zip(tf.nest.flatten(plain), tf.nest.flatten(compiled), strict=True):
        np.testing.assert_allclose(
            tf.convert_to_tensor(one), tf.convert_to_tensor(other), rtol=1e-3, atol=1e-5
        )


@_cases_of(SAVED)
def test_saved_model_round_trip(case: Case, probe: Probe, expected: Any, tmp_path: Path) -> None:
    signature = {
        name: tf.TensorSpec([None, *value.shape[1:]], value.dtype)
        for name, value in case.inputs.items()
    }
    module = tf.Module()
    module.probe = probe
    module.serve = tf.function(lambda x: probe(x), input_signature=[signature], autograph=False)
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    np.testing.assert_allclose(loaded.serve(tensors(case)), expected, rtol=1e-5, atol=1e-5)


@_cases_of(ON_TWO_DEVICES)
def test_two_devices_sum_to_one(case: Case, expected: Any) -> None:
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        mirrored = made(case)
    halves = [
        {name: value[rows] for name, value in case.inputs.items()}
        for rows in (slice(0, 2), slice(2, 4))
    ]

    def values(context: Any) -> dict[str, Any]:
        return {
            name: tf.constant(value)
            for name, value in halves[context.replica_id_in_sync_group].items()
        }

    probe_inputs = {
        name: strategy.experimental_distribute_values_from_function(
            lambda context, name=name: values(context)[name]
        )
        for name in case.inputs
    }
    both = strategy.run(mirrored, args=(probe_inputs,))
    result = tf.concat(strategy.experimental_local_results(both), 0)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
