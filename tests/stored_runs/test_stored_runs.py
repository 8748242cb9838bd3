"""What version 0.4.0 wrote is still read: runs, Keras files and a SavedModel give what they gave
then, also with a cell, a halting form and a transition that a user wrote for it.

README.md beside this file says how the files were made. Only the public interface is used here.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import ut_tf
from ut_tf import registry

HERE = Path(__file__).parent
RUNS = sorted(path.parent.name for path in HERE.glob("*/expected.json"))
SEQUENCES = [name for name in RUNS if name not in ("ut_facts", "memn2n")]
# The mean of checkpoints cannot be trained on.
TRAINED = [name for name in RUNS if name != "ut_averaged"]
KERAS_FILES = sorted(path.parent.name for path in HERE.glob("*/model.keras"))

DROPOUTS = ("dropout", "attention_dropout", "relu_dropout")

# The others cost more seconds than every run of the tests should take.
SLOW_LOGITS = (
    *("ut_options", "ut_dwa_rotary", "ut_lstm_recurrence", "bytenet", "mem_transformer"),
    *("ut_averaged", "extended_neural_gpu"),
)
QUICK_LOGITS = tuple(name for name in RUNS if name not in SLOW_LOGITS)
QUICK_DECODING = ("ut_halting_reverse",)
QUICK_TRAINING = ("ut_facts",)
QUICK_EVALUATION = ("memn2n",)
QUICK_FILES = ("ut_halting_reverse",)

# One string of the 50 hangs on the last bits: a change of the weights by 1e-6 of themselves decides
# it the other way, and so does a processor with AVX2 alone.
TIES = {"ut_halting_reverse": {"length_6/char_acc": 0.72, "length_6/seq_acc": 0.54}}


def _slow_but(quick: tuple[str, ...], names: list[str]) -> list[Any]:
    return [pytest.param(name, marks=() if name in quick else pytest.mark.slow) for name in names]


def _expected(name: str) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((HERE / name / "expected.json").read_text(encoding="utf-8"))
    return values


def _arrays(name: str) -> dict[str, np.ndarray]:
    with np.load(HERE / name / "expected.npz") as arrays:
        return dict(arrays)


def _features(arrays: dict[str, np.ndarray], *names: str) -> dict[str, Any]:
    prefix = "features_"
    found = {key.removeprefix(prefix): arrays[key] for key in arrays if key.startswith(prefix)}
    return {name: tf.constant(found[name]) for name in names or found}


def _assert_close(actual: Any, expected: np.ndarray) -> None:
    """Bounds the difference relative to the size of what is expected."""
    actual = np.asarray(actual)
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def _assert_same_symbols(actual: Any, expected: np.ndarray) -> None:
    """Compares symbols; how much padding stands behind them is no part of the output."""
    actual = np.asarray(actual)
    length = max(actual.shape[-1], expected.shape[-1])
    padded = [np.pad(x, [(0, 0), (0, 0), (0, length - x.shape[-1])]) for x in (actual, expected)]
    np.testing.assert_array_equal(*padded)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Data is prepared once for all tests: it is generated, or read from the text beside a run."""
    root = tmp_path_factory.mktemp("stored_runs")
    return {"data_dir": root / "data", "tmp_dir": root / "downloads"}


@pytest.fixture
def load(
    tmp_path: Path, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """Copies a stored run, so that nothing is written beside the tests, and loads the copy; what
    its code registers is forgotten afterwards.
    """
    for known in vars(registry).values():
        if isinstance(known, registry.Registry):
            monkeypatch.setattr(known, "_registered", dict(known._registered))

    def call(name: str) -> ut_tf.Run:
        folder = tmp_path / name
        shutil.copytree(HERE / name / "run", folder)
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        for key, files in config["problem_args"].items():
            # 0.4.0 writes absolute paths; those of the machine that trained the run were cut.
            if key.endswith("_files"):
                config["problem_args"][key] = [str(HERE / name / file) for file in files]
        (folder / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
        # A run names its code, and imports it only from where it is told to.
        parts = HERE / name / "user_parts"
        return ut_tf.Run.load(folder, usr_dir=parts if parts.is_dir() else None, **folders)

    yield call
    sys.modules.pop("user_parts", None)


@pytest.mark.parametrize("name", _slow_but(QUICK_LOGITS, RUNS))
@pytest.mark.usefixtures("eager")
def test_the_model_gives_the_same_logits_and_ponders_as_long(name: str, load: Any) -> None:
    arrays = _arrays(name)
    model = ut_tf.load_model(load(name))
    ponders = {key for key in arrays if key.endswith("_ponder_times")}
    if not ponders:
        _assert_close(model(_features(arrays), training=False), arrays["logits"])
        return
    logits, details = model(_features(arrays), training=False, return_details=True)
    _assert_close(logits, arrays["logits"])
    for key in ponders:
        stack = getattr(details, key.removesuffix("_ponder_times"))
        _assert_close(stack.ponder_times, arrays[key])
    if "ponder_cost" in arrays:
        _assert_close(sum(model.losses), arrays["ponder_cost"])


@pytest.mark.parametrize("name", RUNS)
def test_dropout_stays_what_was_stored(name: str, load: Any) -> None:
    stored = json.loads((HERE / name / "run" / "config.json").read_text(encoding="utf-8"))
    network = load(name).hparams.network
    rates = {key: getattr(network, key) for key in DROPOUTS if hasattr(network, key)}
    assert rates == {key: stored["hparams"]["network"][key] for key in rates}


@pytest.mark.parametrize("name", _slow_but(QUICK_DECODING, SEQUENCES))
def test_the_model_writes_the_same_outputs(name: str, load: Any) -> None:
    arrays = _arrays(name)
    model = ut_tf.load_model(load(name))
    inputs = _features(arrays, "inputs")
    for label, beam_size in (("greedy", 1), ("beam", 4)):
        decoded = model.generate(inputs, beam_size=beam_size, extra_length=4)
        _assert_same_symbols(decoded.symbols, arrays[f"{label}_symbols"])
        _assert_close(decoded.scores, arrays[f"{label}_scores"])


@pytest.mark.parametrize("name", _slow_but(QUICK_EVALUATION, RUNS))
def test_evaluation_gives_the_same_metrics(name: str, load: Any) -> None:
    expected = _expected(name)["evaluation"]
    metrics = ut_tf.evaluate(load(name).prepare(), lengths=expected["lengths"])
    known = (expected["metrics"], TIES.get(name, expected["metrics"]))
    assert any(metrics == pytest.approx(one, rel=1e-5) for one in known)


@pytest.mark.parametrize("name", _slow_but(QUICK_TRAINING, TRAINED))
@pytest.mark.usefixtures("eager")
def test_training_goes_on_with_the_same_losses(name: str, load: Any) -> None:
    expected = _expected(name)["continued"]
    run = load(name).prepare()
    result = ut_tf.train(run, train_steps=expected["train_steps"], log_frequency=1)
    assert (result.step, result.stopped_by) == (expected["train_steps"], "train_steps")
    text = (run.output_dir / "metrics.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    losses = {line["step"]: line["loss"] for line in lines if line["kind"] == "train"}
    continued = [losses[step] for step in range(expected["from_step"] + 1, result.step + 1)]
    assert continued == pytest.approx(expected["losses"], rel=1e-5)
    validation = [line for line in lines if line["kind"] == "eval" and line["step"] == result.step]
    assert validation[-1]["loss"] == pytest.approx(expected["validation_loss"], rel=1e-5)


@pytest.mark.parametrize("name", _slow_but(QUICK_FILES, KERAS_FILES))
def test_keras_files_are_loaded_by_keras(name: str, load: Any) -> None:
    arrays = _arrays(name)
    # Registers the classes of the model with Keras.
    load(name).make_model()
    model = keras.models.load_model(HERE / name / "model.keras")
    _assert_close(model(_features(arrays), training=False), arrays["logits"])


def test_a_saved_model_is_served_as_before() -> None:
    expected = _expected("ut_halting_reverse")["export"]
    served = tf.saved_model.load(str(HERE / "ut_halting_reverse" / "export" / "1"))
    found = served.signatures["serving_default"](inputs=tf.constant(expected["inputs"]))
    assert found["outputs"].numpy().astype(str).tolist() == expected["outputs"]
    _assert_close(found["scores"], np.array(expected["scores"]))


@pytest.mark.usefixtures("eager")
def test_a_saved_model_ponders_and_answers_as_before() -> None:
    arrays = _arrays("sudoku4")
    model = ut_tf.load(str(HERE / "sudoku4" / "model")).model
    logits, details = model(_features(arrays), training=False, return_details=True)
    _assert_close(logits, arrays["logits"])
    _assert_close(details.encoder.ponder_times, arrays["encoder_ponder_times"])


@pytest.mark.slow
def test_a_stored_run_translates_text_with_its_own_vocabulary(load: Any) -> None:
    expected = _expected("transformer_subwords")["translations"]
    # Neither prepared data nor the text files are needed for this.
    translator = ut_tf.Translator.from_run(load("transformer_subwords"))
    found = [best for best, *_ in translator.translate([(one["source"],) for one in expected])]
    assert [one.text for one in found] == [one["text"] for one in expected]
    _assert_close([one.score for one in found], np.array([one["score"] for one in expected]))
