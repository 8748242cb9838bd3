"""The layers that ``ut_tf.layers`` promises: in Functional models, saved, loaded, mistyped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

import ut_tf
from ut_tf import layers
from ut_tf.errors import UserError
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig as Config

BATCH = np.random.default_rng(0).normal(size=[2, 3, 16]).astype(np.float32)


def block() -> Any:
    return layers.Block(
        layers.MultiHeadAttention(16, 2), transition=layers.Transition(16, 32), norm="pre"
    )


def recurrence(x: Any, halting: Any, cell: Any) -> Any:
    states, details = layers.Recurrence(block(), cell, halting, layers.Coordinates(16, 5))(x)
    return [states, details.ponder_times]


CALLS: dict[str, Callable[[Any], Any]] = {
    "attention": lambda x: layers.MultiHeadAttention(16, 2, relative_bias=2)(x),
    "transition": lambda x: layers.Transition(16, 32)(x),
    "convolution": lambda x: layers.SeparableConvTransition(16, 32)(x),
    "halting": lambda x: layers.HaltingUnit(act_max_steps=5)(x, x, keras.ops.ones_like(x[..., 0])),
    "coordinates": lambda x: layers.Coordinates(16, 5)(x, step=2, position_signal=None),
    "block": lambda x: block()(x)[:2],
    "halted": lambda x: recurrence(x, layers.HaltingUnit(act_max_steps=5), layers.BasicCell()),
    "fixed": lambda x: recurrence(x, layers.FixedDepth(3), layers.HighwayCell(16)),
}


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[pytest.mark.slow] * (one == "halted")) for one in CALLS]
)
def test_a_functional_model_of_a_layer_is_loaded_with_equal_outputs(name: str, tmp_path) -> None:
    x = keras.Input([None, 16])
    model = keras.Model(x, CALLS[name](x))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    before, after = (keras.tree.flatten(which(BATCH)) for which in (model, loaded))
    assert any(np.std(output) > 0 for output in before)
    for output, loaded_output in zip(before, after, strict=True):
        np.testing.assert_array_equal(output, loaded_output)


def test_a_recurrence_without_arguments_sees_every_position_and_with_a_mask_its_symbols() -> None:
    layer = layers.Recurrence(
        block(), layers.BasicCell(), layers.FixedDepth(2), layers.Coordinates(16, 2)
    )
    states, _ = layer(BATCH)
    alone, _ = layer(BATCH[:, :2])
    masked, details = layer(BATCH, symbol_mask=np.array([[1, 1, 0]] * 2, np.float32))
    np.testing.assert_allclose(masked[:, :2], alone, atol=1e-5)
    assert np.abs(states[:, :2] - alone).max() > 1e-3
    np.testing.assert_array_equal(details.ponder_times, [[2, 2, 0]] * 2)


def test_plain_arguments_configure_the_encoder_and_are_in_its_configuration() -> None:
    config = ut_tf.UniversalTransformerConfig(hidden_size=64, num_heads=2)
    layer = layers.UniversalTransformerEncoder(config, hidden_size=16, num_steps=3, name="deep")
    assert (layer.network.hidden_size, layer.network.num_heads, layer.network.num_steps) == (
        16,
        2,
        3,
    )
    copy = layers.UniversalTransformerEncoder.from_config(layer.get_config())
    assert copy.network == layer.network
    assert copy.name == "deep"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hiden_size": 16}, "`hiden_size` is neither.*did you mean hidden_size"),
        ({"hidden_size": 0}, "hidden_size=0: expected"),
        ({"halting": "bsic"}, "bsic.*basic"),
    ],
)
def test_mistyped_arguments_of_the_encoder_are_answered(options: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        layers.UniversalTransformerEncoder(**options)


def of_steps(halting: Any) -> Any:
    return layers.Recurrence(block(), layers.BasicCell(), halting, layers.Coordinates(16, 5))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: of_steps(layers.FixedDepth(0)), "FixedDepth takes 0 steps: expected a whole"),
        (lambda: of_steps(layers.FixedDepth(2.5)), "FixedDepth takes 2.5 steps"),
        (
            lambda: of_steps(layers.HaltingUnit(act_max_steps=-1)),
            "takes -1 steps: expected a whole",
        ),
        (lambda: layers.HaltingUnit(act_epsilon=2.0), "act_epsilon=2.0: expected a number between"),
        (lambda: Config(num_steps="2"), "num_steps=2: expected a whole number, not a text"),
        (lambda: Config(hiden_size=3), "Config has no argument 'hiden_size'; did you mean hidden_"),
        (lambda: layers.MultiHeadAttention(2, 3), "hidden_size=2 is less than num_heads=3"),
        (
            lambda: layers.Block(None, norm="Pre"),
            "norm='Pre': expected one of post, pre.* mean pre",
        ),
    ],
)
def test_values_that_compute_nothing_are_refused(make: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()


def test_what_the_package_does_not_offer_is_answered_with_what_it_does() -> None:
    with pytest.raises(AttributeError, match="HaltingUnit"):
        layers.Haltingunit  # noqa: B018
    for name in layers.__all__:
        assert getattr(layers, name) is not None


SMALL = {
    "hidden_size": 16,
    "filter_size": 32,
    "num_heads": 2,
    "num_steps": 2,
    "dropout": 0.0,
    "relu_dropout": 0.0,
    "attention_dropout": 0.0,
}


RESTARTED: Any = {"initial_state": "noise", "input_injection": "add", "eval_restarts": 4}


def states(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def test_what_belongs_to_a_whole_model_and_another_width_are_refused() -> None:
    with pytest.raises(UserError, match="steps_per_position"):
        ut_tf.layers.UniversalTransformerEncoder(Config(**SMALL, steps_per_position=0.5))
    with pytest.raises(UserError, match=r"embedded inputs .* not \(2, 3\): put a keras.*Embedding"):
        ut_tf.layers.UniversalTransformerEncoder(Config(**SMALL))(np.ones([2, 3], np.int32))
    with pytest.raises(UserError, match=r"8 wide.*hidden_size=16"):
        ut_tf.layers.UniversalTransformerEncoder(Config(**SMALL))(states(1, 3, 8))
    with pytest.raises(
        UserError, match=r"prediction_feedback=True belongs to a whole model.*False"
    ):
        ut_tf.layers.UniversalTransformerEncoder(Config(**SMALL, prediction_feedback=True))
    with pytest.raises(UserError, match=r"eval_restarts=4 belongs .* set it to 1"):
        ut_tf.layers.UniversalTransformerEncoder(Config(**SMALL, **RESTARTED))
    with pytest.raises(UserError, match="'bfloat16' is not supported"):
        ut_tf.layers.UniversalTransformerEncoder(**SMALL, dtype="bfloat16")
    for mask in (np.ones([2, 4], bool), np.ones([2], bool), np.ones([1, 3], bool)):
        with pytest.raises(UserError, match=r"the mask has the shape .* give a mask"):
            ut_tf.layers.UniversalTransformerEncoder(**SMALL)(states(2, 3, 16), mask=mask)


def test_a_configuration_of_your_own_may_take_arguments_of_its_own() -> None:
    class Preset(Config):
        def __init__(self, preset: dict[str, Any], **fields: Any) -> None:
            super().__init__(**preset, **fields)

    assert Preset(preset={"num_steps": 3}, hidden_size=16).num_steps == 3
