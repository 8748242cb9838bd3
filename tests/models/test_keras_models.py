"""The models as Keras models: loaded in a fresh process, exported without a signature."""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import subprocess
import sys
import types
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf

import ut_tf
from ut_tf import keras_classes
from ut_tf.data import unpacking
from ut_tf.errors import UserError
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_signature_of_the_users_own_is_kept(tmp_path: Path) -> None:
    model = ut_tf.Transformer(TransformerConfig(**SMALL, num_layers=1), LANGUAGE)
    signature = [{"targets": tf.TensorSpec([None, 4], tf.int64, "targets")}]
    model.export(tmp_path, input_signature=signature, verbose=False)
    _, arguments = (
        tf.saved_model.load(tmp_path).signatures["serving_default"].structured_input_signature
    )
    assert arguments["targets"].shape == [None, 4]
    assert arguments["targets"].dtype == tf.int64


SMALL_FILE = {"hidden_size": 8, "filter_size": 8, "num_heads": 1, "num_steps": 1}
MOST_KILOBYTES = 1_000_000


@pytest.fixture(scope="module")
def compiled_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec = ProblemSpec("tokens", "tokens", 12, 12, shared_vocab=True)
    model = ut_tf.UniversalTransformer(UniversalTransformerConfig(**SMALL_FILE), spec)
    path = tmp_path_factory.mktemp("saved") / "model.keras"
    model.save(path)
    return path


def changed(compiled_file: Path, path: Path, **changes: Callable[[bytes], bytes]) -> Path:
    """A copy with some members changed, named by what comes before their dot."""
    with zipfile.ZipFile(compiled_file) as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            change = changes.get(name.partition(".")[0], bytes)
            target.writestr(name, change(source.read(name)))
    return path


@pytest.mark.slow
def test_a_compiled_model_that_was_not_trained_is_loaded(tmp_path: Path) -> None:
    spec = ProblemSpec("tokens", "tokens", 12, 12, shared_vocab=True)
    wide = {**SMALL_FILE, "hidden_size": 256}
    model = ut_tf.UniversalTransformer(UniversalTransformerConfig(**wide), spec)
    model.compile(keras.optimizers.Adam(amsgrad=True, use_ema=True), "mse")
    model.save(tmp_path / "model.keras")
    loaded = ut_tf.load_keras_model(tmp_path / "model.keras")
    assert loaded.count_params() == model.count_params()
    assert len(loaded.optimizer.variables) > 4 * len(loaded.trainable_variables)


def test_a_lambda_is_not_executed(tmp_path: Path) -> None:
    trace = str(tmp_path / "executed")
    layer = keras.layers.Lambda(lambda x: (open(trace, "w").close(), x)[1])
    inputs = keras.Input([2])
    model = keras.Model(inputs, layer(inputs))
    Path(trace).unlink()
    for name in ("lambda.keras", "lambda.h5"):
        model.save(tmp_path / name)
        with pytest.raises((ValueError, TypeError), match=r"[Ll]ambda|unsafe"):
            ut_tf.load_keras_model(tmp_path / name)
    assert not Path(trace).exists()


@pytest.mark.parametrize(
    "part",
    [
        {"module": "os", "class_name": "function", "config": "system", "registered_name": "system"},
        {"module": "os", "class_name": "system", "config": {}, "registered_name": "system"},
        {"module": "keras", "class_name": "Sequential", "config": {"layers": "x"}},
    ],
    ids=["function", "class", "nonsense"],
)
def test_a_configuration_names_no_code_of_elsewhere(
    compiled_file: Path, tmp_path: Path, part: dict[str, Any]
) -> None:
    path = changed(
        compiled_file, tmp_path / "model.keras", config=lambda _: json.dumps(part).encode()
    )
    with pytest.raises((TypeError, ValueError, AttributeError, KeyError)):
        ut_tf.load_keras_model(path)


def _wide(config: bytes) -> bytes:
    return config.replace(b'"hidden_size": 8', b'"hidden_size": 1073741824')


def _many(config: bytes) -> bytes:
    return config.replace(b'vocab_size": 12', b'vocab_size": 1099511627776')


def _deep(config: bytes) -> bytes:
    return config.replace(b'"num_steps": 1,', b'"num_steps": 1000000000000,')


@pytest.mark.parametrize("change", [_wide, _many, _deep])
def test_a_configuration_alone_fills_no_memory(
    compiled_file: Path, tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    path = changed(compiled_file, tmp_path / "model.keras", config=change)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UserError, match="more than the"):
        ut_tf.load_keras_model(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_KILOBYTES


def test_an_array_without_content_fills_no_memory(compiled_file: Path, tmp_path: Path) -> None:
    def hollow(content: bytes) -> bytes:
        buffer = io.BytesIO(content)
        with h5py.File(buffer, "r+") as file:
            names: list[str] = []
            file.visititems(
                lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None
            )
            for name in names:
                del file[name]
                file.create_dataset(name, shape=(2**38,), dtype="float32", chunks=(1024,))
        return buffer.getvalue()

    path = changed(compiled_file, tmp_path / "model.keras", model=hollow)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises((ValueError, MemoryError, UserError)):
        ut_tf.load_keras_model(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_KILOBYTES


def test_members_lead_nowhere_else_and_no_bomb_is_unpacked(
    compiled_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = changed(compiled_file, tmp_path / "model.keras")
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../outside", "x")
        archive.writestr("/tmp/ut_tf_outside.keras", "x")
    ut_tf.load_keras_model(path)
    assert not (tmp_path.parent / "outside").exists()
    assert not Path("/tmp/ut_tf_outside.keras").exists()
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb", bytes(200 * path.stat().st_size))
    monkeypatch.setattr(unpacking, "_LEAST", 0)
    with pytest.raises(UserError, match="unpacks to more than"):
        ut_tf.load_keras_model(path)


@pytest.mark.parametrize("value", [b"[],", b"{},", b"0,", b'"",'])
def test_a_configuration_of_many_megabytes_is_not_parsed(
    compiled_file: Path, tmp_path: Path, value: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Any:
        raise AssertionError("parsed")

    content = b'{"a": [' + value * (17_000_000 // len(value)) + b"0]}"
    path = changed(compiled_file, tmp_path / "model.keras", config=lambda _: content)
    monkeypatch.setattr(keras_classes, "json", types.SimpleNamespace(loads=refuse))
    with pytest.raises(UserError, match=r"config\.json has 1[67],.* at most 16,000,000"):
        keras_classes.load_keras_model(path)


def test_a_configuration_that_cannot_be_walked_leaves_the_bound(
    compiled_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = changed(compiled_file, tmp_path / "model.keras", config=lambda _: b"[" * 100_000)
    bounds = []

    def bounded(most: int | None) -> Any:
        bounds.append(most)
        return contextlib.nullcontext()

    monkeypatch.setattr(keras_classes, "bounded_variables", bounded)
    with pytest.raises((ValueError, RecursionError)):
        ut_tf.load_keras_model(path)
    assert bounds and bounds[0] is not None


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_pipes_and_devices_are_not_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "model.keras"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(UserError, match=r"model\.keras cannot be read .*no regular file"):
        ut_tf.load_keras_model(path)
