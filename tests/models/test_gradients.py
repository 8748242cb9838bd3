"""Networks as they are made can be trained: the first update's gradient neither explodes nor
vanishes.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.configs import small_config
from ut_tf import registry
from ut_tf.data.problem import ProblemSpec
from ut_tf.metrics.losses import smoothed_cross_entropy

pytestmark = pytest.mark.usefixtures("eager")

SYMBOLS = np.random.default_rng(0).integers(2, 50, (4, 12)).astype(np.int32)
LANGUAGE = ProblemSpec("none", "tokens", 0, 50)
PAIRS = ProblemSpec("tokens", "tokens", 50, 50, shared_vocab=True)
NO_DROPOUT: dict[str, Any] = {"dropout": 0.0, "attention_dropout": 0.0, "relu_dropout": 0.0}


def made_model(model: str, spec: ProblemSpec, sizes: dict[str, Any], **changes: Any) -> Any:
    factory = registry.models.get(model)
    return factory(small_config(factory.func, sizes, **changes), spec)


def gradient_norm(model: str, spec: ProblemSpec, **changes: Any) -> float:
    keras.utils.set_random_seed(0)
    sizes = {"hidden_size": 64, "filter_size": 128, "num_heads": 2, "num_layers": 6, "num_steps": 6}
    made = made_model(model, spec, {**sizes, **NO_DROPOUT}, **changes)
    features = (
        {"targets": SYMBOLS} if spec.inputs == "none" else {"inputs": SYMBOLS, "targets": SYMBOLS}
    )
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(smoothed_cross_entropy(made(features, training=True), SYMBOLS, 0.0))
    gradients = tape.gradient(
        loss, [weight.value for weight in made.trainable_variables], unconnected_gradients="zero"
    )
    return float(tf.linalg.global_norm(gradients))


@pytest.mark.parametrize(
    ("model", "spec", "changes"),
    [
        pytest.param("transformer", LANGUAGE, {"position": "rotary"}, marks=pytest.mark.slow),
        pytest.param(
            "transformer", LANGUAGE, {"position": "none", "norm": "pre"}, marks=pytest.mark.slow
        ),
        (
            "universal_transformer",
            LANGUAGE,
            {"position": "rotary", "step_encoding": "none", "norm": "pre"},
        ),
        pytest.param(
            "universal_transformer",
            PAIRS,
            {"position": "rotary", "step_encoding": "none"},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "mem_bottleneck_transformer",
            PAIRS,
            {"position": "none", "norm": "pre"},
            marks=pytest.mark.slow,
        ),
        pytest.param("bytenet", LANGUAGE, {}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_the_first_gradient_is_neither_huge_nor_tiny(
    model: str, spec: ProblemSpec, changes: dict[str, Any]
) -> None:
    assert 1 < gradient_norm(model, spec, **changes) < 20
