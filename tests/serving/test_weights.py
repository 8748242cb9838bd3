"""Stored weights: how far each form is from the weights, and that the model itself is
left alone.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from starlette.exceptions import HTTPException

from tests.bin.tiny_runs import translation_run
from tests.eager import eager_functions
from tests.serving import toy
from ut_tf.errors import UserError
from ut_tf.inference.translator import Translator
from ut_tf.search.config import DecodeConfig
from ut_tf.search.strategies import decode
from ut_tf.serving import served_model
from ut_tf.serving.litert import MODEL_FILE, SUMMARY_FILE, _why, export_litert
from ut_tf.serving.served_model import ServedModel
from ut_tf.serving.weights import StoredWeights
from ut_tf.symbols import END_ID


class Net(keras.Model):
    """An embedding table (its rows are channels), a kernel (its columns are), a bias and a
    dropout's random generator.
    """

    def __init__(self) -> None:
        super().__init__()
        self.table = self.add_weight(shape=(50, 32), initializer=_uneven(0), name="table")
        self.kernel = self.add_weight(shape=(32, 40), initializer=_uneven(1), name="kernel")
        self.bias = self.add_weight(shape=(40,), initializer="random_normal", name="bias")
        self.dropout = keras.layers.Dropout(0.5, seed=3)
        self.built = True

    def call(self, ids, training=False):
        return (
            self.dropout(tf.gather(tf.convert_to_tensor(self.table), ids), training=training)
            @ self.kernel
            + self.bias
        )


def _uneven(axis):
    """Returns an initializer whose channels along `axis` differ a thousandfold in size; the third
    one is zero.
    """

    def draw(shape, dtype):
        sizes = np.geomspace(1e-3, 1.0, shape[axis]).astype(np.float32)
        sizes[2] = 0.0
        values = np.random.default_rng(axis).normal(size=shape) * sizes.reshape(
            [-1 if i == axis else 1 for i in range(2)]
        )
        return tf.constant(values, dtype)

    return draw


def _read(model, form):
    with StoredWeights(model, form).scope(model):
        return {variable.name: tf.convert_to_tensor(variable).numpy() for variable in model.weights}


def test_float32_is_the_same_to_the_bit():
    model = Net()
    for name, value in _read(model, "float32").items():
        np.testing.assert_array_equal(value, getattr(model, name))


@pytest.mark.parametrize(("form", "bound"), [("bfloat16", 2**-8), ("int8", 0.5 / 127)])
def test_matrices_are_off_by_a_known_share_of_their_channel(form, bound):
    model = Net()
    read = _read(model, form)
    for name, within in (("table", 1), ("kernel", 0)):
        exact = getattr(model, name).numpy()
        largest = np.abs(exact).max(axis=within, keepdims=True)
        assert (np.abs(read[name] - exact) <= bound * largest * 1.001).all()
        assert (read[name] != exact).any()
    np.testing.assert_array_equal(read["bias"], model.bias)


def test_weights_that_change_later_are_not_seen_and_none_is_changed():
    model = Net()
    stored = StoredWeights(model)
    ids = tf.constant([[1, 2]])
    before, states = model(ids).numpy(), [variable.numpy() for variable in model.variables]
    with stored.scope(model):
        model(ids, training=True)
    for variable, state in zip(model.variables, states, strict=True):
        np.testing.assert_array_equal(variable, state)
    model.kernel.assign(tf.zeros_like(model.kernel))
    with stored.scope(model):
        np.testing.assert_allclose(model(ids), before, rtol=1e-6)


def test_a_traced_function_holds_the_stored_variables_alone():
    model = Net()
    stored = StoredWeights(model, "int8")

    @tf.function(autograph=False)
    def call(ids):
        with stored.scope(model):
            return model(ids)

    held = {
        variable.ref()
        for variable in call.get_concrete_function(tf.constant([[1]])).graph.variables
    }
    assert held <= {variable.ref() for variable in stored.variables}


def test_a_model_that_cannot_run_is_told_when_it_is_loaded(tmp_path: Path) -> None:
    function = tf.function(
        lambda inputs: {"outputs": tf.strings.to_number(inputs)},
        input_signature=[tf.TensorSpec([None], tf.string, "inputs")],
    )
    tf.saved_model.save(tf.Module(), str(tmp_path), signatures=function)
    with pytest.raises(UserError, match=r"\(signature serving_default: StringToNumber.*1 2 3"):
        ServedModel(tmp_path, 1)


def test_of_several_errors_of_a_gpu_the_first_cause_is_told() -> None:
    message = (
        "2 root error(s) found.\n  (0) INVALID_ARGUMENT:  {{function_node f}} {{node a}} no number"
        "\n\t [[{{node a}}]]\n  (1) INVALID_ARGUMENT:  another"
    )

    def failing(**_: Any) -> None:
        raise tf.errors.InvalidArgumentError(None, None, message)

    with pytest.raises(HTTPException, match=r"^400: no number$"):
        served_model._called(failing, {})


def runners(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        interpreter = tf.lite.Interpreter(model_path=str(folder / MODEL_FILE))
    return {
        name: interpreter.get_signature_runner(name) for name in interpreter.get_signature_list()
    }


def greedy(run, ids, most):
    """The loop of docs/serving.md."""
    memory = run["encode"](inputs=ids)
    memory.pop("ponder_times")
    symbols = np.zeros([1, 1], np.int32)
    while symbols.shape[1] <= most:
        logits = run["step"](symbols=symbols, **memory)["logits"]
        best = 1 + logits[:, 1:].argmax(-1)
        symbols = np.concatenate([symbols, best[None]], 1).astype(np.int32)
        if best[0] == END_ID:
            break
    return symbols[:, 1:]


def ids_of_length(length):
    letters = np.random.default_rng(length).integers(2, toy.VOCABULARY, [1, length - 1])
    return np.concatenate([letters, [[END_ID]]], 1).astype(np.int32)


@pytest.mark.slow
def test_greedy_decoding_writes_the_model_s_symbols(tmp_path):
    hparams = "act_max_steps=5,position=rotary"
    run = toy.untrained_run(tmp_path, "letters", hparams)
    folder = export_litert(run, tmp_path / "litert")
    summary = json.loads((folder / SUMMARY_FILE).read_text())
    assert summary["signatures"]["step"]["outputs"] == ["logits"]
    assert (folder / "vocab" / "letters.txt").is_file()
    with pytest.raises(UserError, match="already exists"):
        export_litert(run, tmp_path / "litert", version=1)
    model, lite = toy.restored(run), runners(folder)
    ids = ids_of_length(9)
    with eager_functions():
        config = DecodeConfig(beam_size=1, max_length=5)
        expected = decode(model, {"inputs": ids}, config).symbols[0, 0].numpy()
    symbols = greedy(lite, ids, 5)[0]
    np.testing.assert_array_equal(symbols, expected[: len(symbols)])
    assert not expected[len(symbols) :].any()
    features = {"inputs": ids, "targets": np.array([[END_ID]])}
    details = model(features, return_details=True)[1]
    found = lite["encode"](inputs=ids)["ponder_times"]
    np.testing.assert_array_equal(found, details.encoder.ponder_times)
    assert len(np.unique(found)) > 1


@pytest.mark.slow
def test_a_classifier_in_int8(tmp_path):
    run = toy.untrained_run(tmp_path, "letter_questions", "halting=none,input_start_symbol=true")
    exact = export_litert(run, tmp_path / "litert")
    small = export_litert(run, tmp_path / "litert", quantize="int8")
    assert small.name == "2"
    sizes = [(folder / MODEL_FILE).stat().st_size for folder in (exact, small)]
    assert sizes[1] < sizes[0]
    model, ids = toy.restored(run), ids_of_length(7)
    answer = runners(exact)["classify"](inputs=ids)
    np.testing.assert_allclose(answer["logits"], model({"inputs": ids}), atol=1e-4)
    assert answer["ponder_times"].shape == (1, 7)
    quantized = runners(small)["classify"](inputs=ids)["logits"]
    np.testing.assert_allclose(quantized, answer["logits"], atol=0.3)


@pytest.mark.slow
def test_a_language_model_has_steps_alone(tmp_path):
    run = toy.untrained_run(tmp_path, "letter_language", "act_max_steps=4")
    lite = runners(export_litert(run, tmp_path / "litert"))
    assert list(lite) == ["step"]
    targets = ids_of_length(6)
    logits = lite["step"](symbols=np.concatenate([[[0]], targets[:, :-1]], 1).astype(np.int32))
    expected = toy.restored(run)({"targets": targets})[:, -1]
    np.testing.assert_allclose(logits["logits"], expected, atol=1e-4)


@pytest.mark.slow
def test_what_litert_lacks_is_named(tmp_path):
    run = toy.untrained_run(tmp_path, "letter_questions", "halting=random")
    with pytest.raises(UserError, match=r"LiteRT has no operation like TensorFlow's Stateless\w+"):
        export_litert(run, tmp_path / "litert")
    assert not (tmp_path / "litert").exists()
    assert _why("Something else.\nDetails") == "LiteRT cannot take this network: Something else."


@pytest.mark.slow
def test_text_is_translated_with_sentencepiece_alone(tmp_path):
    """The example of docs/serving.md: sentencepiece's ids and the end are what the model reads."""
    from sentencepiece import SentencePieceProcessor

    run = translation_run(tmp_path, hparams="act_max_steps=4,halting=basic")
    folder = export_litert(run, tmp_path / "litert")
    subwords = SentencePieceProcessor(model_file=f"{folder}/vocab/subwords.model")
    codec = run.make_problem().text_codec(run.vocab_dir)
    config = DecodeConfig(beam_size=1, max_length=8)
    lite, translator = runners(folder), Translator.from_run(run, config=config)
    written = set()
    for text in ("the number 300", "a number  305", "Größe: 日本"):
        ids = [*subwords.encode(text), END_ID]
        np.testing.assert_array_equal(codec.encode(tf.constant([text]))["inputs"].numpy(), [ids])
        symbols = greedy(lite, np.array([ids], np.int32), 8)[0].tolist()
        found = subwords.decode([symbol for symbol in symbols if symbol != END_ID])
        ((expected,),) = translator.translate([(text,)])
        assert found == expected.text
        written.add(found)
    assert len(written) > 1
