"""The models as Keras models: loaded in a fresh process, exported without a signature."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import ut_tf
from ut_tf import registry
from ut_tf.config.families import config_class
from ut_tf.models.transformer.config import TransformerConfig
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
from ut_tf.models.universal_transformer.parts import make_recurrence
from ut_tf.problem_spec import ProblemSpec

SMALL = {
    "hidden_size": 8,
    "filter_size": 8,
    "num_heads": 1,
    "dropout": 0.0,
    "relu_dropout": 0.0,
    "attention_dropout": 0.0,
}
TRANSFORMER = {**SMALL, "num_steps": 1}
SEQUENCES = ProblemSpec("tokens", "tokens", 12, 12, shared_vocab=True)
LANGUAGE = ProblemSpec("none", "tokens", 0, 12)
QUESTIONS = ProblemSpec("facts", "class", 12, 3, max_words=4)
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
PROGRAM = """
import json
import keras
import numpy as np
import ut_tf
keras.saving.deserialize_keras_object(json.loads({part!r}))
ids = np.arange(2, 10, dtype=np.int32)[None]
logits = []
for load in (keras.models.load_model, ut_tf.load_keras_model):
    model = load({path!r})
    assert model.optimizer is not None
    logits.append(model({{"inputs": ids, "targets": ids}}))
np.save({answer!r}, logits)
"""


def ids(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(2, 12, shape).astype(np.int32)


def test_dropout_of_0_means_none() -> None:
    config = UniversalTransformerConfig(hidden_size=8, num_heads=1, filter_size=8, dropout=0.0)
    model = ut_tf.UniversalTransformer(config, SEQUENCES)
    features = {"inputs": ids(2, 5), "targets": ids(2, 4)}
    np.testing.assert_array_equal(model(features, training=True), model(features, training=False))
    layer = ut_tf.layers.UniversalTransformerEncoder(hidden_size=8, num_heads=1, dropout=0.0)
    states = np.random.default_rng(0).normal(size=(2, 5, 8)).astype(np.float32)
    np.testing.assert_array_equal(layer(states, training=True), layer(states, training=False))


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[keras.Model, Path, np.ndarray]:
    """Returns a fitted model, the path of its file, and its logits."""
    model = ut_tf.UniversalTransformer(UniversalTransformerConfig(**TRANSFORMER), SEQUENCES)
    # One update is sooner computed than its graph is made.
    model.compile(
        "adam", LOSS, run_eagerly=True, metrics=[ut_tf.metrics.TokenAccuracy(ignore_class=0)]
    )
    features = {"inputs": ids(8, 5), "targets": ids(8, 5)}
    model.fit(features, features["targets"], verbose=0)
    path = tmp_path_factory.mktemp("saved") / "model.keras"
    model.save(path)
    symbols = np.arange(2, 10, dtype=np.int32)[None]
    return model, path, model({"inputs": symbols, "targets": symbols}).numpy()


@pytest.mark.slow
def test_saved_models_and_parts_are_loaded_in_a_fresh_process(saved: Any, tmp_path: Path) -> None:
    _, path, logits = saved
    answer = tmp_path / "logits.npy"
    recurrence = make_recurrence(UniversalTransformerConfig(**TRANSFORMER, halting="random"))
    part = json.dumps(keras.saving.serialize_keras_object(recurrence))
    program = PROGRAM.format(path=str(path), answer=str(answer), part=part)
    finished = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(ut_tf.__file__).parent.parent,
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr
    for loaded_logits in np.load(answer):
        np.testing.assert_allclose(loaded_logits, logits, atol=1e-6)


def test_import_ut_tf_alone_imports_neither_keras_nor_tensorflow() -> None:
    program = (
        "import sys, ut_tf, ut_tf.layers, ut_tf.metrics; assert not {'keras', 'tensorflow'} &"
        " sys.modules.keys()"
    )
    subprocess.run(
        [sys.executable, "-c", program], cwd=Path(ut_tf.__file__).parent.parent, check=True
    )


@pytest.mark.parametrize(
    ("name", "network", "spec", "features"),
    [
        pytest.param(
            "universal_transformer",
            TRANSFORMER,
            LANGUAGE,
            {"targets": ids(6, 4)},
            marks=pytest.mark.slow,
        ),
        (
            "lstm",
            {"hidden_size": 8, "dropout": 0.0, "num_layers": 1},
            SEQUENCES,
            {"inputs": ids(6, 5), "targets": ids(6, 4)},
        ),
        (
            "memn2n",
            {"hidden_size": 8, "num_steps": 2},
            QUESTIONS,
            {"inputs": ids(6, 5, 4)},
        ),
    ],
)
def test_a_model_is_exported_and_reloaded(
    name: str, network: Any, spec: ProblemSpec, features: Any, tmp_path: Path
) -> None:
    model = registry.models.get(name)(config_class(name)(**network), spec)
    check_export(model, features, tmp_path)


@pytest.mark.slow
def test_a_fitted_model_is_exported_and_reloaded(saved: Any, tmp_path: Path) -> None:
    check_export(saved[0], {"inputs": ids(6, 5), "targets": ids(6, 4)}, tmp_path)


def check_export(model: Any, features: dict[str, np.ndarray], folder: Path) -> None:
    """Exports without a signature, and checks the logits of batches of two sizes and lengths."""
    model.export(folder, verbose=False)
    longer = {key: np.concatenate([value, value[:, 1:]], 1)[:3] for key, value in features.items()}
    loaded = tf.saved_model.load(folder)
    layer = keras.layers.TFSMLayer(folder, call_endpoint="serve")
    for batch in (features, longer):
        expected = model(batch).numpy()
        (named,) = loaded.signatures["serving_default"](
            **{key: tf.constant(value) for key, value in batch.items()}
        ).values()
        for found in (loaded.serve(batch), layer(batch), named):
            np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_signature_of_the_users_own_is_kept(tmp_path: Path) -> None:
    model = ut_tf.Transformer(TransformerConfig(**SMALL, num_layers=1), LANGUAGE)
    signature = [{"targets": tf.TensorSpec([None, 4], tf.int64, "targets")}]
    model.export(tmp_path, input_signature=signature, verbose=False)
    _, arguments = (
        tf.saved_model.load(tmp_path).signatures["serving_default"].structured_input_signature
    )
    assert arguments["targets"].shape == [None, 4]
    assert arguments["targets"].dtype == tf.int64
