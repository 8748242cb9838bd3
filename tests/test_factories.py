"""What is made by name is checked: a registered model must be one that can be trained."""

from __future__ import annotations

from typing import Any

import keras
import pytest
import tensorflow as tf

from ut_tf import registry
from ut_tf.config.hparams import HParams
from ut_tf.errors import UserError
from ut_tf.factories import make_model
from ut_tf.models.training_contract import TrainableModel
from ut_tf.problem_spec import ProblemSpec

SPEC = ProblemSpec("tokens", "tokens", 7, 7, shared_vocab=True)


class Plain(keras.Model):  # type: ignore[misc]
    """Can be called, and says nothing of training."""

    def __init__(self, network: Any, spec: ProblemSpec, built: bool = True) -> None:
        super().__init__()
        self.embedding = keras.layers.Embedding(spec.target_vocab_size, network.hidden_size)
        if built:
            self({"targets": tf.zeros([1, 2], tf.int32)})

    def call(self, features: dict[str, Any]) -> Any:
        return self.embedding(features["targets"])


class Trainable(Plain, TrainableModel):
    """Plain, with the defaults of fixed depth."""


class Unbuilt(Trainable):
    """Has no weights yet."""

    def __init__(self, network: Any, spec: ProblemSpec) -> None:
        super().__init__(network, spec, built=False)


def _made(factory: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(registry.models, "_registered", {})
    registry.register_model("own")(factory)
    return make_model(HParams("own"), SPEC, seed=0)


@pytest.mark.parametrize(
    ("factory", "expected"),
    [
        (Plain, r"the model 'own' makes a .*Plain, .* expects .* TrainableModel .*: derive"),
        (lambda *_: None, r"the model 'own' makes a builtins.NoneType, .*: derive"),
        (Unbuilt, r"'own' makes a .*Unbuilt without weights, .*: call it there once"),
    ],
    ids=["plain", "nothing", "unbuilt"],
)
def test_a_model_that_cannot_be_trained_is_refused_when_it_is_made(
    factory: Any, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=expected):
        _made(factory, monkeypatch)


def test_a_keras_model_with_the_training_interface_has_a_fixed_depth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = _made(Trainable, monkeypatch)
    assert isinstance(model, Trainable)
    assert (model.ponder_weight, model.expects_scores, model.sees_later_targets) == (
        None,
        False,
        False,
    )
