"""The vectors of puzzles by SignSGD, against the equation in numpy."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.search.models import random_model
from ut_tf.config.training import TrainingConfig
from ut_tf.errors import UserError
from ut_tf.factories import make_hparams
from ut_tf.problem_spec import ProblemSpec
from ut_tf.training.optimizer import Optimizer, make_optimizer

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


def test_all_else_follows_the_optimizer_and_the_schedule_holds_for_both() -> None:
    gradients = [tf.constant([[1.0, -2.0]]), tf.constant([[3.0, 0.0], [0.0, 0.0]])]

    def updated(**more: Any) -> list[Any]:
        weights = [
            keras.Variable([[1.0, 1.0]], name="kernel"),
            keras.Variable([[1.0, 1.0], [1.0, 1.0]], name="vectors"),
        ]
        weights[1]._path = "encoder/memory/vectors"
        settings = {"learning_rate": 0.1, "schedule": "constant", "warmup_steps": 10, **more}
        Optimizer(weights, TrainingConfig(loss_scale="none", **settings), 8).apply(gradients)
        return [weight.numpy() for weight in weights]

    plain, signed = updated(), updated(puzzle_optimizer="signsgd", puzzle_weight_decay=0.0)
    np.testing.assert_array_equal(plain[0], signed[0])
    # A tenth of the rate in the first of ten updates of warm-up.
    np.testing.assert_allclose(signed[1], [[1.0 - 0.001, 1.0], [1.0, 1.0]], rtol=1e-6)


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
