"""What Keras offers around a model, with a layer of ours inside a Functional one: callbacks,
datasets, metrics.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import ut_tf
from ut_tf.errors import UserError

LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
INPUTS = np.random.default_rng(0).integers(1, 12, [64, 6])
INPUTS[:, 4:] = 0
LABELS = (INPUTS == 7).any(1).astype(np.int32)
SMALL = {
    "hidden_size": 16,
    "num_heads": 2,
    "filter_size": 16,
    "halting": "basic",
    "act_max_steps": 3,
    "dropout": 0.0,
    "relu_dropout": 0.0,
    "attention_dropout": 0.0,
}


def make_model(**options: Any) -> keras.Model:
    ids = keras.Input([None], dtype="int32")
    embedded = keras.layers.Embedding(12, 16, mask_zero=True)(ids)
    encoder = ut_tf.layers.UniversalTransformerEncoder(**{**SMALL, **options}, name="encoder")
    summary = keras.layers.GlobalAveragePooling1D()(encoder(embedded))
    return keras.Model(ids, keras.layers.Dense(2, dtype="float32")(summary))


def compiled(model: keras.Model, **options: Any) -> keras.Model:
    model.compile(keras.optimizers.Adam(0.01), LOSS, **{"jit_compile": False, **options})
    return model


def mean_ponder_time(model: keras.Model) -> float:
    """The metric as numpy computes it from the layer's own output."""
    embedding, encoder = model.layers[1], model.get_layer("encoder")
    encoder.return_ponder_times = True
    _, times = encoder(embedding(INPUTS), mask=INPUTS != 0)
    encoder.return_ponder_times = False
    return float(np.sum(times) / (INPUTS != 0).sum())


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[keras.Model, Any, Any]:
    """A model fitted with callbacks to batches of two lengths, its history, and the folder that
    they wrote to.
    """
    folder = tmp_path_factory.mktemp("fitted")
    batches = [(INPUTS[rows, :4], LABELS[rows]) for rows in (slice(16), slice(16, 32))]
    batches.append((INPUTS[32:52], LABELS[32:52]))
    shapes = (tf.TensorSpec([None, None], tf.int64), tf.TensorSpec([None], tf.int32))
    dataset = tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=shapes)
    callbacks = [
        keras.callbacks.EarlyStopping(monitor="val_loss", patience=1, min_delta=100.0),
        keras.callbacks.ModelCheckpoint(folder / "best.keras", save_best_only=True),
        keras.callbacks.BackupAndRestore(folder / "backup", delete_checkpoint=False),
        keras.callbacks.TensorBoard(folder / "logs", histogram_freq=1),
    ]
    # Some updates are sooner computed than their graph is made.
    model = compiled(make_model(), run_eagerly=True)
    history = model.fit(
        dataset, epochs=2, validation_data=(INPUTS, LABELS), callbacks=callbacks, verbose=0
    )
    return model, history, folder


@pytest.mark.slow
def test_early_stopping_ends_fit_and_the_ponder_time_is_in_the_history(fitted: Any) -> None:
    model, history, _ = fitted
    assert len(history.epoch) == 2
    assert len(model.losses) == 1
    assert 1.0 <= history.history["encoder_ponder_time"][0] <= 3.0
    expected = mean_ponder_time(model)
    assert history.history["val_encoder_ponder_time"][-1] == pytest.approx(expected, abs=1e-4)


@pytest.mark.slow
def test_the_checkpoint_is_the_best_model_and_loads(fitted: Any) -> None:
    model, history, folder = fitted
    loaded = keras.models.load_model(folder / "best.keras")
    loaded.run_eagerly = True  # One batch is sooner computed than its graph is made.
    loss = loaded.evaluate(INPUTS, LABELS, batch_size=64, verbose=0, return_dict=True)["loss"]
    assert loss == pytest.approx(min(history.history["val_loss"]), abs=1e-4)
    assert not any("ponder" in weight.path for weight in model.weights)


def test_a_whole_model_shows_its_ponder_time() -> None:
    spec = ut_tf.ProblemSpec("tokens", "class", 12, 2)
    model = compiled(
        ut_tf.UniversalTransformer(ut_tf.UniversalTransformerConfig(**SMALL), spec),
        run_eagerly=True,
    )
    evaluated = model.evaluate({"inputs": INPUTS}, LABELS, verbose=0, return_dict=True)
    logits, details = model(INPUTS, return_details=True)
    np.testing.assert_array_equal(logits, model({"inputs": INPUTS}))
    expected = np.sum(details.encoder.ponder_times) / (INPUTS != 0).sum()
    assert evaluated["ponder_time"] == pytest.approx(float(expected))


def test_a_feature_that_is_missing_is_named() -> None:
    spec = ut_tf.ProblemSpec("tokens", "tokens", 12, 12, shared_vocab=True)
    model = ut_tf.UniversalTransformer(ut_tf.UniversalTransformerConfig(**SMALL), spec)
    with pytest.raises(UserError, match="lacks the feature 'targets'"):
        model({"inputs": INPUTS})
    with pytest.raises(
        UserError, match=r"one target for each input, .* has {'inputs': 64, 'targets': 1}"
    ):
        model({"inputs": INPUTS, "targets": INPUTS[:1]})
    with pytest.raises(UserError, match="the inputs are a NoneType, which cannot become"):
        model({"inputs": None, "targets": INPUTS})
    for seed in (1.5, "a"):
        with pytest.raises(UserError, match=r"seed=.*: expected a whole number"):
            model.generate(INPUTS[:1], seed=seed, sampling=True)
    with pytest.raises(UserError, match="'float16' is not supported"):
        ut_tf.UniversalTransformer(ut_tf.UniversalTransformerConfig(**SMALL), spec, dtype="float16")
    for changes in ((12, 13, True), (1, 12, False), (12, 0, False)):
        first, second, shared = changes
        with pytest.raises(UserError, match=r"ProblemSpec: .*(equal vocabulary sizes|from 2)"):
            ut_tf.ProblemSpec("tokens", "tokens", first, second, shared_vocab=shared)
