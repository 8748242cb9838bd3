"""The optimizer against Adam written out in numpy, and what surrounds it."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from ut_tf.config.training import TrainingConfig
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
from ut_tf.models.universal_transformer.model import UniversalTransformer
from ut_tf.problem_spec import ProblemSpec
from ut_tf.training import optimizer as module
from ut_tf.training.optimizer import Optimizer, is_decayed


def training(**values: Any) -> TrainingConfig:
    return TrainingConfig(
        **{
            "schedule": "constant",
            "warmup_steps": 0,
            "learning_rate": 0.1,
            "loss_scale": "none",
            **values,
        }
    )


def weights(*values: Any) -> list[Any]:
    return [
        keras.Variable(np.asarray(value, np.float32), name=f"kernel_{number}")
        for number, value in enumerate(values)
    ]


def test_three_updates_of_adam_in_numpy() -> None:
    settings = training(adam_beta1=0.8, adam_beta2=0.9, adam_epsilon=1e-3)
    start = np.array([1.0, -2.0], np.float32)
    variables = weights(start)
    optimizer = Optimizer(variables, settings, 16)
    expected, first, second = start.astype(np.float64), np.zeros(2), np.zeros(2)
    for number, gradient in enumerate(([0.5, 1.0], [-1.0, 2.0], [0.1, 0.0]), 1):
        optimizer.apply([tf.constant(gradient)])
        array = np.array(gradient)
        first = 0.8 * first + 0.2 * array
        second = 0.9 * second + 0.1 * array**2
        expected -= (
            0.1 * np.sqrt(1 - 0.9**number) / (1 - 0.8**number) * first / (np.sqrt(second) + 1e-3)
        )
    np.testing.assert_allclose(variables[0].numpy(), expected, rtol=1e-5)
    assert int(optimizer.iterations) == 3


def test_clipping_scales_all_gradients_by_their_global_norm() -> None:
    plain, clipped = weights([0.0, 0.0], [0.0]), weights([0.0, 0.0], [0.0])
    settings = {"adam_beta1": 0.0, "adam_beta2": 0.0, "adam_epsilon": 1.0}
    norm, _ = Optimizer(clipped, training(clip_norm=1.0, **settings), 16).apply(
        [tf.constant([2.0, 1.0]), tf.constant([2.0])]
    )
    Optimizer(plain, training(**settings), 16).apply(
        [tf.constant([2.0, 1.0]) / 3.0, tf.constant([2.0]) / 3.0]
    )
    assert float(norm) == pytest.approx(3.0)
    for one, other in zip(plain, clipped, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-6)


def test_small_gradients_are_not_clipped() -> None:
    plain, clipped = weights([1.0]), weights([1.0])
    # Otherwise Adam's first step is the gradient's sign, whatever its size.
    settings = {"adam_beta1": 0.0, "adam_beta2": 0.0, "adam_epsilon": 1.0}
    Optimizer(plain, training(**settings), 16).apply([tf.constant([0.5])])
    Optimizer(clipped, training(clip_norm=10.0, **settings), 16).apply([tf.constant([0.5])])
    assert plain[0].numpy() == clipped[0].numpy()


def test_decay_is_decoupled_from_the_gradient() -> None:
    variables = [*weights([[1.0, 2.0]]), keras.Variable([3.0], name="bias")]
    zeros = [tf.zeros([1, 2]), tf.zeros([1])]
    Optimizer(variables, training(weight_decay=0.5), 16).apply(zeros)
    np.testing.assert_allclose(variables[0].numpy(), [[0.95, 1.9]], rtol=1e-6)
    np.testing.assert_array_equal(variables[1].numpy(), [3.0])


def test_only_kernels_decay() -> None:
    layer = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Embedding(5, 4),
            keras.layers.Dense(2),
            keras.layers.LayerNormalization(),
        ]
    )
    decayed = [
        variable.path.rpartition("/")[2]
        for variable in layer.trainable_variables
        if is_decayed(variable)
    ]
    assert decayed == ["kernel"]


def test_what_decays_of_a_universal_transformer() -> None:
    network = UniversalTransformerConfig(
        hidden_size=8,
        filter_size=8,
        num_heads=2,
        halting="basic",
        step_encoding="learned",
        input_start_symbol=True,
    )
    model = UniversalTransformer(network, ProblemSpec("facts", "tokens", 7, 5, max_words=3))
    names = {
        variable.path.rpartition("/")[2]: is_decayed(variable)
        for variable in model.trainable_variables
    }
    assert {name for name, decays in names.items() if not decays} >= {
        "table",
        "word_masks",
        "bias",
        "start_symbol",
    }
    kernels = {
        variable.path for variable in model.trainable_variables if variable.path.endswith("kernel")
    }
    assert {
        variable.path for variable in model.trainable_variables if is_decayed(variable)
    } == kernels


def test_average_follows_the_weights() -> None:
    variables = weights([1.0])
    optimizer = Optimizer(variables, training(average_decay=0.9), 16)
    averages, expected = [], 1.0
    for number in range(1, 4):
        optimizer.apply([tf.constant([1.0])])
        decay = min(0.9, (1 + number) / (10 + number))
        expected = decay * expected + (1 - decay) * float(variables[0].numpy()[0])
        averages.append(float(optimizer.averages[0][0]) - expected)
    assert_close(averages, 0.0, 1e-6)


def test_a_gradient_that_is_not_finite_is_skipped_and_halves_the_loss_scale() -> None:
    variables = weights([1.0, 2.0])
    optimizer = Optimizer(
        variables, training(loss_scale="dynamic", average_decay=0.5, weight_decay=0.1), 16
    )
    optimizer.apply([tf.constant([1.0, 1.0])])
    before = [
        variables[0].numpy(),
        optimizer.first_moments[0].numpy(),
        optimizer.second_moments[0].numpy(),
        optimizer.averages[0].numpy(),
    ]
    norm, _ = optimizer.apply([tf.constant([float("inf"), 1.0])])
    after = [
        variables[0].numpy(),
        optimizer.first_moments[0].numpy(),
        optimizer.second_moments[0].numpy(),
        optimizer.averages[0].numpy(),
    ]
    assert not np.isfinite(norm)
    np.testing.assert_array_equal(before, after)
    assert int(optimizer.iterations) == 1
    assert float(optimizer.loss_scale) == module.INITIAL_LOSS_SCALE / 2


def test_the_loss_scale_grows_after_enough_finite_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOSS_SCALE_PERIOD", 3)
    optimizer = Optimizer(weights([1.0]), training(loss_scale="dynamic"), 16)
    scales = []
    for _ in range(4):
        optimizer.apply([tf.constant([1.0])])
        scales.append(float(optimizer.loss_scale) / module.INITIAL_LOSS_SCALE)
    assert scales == [1.0, 1.0, 2.0, 2.0]


def test_the_loss_scale_does_not_change_the_update() -> None:
    plain, scaled = weights([1.0]), weights([1.0])
    Optimizer(plain, training(), 16).apply([tf.constant([0.25])])
    optimizer = Optimizer(scaled, training(loss_scale="dynamic"), 16)
    optimizer.apply([tf.constant([0.25]) * optimizer.loss_scale])
    np.testing.assert_allclose(plain[0].numpy(), scaled[0].numpy(), rtol=1e-6)
