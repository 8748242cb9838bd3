"""The encoder, the recurrence and the block as layers of a Functional model."""

from __future__ import annotations

import keras
import numpy as np
import pytest

import ut_tf
from ut_tf.errors import UserError
from ut_tf.layers.block import BlockContext
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig as Config
from ut_tf.models.universal_transformer.parts import make_recurrence

SMALL = {
    "hidden_size": 16,
    "filter_size": 32,
    "num_heads": 2,
    "num_steps": 2,
    "dropout": 0.0,
    "relu_dropout": 0.0,
    "attention_dropout": 0.0,
}


def states(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def test_a_model_with_the_same_weights_has_the_same_states() -> None:
    network = Config(**SMALL, halting="basic", mix_layers_before=1)
    layer = ut_tf.layers.UniversalTransformerEncoder(network, return_ponder_times=True)
    spec = ut_tf.ProblemSpec("tokens", "class", 12, 2)
    model = ut_tf.UniversalTransformer(network, spec)
    inputs = np.array([[3, 4, 5, 0], [6, 7, 8, 9]], np.int32)
    embedded, mask = model.input_embedding(inputs), inputs != 0
    layer(embedded, mask=mask)
    layer.stack.set_weights(model.encoder.get_weights())
    encoded, times = layer(embedded, mask=mask)
    logits, details = model({"inputs": inputs}, return_details=True)
    np.testing.assert_array_equal(times, details.encoder.ponder_times)
    last = np.stack([encoded[0, 2], encoded[1, 3]])
    np.testing.assert_allclose(model.classifier(last), logits, atol=1e-5)


def test_what_belongs_to_a_whole_model_and_another_width_are_refused() -> None:
    with pytest.raises(UserError, match="steps_per_position"):
        ut_tf.layers.UniversalTransformerEncoder(Config(**SMALL, steps_per_position=0.5))
    with pytest.raises(UserError, match=r"embedded inputs .* not \(2, 3\): put a keras.*Embedding"):
        ut_tf.layers.UniversalTransformerEncoder(Config(**SMALL))(np.ones([2, 3], np.int32))
    with pytest.raises(UserError, match=r"8 wide.*hidden_size=16"):
        ut_tf.layers.UniversalTransformerEncoder(Config(**SMALL))(states(1, 3, 8))


@pytest.mark.parametrize("halting", ["none", "basic"])
def test_a_recurrence_in_a_functional_model_computes_what_it_computes_outside(
    halting: str, tmp_path
) -> None:
    layer = make_recurrence(Config(**SMALL, halting=halting))
    x, mask, signal = keras.Input([None, 16]), keras.Input([None]), keras.Input([None, 16])
    bias = keras.Input([1, 1, None])
    outputs, details = layer(
        x,
        symbol_mask=mask,
        position_signal=signal,
        context=BlockContext(bias=bias),
        return_attention=True,
    )
    assert (details.halting_probabilities is None) == (halting == "none")
    assert details.log_shares is None
    model = keras.Model(
        [x, mask, signal, bias], [outputs, details.ponder_times, details.attention_weights]
    )
    path = tmp_path / "model.keras"
    model.save(path)
    batch = [
        states(2, 3, 16),
        np.ones([2, 3], np.float32),
        0.5 * states(2, 3, 16),
        np.zeros([2, 1, 1, 3], np.float32),
    ]
    expected, shown = layer(*batch[:3], context=BlockContext(bias=batch[3]), return_attention=True)
    for found in (model(batch), keras.models.load_model(path)(batch)):
        np.testing.assert_allclose(found[0], expected, atol=1e-5)
        np.testing.assert_array_equal(found[1], shown.ponder_times)
        np.testing.assert_allclose(found[2], shown.attention_weights, atol=1e-5)
