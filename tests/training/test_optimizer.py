"""The optimizer against Adam written out in numpy, and what surrounds it."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from tests.search.models import random_model
from ut_tf.config.hparams import HParams
from ut_tf.config.training import TrainingConfig
from ut_tf.errors import UserError
from ut_tf.factories import make_hparams
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
from ut_tf.models.universal_transformer.model import UniversalTransformer
from ut_tf.problem_spec import ProblemSpec
from ut_tf.training import optimizer as module
from ut_tf.training.muon import muon_step, orthogonalised
from ut_tf.training.optimizer import Optimizer, is_decayed, is_hidden, make_optimizer
from ut_tf.training.schedules import learning_rate


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


def rate(step: int, hidden_size: int = 64, **values: object) -> float:
    return float(learning_rate(step, TrainingConfig(**values), hidden_size))  # type: ignore[arg-type]


def test_noam_is_tensor2tensors() -> None:
    values = {"learning_rate": 2.0, "schedule": "noam", "warmup_steps": 100}
    assert rate(1, **values) == pytest.approx(2.0 / 8.0 * 0.01 * 0.1)
    assert rate(50, **values) == pytest.approx(2.0 / 8.0 * 0.5 * 0.1)
    assert rate(100, **values) == pytest.approx(2.0 / 8.0 * 0.1)
    assert rate(400, **values) == pytest.approx(2.0 / 8.0 * 0.05)


def test_constant_warms_up_and_stays() -> None:
    values = {"learning_rate": 0.3, "schedule": "constant", "warmup_steps": 10}
    assert [rate(step, **values) for step in (1, 5, 10, 1000)] == pytest.approx(
        [0.03, 0.15, 0.3, 0.3]
    )


def test_cosine_goes_to_zero_at_decay_steps() -> None:
    values = {"learning_rate": 1.0, "schedule": "cosine", "warmup_steps": 10, "decay_steps": 110}
    assert rate(5, **values) == pytest.approx(0.5)
    assert rate(10, **values) == pytest.approx(1.0)
    assert rate(35, **values) == pytest.approx(0.5 * (1 + math.cos(math.pi / 4)))
    assert rate(60, **values) == pytest.approx(0.5)
    assert rate(110, **values) == pytest.approx(0.0, abs=1e-7)
    assert rate(500, **values) == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize("schedule", ["noam", "constant", "cosine"])
def test_no_warm_up_begins_with_the_whole_rate(schedule: str) -> None:
    first = rate(
        1, hidden_size=1, schedule=schedule, learning_rate=0.5, warmup_steps=0, decay_steps=10**6
    )
    assert first == pytest.approx(0.5, rel=1e-5)


ALIGNED = ProblemSpec("tokens", "aligned", 9, 9, shared_vocab=True)
SIZES = "hidden_size=8,filter_size=8,num_heads=1"
SIGNED = "puzzle_optimizer=signsgd,puzzle_learning_rate=0.05,puzzle_weight_decay=0.5"


def made(overrides: str) -> tuple[Any, Any, list[str]]:
    """The model, its optimizer and the paths of its weights."""
    hparams = make_hparams("ut_tiny", f"{SIZES},schedule=constant,warmup_steps=0,{overrides}")
    network = {name: getattr(hparams.network, name) for name in ("memory_tokens", "num_puzzles")}
    model = random_model(spec=ALIGNED, hidden_size=8, filter_size=8, num_heads=1, **network)
    paths = [weight.path for weight in model.trainable_variables]
    return model, make_optimizer(model.trainable_variables, hparams, 0), paths


def test_the_puzzles_of_an_update_follow_the_sign_and_others_stay() -> None:
    overrides = f"memory_tokens=2,num_puzzles=4,learning_rate=0.2,clip_norm=0.1,{SIGNED}"
    model, optimizer, paths = made(overrides)
    at = paths.index("encoder/memory/vectors")
    table = model.trainable_variables[at]
    start = np.random.default_rng(0).normal(size=[4, 8]).astype(np.float32)
    table.assign(start)
    features = {
        "inputs": tf.constant(np.random.default_rng(1).integers(2, 9, [3, 5])),
        "puzzles": tf.constant([2, 0, 2]),
    }
    values = [weight.value for weight in model.trainable_variables]
    expected = start.astype(np.float64)
    for _ in range(2):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(model(features)))
        gradients = [tf.convert_to_tensor(each) for each in tape.gradient(loss, values)]
        gradient = gradients[at].numpy()
        assert gradient[[0, 2]].all() and not gradient[[1, 3]].any()
        optimizer.apply(gradients)
        # The learning rate of all weights is 0.2.
        for row in (0, 2):
            expected[row] = (1 - 0.05 * 0.5) * expected[row] - 0.05 * np.sign(gradient[row])
    np.testing.assert_allclose(table.numpy(), expected, rtol=1e-5)
    np.testing.assert_array_equal(table.numpy()[[1, 3]], start[[1, 3]])
    assert optimizer.first_moments[at].shape == optimizer.second_moments[at].shape == ()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (f"memory_tokens=2,{SIGNED}", "this model has none: set num_puzzles"),
        (f"memory_tokens=2,num_puzzles=4,gradient_noise=0.1,{SIGNED}", "set gradient_noise=0"),
    ],
)
def test_what_cannot_be_is_refused(overrides: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        made(overrides)


@pytest.mark.parametrize("shape", [(12, 12), (8, 24), (24, 8)])
def test_singular_values_come_near_one_and_vectors_stay(shape: tuple[int, int]) -> None:
    draws = np.random.default_rng(0)
    matrix = draws.normal(size=shape).astype(np.float32)
    found = orthogonalised(tf.constant(matrix)).numpy()
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    values = left.T @ found @ right.T
    assert np.abs(values - np.diag(np.diag(values))).max() < 1e-4
    assert np.diag(values).min() > 0.6 and np.diag(values).max() < 1.25


def test_two_steps_in_numpy() -> None:
    draws = np.random.default_rng(1)
    first, second = draws.normal(size=(2, 8, 16)).astype(np.float32)
    _, momentum = muon_step(tf.constant(first), tf.zeros([8, 16]), 0.9)
    step, momentum = muon_step(tf.constant(second), momentum, 0.9)
    expected = 0.9 * (0.1 * first) + 0.1 * second
    np.testing.assert_allclose(momentum, expected, rtol=1e-5)
    direction = orthogonalised(tf.constant(0.1 * second + 0.9 * expected)).numpy()
    np.testing.assert_allclose(step, 0.2 * 16**0.5 * direction, rtol=1e-4, atol=1e-6)


def test_a_convolution_steps_as_the_matrix_of_its_window() -> None:
    gradient, momentum = np.random.default_rng(9).normal(size=(2, 3, 8, 16)).astype(np.float32)
    step, after = muon_step(tf.constant(gradient), tf.constant(momentum), 0.9)
    matrices = (tf.constant(part.reshape(24, 16)) for part in (gradient, momentum))
    expected_step, expected = muon_step(*matrices, 0.9)
    np.testing.assert_allclose(step, expected_step.numpy().reshape(3, 8, 16), rtol=1e-5)
    np.testing.assert_allclose(after, expected.numpy().reshape(3, 8, 16), rtol=1e-6)


def test_each_of_several_sets_steps_as_a_kernel_of_its_own() -> None:
    draws = np.random.default_rng(11)
    gradient, momentum = draws.normal(size=(2, 2, 3, 3, 8, 8)).astype(np.float32)
    gradient[1] *= 0.1
    step, after = muon_step(tf.constant(gradient), tf.constant(momentum), 0.9)
    for number in range(2):
        alone, expected = muon_step(
            tf.constant(gradient[number]), tf.constant(momentum[number]), 0.9
        )
        np.testing.assert_allclose(step[number], alone, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(after[number], expected, rtol=1e-6)


def test_what_muon_is_for_in_a_universal_transformer() -> None:
    network = UniversalTransformerConfig(
        hidden_size=8,
        filter_size=16,
        num_heads=2,
        halting="basic",
        transition="sepconv",
        shared_embedding=False,
    )
    model = UniversalTransformer(network, ProblemSpec("tokens", "tokens", 9, 9))
    hidden = {weight.path: is_hidden(weight) for weight in model.trainable_variables}
    wanted = {
        *(f"self_attention/{name}_kernel" for name in ("query", "key", "value")),
        "self_attention/output/kernel",
        "transition/inner/pointwise/kernel",
        "transition/outer/pointwise/kernel",
    }
    of_encoder = {path for path, by_muon in hidden.items() if by_muon and "encoder" in path}
    assert of_encoder == {f"encoder/block/{name}" for name in wanted}
    assert hidden["output_projection/kernel"] is False


def _weights() -> list[keras.Variable]:
    draws = np.random.default_rng(3)
    return [
        keras.Variable(draws.normal(size=shape).astype(np.float32), name=name)
        for shape, name in (((8, 16), "kernel"), ((16,), "bias"), ((5, 16), "table"))
    ]


def _gradients(weights: list[keras.Variable], seed: int) -> list[tf.Tensor]:
    draws = np.random.default_rng(seed)
    return [tf.constant(draws.normal(size=weight.shape).astype(np.float32)) for weight in weights]


def test_kernels_follow_muon_and_the_rest_adam() -> None:
    by_adam, by_muon = _weights(), _weights()
    start = by_muon[0].numpy()
    gradients = _gradients(by_muon, 4)
    Optimizer(by_adam, training(), 16).apply(gradients)
    Optimizer(by_muon, training(optimizer="muon"), 16).apply(gradients)
    step, _ = muon_step(gradients[0], tf.zeros([8, 16]), 0.95)
    np.testing.assert_allclose(by_muon[0].numpy(), start - 0.1 * step.numpy(), rtol=1e-5)
    for one, other in zip(by_adam[1:], by_muon[1:], strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_what_muon_cannot_be_is_refused() -> None:
    with pytest.raises(UserError, match=r"muon_momentum=1\.0: expected"):
        training(muon_momentum=1.0)
    narrow = [keras.Variable(np.zeros((4, 16), np.float32), name="kernel")]
    with pytest.raises(UserError, match="no kernel between hidden states"):
        Optimizer(narrow, training(optimizer="muon"), 16)
    (idle,) = HParams().change(muon_momentum=0.9).without_effect("muon_momentum=0.9")
    assert idle == "muon_momentum=0.9 has no effect with optimizer=adam, only with muon"
