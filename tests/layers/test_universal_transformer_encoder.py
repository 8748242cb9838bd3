"""The encoder, the recurrence and the block as layers of a Functional model."""

from __future__ import annotations

import keras
import numpy as np
import pytest

import ut_tf
from ut_tf.errors import UserError
from ut_tf.layers.block import BlockContext
from ut_tf.models.parts_from_config import make_block
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


@pytest.mark.slow
def test_a_functional_classifier_learns_and_is_loaded_with_equal_outputs(tmp_path) -> None:
    keras.utils.set_random_seed(0)
    # Where halted positions are computed, too, the graph is smaller.
    network = Config(**SMALL, halting="basic", position="none", halting_compute="dense")
    ids = keras.Input([None], dtype="int32")
    embedded = keras.layers.Embedding(12, 16, mask_zero=True)(ids)
    encoded, times = ut_tf.layers.UniversalTransformerEncoder(network, return_ponder_times=True)(
        embedded
    )
    logits = keras.layers.Dense(2)(keras.layers.GlobalAveragePooling1D()(encoded))
    model = keras.Model(ids, logits)
    inputs = np.random.default_rng(0).integers(2, 12, [256, 6]).astype(np.int32)
    labels = (inputs == 7).any(1).astype(np.int32)
    inputs[::2, 5] = np.where(inputs[::2, 5] == 7, 7, 0)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"], jit_compile=False)
    history = model.fit(inputs, labels, epochs=6, batch_size=64, verbose=0).history
    assert history["accuracy"][-1] > 0.95
    assert len(model.losses) == 1
    path = tmp_path / "model.keras"
    whole = keras.Model(ids, [logits, times])
    whole.save(path)
    loaded = keras.models.load_model(path)
    outputs = loaded(inputs)
    for before, after in zip(whole(inputs), outputs, strict=True):
        np.testing.assert_array_equal(before, after)
    np.testing.assert_array_equal(outputs[1] > 0, inputs != 0)


@pytest.mark.parametrize("position", ["paper", "learned", "rotary"])
@pytest.mark.parametrize("position_from", ["start", "end"])
def test_padding_changes_no_other_state(position: str, position_from: str) -> None:
    layer = ut_tf.layers.UniversalTransformerEncoder(
        Config(**SMALL, position=position, position_from=position_from)
    )
    inputs = states(2, 5, 16)
    padded = np.concatenate([inputs, states(2, 2, 16)], 1)
    mask = np.arange(7)[None] < 5
    alone, among = layer(inputs), layer(padded, mask=np.tile(mask, [2, 1]))
    np.testing.assert_allclose(among[:, :5], alone, atol=1e-5)
    turned = layer(inputs[:, ::-1])
    assert np.abs(np.asarray(turned)[:, ::-1] - alone).max() > 1e-2, "positions make no difference"


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


def test_a_block_in_a_functional_model_is_fitted() -> None:
    keras.utils.set_random_seed(0)
    x = keras.Input([4, 16])
    output, weights, memory_weights = make_block(Config(**SMALL))(x, context=BlockContext())
    assert weights.shape == (None, 2, 4, 4)
    assert memory_weights is None
    model = keras.Model(x, output)
    model.compile(keras.optimizers.Adam(0.01), "mse", jit_compile=False)
    inputs = states(64, 4, 16)
    losses = model.fit(inputs, np.roll(inputs, 1, 1), epochs=5, verbose=0).history["loss"]
    assert losses[-1] < 0.9 * losses[0]
