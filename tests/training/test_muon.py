"""Muon's step, and the optimizer that follows it for hidden kernels and Adam elsewhere."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.training.test_optimizer import training
from ut_tf.config.hparams import HParams
from ut_tf.errors import UserError
from ut_tf.models.neural_gpu.config import NeuralGPUConfig
from ut_tf.models.neural_gpu.model import NeuralGPU
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
from ut_tf.models.universal_transformer.model import UniversalTransformer
from ut_tf.problem_spec import ProblemSpec
from ut_tf.training import optimizer as module
from ut_tf.training.muon import muon_step, orthogonalised
from ut_tf.training.optimizer import Optimizer, is_hidden


@pytest.mark.parametrize("shape", [(12, 12), (8, 24), (24, 8)])
def test_singular_values_come_near_one_and_vectors_stay(shape: tuple[int, int]) -> None:
    draws = np.random.default_rng(0)
    matrix = draws.normal(size=shape).astype(np.float32)
    found = orthogonalised(tf.constant(matrix)).numpy()
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    values = left.T @ found @ right.T
    assert np.abs(values - np.diag(np.diag(values))).max() < 1e-4
    assert np.diag(values).min() > 0.6 and np.diag(values).max() < 1.25


@pytest.mark.parametrize("shape", [(8, 24), (24, 8)])
def test_keras_makes_the_same_of_a_matrix(shape: tuple[int, int]) -> None:
    matrix = tf.constant(np.random.default_rng(8).normal(size=shape).astype(np.float32))
    expected = keras.optimizers.Muon().zeropower_via_newtonschulz5(matrix, 5)
    np.testing.assert_allclose(orthogonalised(matrix), expected, rtol=1e-4, atol=1e-5)


def test_a_matrix_of_zeros_stays_one() -> None:
    np.testing.assert_array_equal(orthogonalised(tf.zeros([8, 9])), np.zeros([8, 9]))


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


def test_a_step_is_about_as_large_as_adams() -> None:
    gradient = np.random.default_rng(2).normal(size=(64, 256)).astype(np.float32)
    step, _ = muon_step(tf.constant(gradient), tf.zeros([64, 256]), 0.95)
    assert 0.15 < float(np.sqrt(np.mean(np.square(step)))) < 0.25


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


def test_what_muon_is_for_in_a_neural_gpu() -> None:
    spec = ProblemSpec("tokens", "tokens", 9, 9, shared_vocab=True)
    model = NeuralGPU(NeuralGPUConfig(hidden_size=8, source_stretch=1.0), spec)
    hidden = {
        weight.path.split("/")[-1] for weight in model.trainable_variables if is_hidden(weight)
    }
    assert hidden == {"update_kernel", "reset_kernel", "candidate_kernel"}


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


def test_decay_reaches_kernels_under_muon() -> None:
    plain, decayed = _weights(), _weights()
    gradients = _gradients(plain, 5)
    Optimizer(plain, training(optimizer="muon"), 16).apply(gradients)
    start = decayed[0].numpy()
    Optimizer(decayed, training(optimizer="muon", weight_decay=0.5), 16).apply(gradients)
    np.testing.assert_allclose(
        plain[0].numpy() - decayed[0].numpy(), 0.05 * start, rtol=1e-3, atol=1e-6
    )


def test_a_gradient_that_is_not_finite_changes_nothing_under_muon() -> None:
    variables = _weights()
    optimizer = Optimizer(variables, training(optimizer="muon", loss_scale="dynamic"), 16)
    optimizer.apply(_gradients(variables, 6))
    before = [weight.numpy() for weight in variables] + [optimizer.first_moments[0].numpy()]
    broken = [gradient * float("nan") for gradient in _gradients(variables, 7)]
    optimizer.apply(broken)
    after = [weight.numpy() for weight in variables] + [optimizer.first_moments[0].numpy()]
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)
    assert float(optimizer.loss_scale) == module.INITIAL_LOSS_SCALE / 2


def test_what_muon_cannot_be_is_refused() -> None:
    with pytest.raises(UserError, match=r"muon_momentum=1\.0: expected"):
        training(muon_momentum=1.0)
    narrow = [keras.Variable(np.zeros((4, 16), np.float32), name="kernel")]
    with pytest.raises(UserError, match="no kernel between hidden states"):
        Optimizer(narrow, training(optimizer="muon"), 16)
    (idle,) = HParams().change(muon_momentum=0.9).without_effect("muon_momentum=0.9")
    assert idle == "muon_momentum=0.9 has no effect with optimizer=adam, only with muon"
