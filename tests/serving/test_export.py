"""Exported models: they answer as the library does, from any text, in any process, and lie where
TensorFlow Serving looks.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tests.close import assert_close
from tests.serving import toy
from tests.serving.test_slots import check_slots
from tests.serving.toy import BEAM, HALTING
from ut_tf.errors import UserError
from ut_tf.inference.batches import MOST_POSITIONS
from ut_tf.inference.translator import Translator
from ut_tf.run import Run
from ut_tf.search.config import DecodeConfig
from ut_tf.search.scoring import log_probabilities
from ut_tf.serving.export import export_run, saved_operations
from ut_tf.serving.served_model import ServedModel
from ut_tf.serving.signatures import Servable
from ut_tf.serving.versions import SUMMARY_FILE, new_version, put_in_place
from ut_tf.serving.warmup import FILE as WARMUP_FILE
from ut_tf.serving.weights import StoredWeights
from ut_tf.storage.disk_errors import disk_errors

GREEDY = DecodeConfig(beam_size=1, extra_length=6)
SAMPLING = DecodeConfig(sampling=True, extra_length=6)

rewritten = pytest.mark.usefixtures("rewritten_graphs")
ALONE: dict[str, Any] = {"signatures": ("serving_default",), "warmup": False}
PYTHON = {"PyFunc", "PyFuncStateless", "EagerPyFunc"}


@pytest.fixture(scope="module")
def beam(tmp_path_factory):
    exported = toy.Exported(
        tmp_path_factory.mktemp("beam"), "letters", hparams="halting=none,num_steps=1"
    )
    assert exported.model.built
    # What is loaded must not depend on the run any more; the model was made of it before.
    shutil.move(exported.run.output_dir, exported.run.output_dir.with_name("elsewhere"))
    return exported


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    """A halting classifier of two texts with all its signatures, whose inputs have a start."""
    hparams = f"{HALTING},input_start_symbol=true"
    folder = tmp_path_factory.mktemp("questions")
    return toy.Exported(folder, "letter_questions", DecodeConfig(), hparams)


BATCHES = [
    ["a", "jihgfedcba", "bb"],
    ["abcabcabcabcabcabcabc", "hi", "c", "abcj", "f", "ab"],
]


@rewritten
@pytest.mark.parametrize("texts", BATCHES, ids=len)
def test_beam_search_answers_as_the_library_does(beam, texts):
    outputs, scores = beam.decoded(texts, BEAM)
    answer = beam.loaded.ask("serving_default", inputs=texts)
    assert answer["outputs"].shape == (len(texts), 2)
    np.testing.assert_array_equal(answer["outputs"], outputs)
    assert_close(answer["scores"], scores, 1e-4)


@pytest.mark.slow
def test_samples_differ_from_request_to_request(tmp_path):
    sampling = toy.Exported(tmp_path, "letters", SAMPLING, "halting=none,num_steps=1", **ALONE)
    answers = [
        tuple(sampling.loaded.ask("serving_default", inputs=["abcdef"] * 4)["outputs"])
        for _ in range(2)
    ]
    assert answers[0] != answers[1]
    assert answers[0] == tuple(
        toy.Loaded(sampling.folder).ask("serving_default", inputs=["abcdef"] * 4)["outputs"]
    )


@pytest.mark.slow
def test_random_halting_draws_anew_at_every_call_and_step(tmp_path):
    options = "halting=random,act_max_steps=8,act_epsilon=0.01"
    exported = toy.Exported(
        tmp_path,
        "letter_questions",
        hparams=options,
        signatures=("classify", "ponder"),
        warmup=False,
    )
    texts = {"story": ["abcdefghij"] * 8, "question": ["abc"] * 8}
    first, second = (exported.loaded.ask("classify", **texts)["probabilities"] for _ in range(2))
    assert np.abs(first - second).max() > 1e-4
    # Sums of uniform numbers exceed 0.99 after e^0.99 = 2.69 steps on average; of one number, added
    # again and again, after 3.57.
    times = np.concatenate(
        [exported.loaded.ask("ponder", **texts)["ponder_times"].ravel() for _ in range(3)]
    )
    assert 2.4 < times.mean() < 3.0
    models = [toy.restored(exported.run) for _ in range(2)]
    one, other = (model(exported.features(*texts.values())).numpy() for model in models)
    np.testing.assert_array_equal(one, other)


def test_a_decoder_that_sees_later_targets_is_told_of_once(tmp_path, capsys):
    run = toy.untrained_run(tmp_path, "letters", "halting=global,global_mean=sequence")
    run.make_model()
    assert capsys.readouterr().err.count("global_mean=sequence") == 1
    toy.untrained_run(tmp_path / "other", "letters", "halting=global")
    assert "global_mean" not in capsys.readouterr().err


def test_scores_of_given_targets(beam):
    texts, targets = ["abc", "j", ""], ["cba", "", "aaaaaaaa"]
    features = {**beam.features(texts), "targets": beam.codec.encode_targets(tf.constant(targets))}
    answer = beam.loaded.ask("score", inputs=texts, targets=targets)["log_probabilities"]
    assert_close(answer, log_probabilities(beam.model, features), 1e-4)
    assert (answer < 0).all()


def test_ponder_times_stand_beside_their_tokens(beam, questions):
    answer = beam.loaded.ask("ponder", inputs=["abc", "jihgf"])
    assert answer["tokens"].tolist() == [
        [b"a", b"b", b"c", b"<end>", b"", b""],
        [b"j", b"i", b"h", b"g", b"f", b"<end>"],
    ]
    assert answer["ponder_times"].tolist() == [[1, 1, 1, 1, 0, 0], [1] * 6]
    # With halting, and a start symbol that is no token of the inputs.
    texts = ["abc", "", "jihgfabc"], ["d", "j", "hh"]
    times = questions.loaded.ask("ponder", story=texts[0], question=texts[1])["ponder_times"]
    _, details = questions.model(questions.features(*texts), return_details=True)
    np.testing.assert_array_equal(times, details.encoder.ponder_times[:, 1:])
    assert (times > 0).sum(1).tolist() == [4, 1, 10] and len(np.unique(times)) > 2


@rewritten
def test_classes_come_with_their_probabilities(questions):
    texts = ["abc", "j", "aaaaaaaa", "cc"], ["d", "", "hhh", "a"]
    answer = questions.loaded.ask("classify", story=texts[0], question=texts[1])
    expected = tf.nn.softmax(questions.model(questions.features(*texts))).numpy()
    assert_close(answer["probabilities"], expected, 1e-5)
    assert_close(answer["probability"], expected.max(1), 1e-5)
    assert [text.decode() for text in answer["outputs"]] == [
        toy.ANSWERS[best] for best in expected.argmax(1)
    ]
    default = questions.loaded.ask("serving_default", story=texts[0], question=texts[1])
    assert {name: value.tolist() for name, value in default.items()} == {
        name: value.tolist() for name, value in answer.items()
    }
    assert json.loads((questions.folder / SUMMARY_FILE).read_text())["classes"] == list(toy.ANSWERS)


@pytest.mark.slow
def test_a_language_model_is_served_by_its_scores_and_goes_on_from_texts(tmp_path):
    language = toy.Exported(tmp_path, "letter_language", hparams="halting=none", warmup=False)
    targets = ["abc", "ja"]
    expected = log_probabilities(
        language.model, {"targets": language.codec.encode_targets(tf.constant(targets))}
    )
    assert_close(
        language.loaded.ask("serving_default", targets=targets)["log_probabilities"], expected, 1e-4
    )
    prompts = ["ab", "", "jjgjahc", "abcdefghij" * 4]
    answer = language.loaded.ask("generate", inputs=prompts)
    ours = Translator(language.model, language.codec, BEAM)
    for number, pair in enumerate(ours.translate([(prompt,) for prompt in prompts])):
        assert [text.decode() for text in answer["outputs"][number]] == [best.text for best in pair]
        assert_close(answer["scores"][number], [best.score for best in pair], 1e-4)
    assert language.loaded.ask("generate", inputs=[])["outputs"].shape == (0, 2)
    # A prompt that leaves no room harms nobody else.
    short = dataclasses.replace(BEAM, max_length=9)
    weights = StoredWeights(language.model, "float32")
    servable = Servable(language.model, language.codec, language.run.spec, short, weights)
    alone, beside = (
        servable.generate(tf.constant(texts)) for texts in (["ab"], ["ab", "abcdefghi"])
    )
    assert beside["outputs"][0].numpy().tolist() == alone["outputs"][0].numpy().tolist()
    assert beside["outputs"][1].numpy().tolist() == [b"", b""]
    assert beside["scores"][1].numpy().max() == -np.inf


@pytest.mark.slow
def test_an_export_answers_in_slots_as_in_batches(questions: toy.Exported) -> None:
    model = ServedModel(questions.folder, 1)
    assert [*model.signatures] == ["serving_default", "classify", "ponder"]
    stories = ["abcdefghij", "", "a", "jih", "bcd" * 9, "fg"]
    columns = {"story": [text.encode() for text in stories], "question": [b"ab"] * len(stories)}
    check_slots(model, "classify", columns)


def test_many_long_texts_begin_as_each_alone(questions: toy.Exported) -> None:
    def begun(texts: list[bytes], length: int) -> dict[str, Any]:
        columns = {"story": tf.constant(texts), "question": tf.constant([b""] * len(texts))}
        return dict(questions.loaded.signatures["start"](**columns, length=tf.constant(length)))

    texts = [b"abcdefghij" * count for count in (90, 1, 95, 99, 3, 97, 98, 94, 93, 92)]
    together = begun(texts, 0)
    assert tf.size(together["ids"]) > MOST_POSITIONS
    for row in (0, 1, len(texts) - 1):
        for name, values in begun([texts[row]], together["ids"].shape[1]).items():
            np.testing.assert_array_equal(values[0], together[name][row])


def test_bytes_that_are_no_text_harm_nobody_else(beam, questions):
    alone = beam.loaded.ask("serving_default", inputs=["abc", "d", "e"])
    beside = beam.loaded.ask("serving_default", inputs=["abc", b"d\xff\xfe", "\x00e"])
    np.testing.assert_array_equal(alone["outputs"], beside["outputs"])
    assert_close(alone["scores"], beside["scores"], 1e-4)
    whole = questions.loaded.ask("classify", story=["abc", "a"], question=["d", "b"])[
        "probabilities"
    ]
    broken = questions.loaded.ask("classify", story=["abc", b"a\xc3"], question=["d", b"\xffb"])[
        "probabilities"
    ]
    assert_close(whole, broken, 1e-5)


def test_blank_texts_have_no_output_and_harm_nobody_else(beam):
    answer = beam.loaded.ask("serving_default", inputs=["abc", "", " \t", "d"])
    assert answer["outputs"][1:3].tolist() == [[b"", b""], [b"", b""]]
    assert answer["scores"][1:3].tolist() == [[0, 0], [0, 0]]
    np.testing.assert_array_equal(
        answer["outputs"][[0, 3]],
        beam.loaded.ask("serving_default", inputs=["abc", "d"])["outputs"],
    )


def test_batches_of_nothing(beam, questions):
    assert beam.loaded.ask("serving_default", inputs=[])["outputs"].shape == (0, 2)
    assert beam.loaded.ask("serving_default", inputs=[""])["outputs"].shape == (1, 2)
    assert beam.loaded.ask("score", inputs=[], targets=[])["log_probabilities"].shape == (0,)
    assert beam.loaded.ask("ponder", inputs=[])["ponder_times"].shape[0] == 0
    assert questions.loaded.ask("classify", story=[], question=[])["probabilities"].shape == (0, 3)
    blank = questions.loaded.ask("classify", story=[""], question=[" "])
    assert (blank["outputs"].tolist(), blank["probabilities"].sum()) == ([b""], 0.0)


def test_what_lies_beyond_the_longest_input_is_not_read(beam):
    answer = beam.loaded.ask("serving_default", inputs=["abcdefghij" * 20, "ab"])
    cut = beam.loaded.ask(
        "serving_default", inputs=[("abcdefghij" * 20)[: BEAM.max_input_length - 1], "ab"]
    )
    np.testing.assert_array_equal(answer["outputs"], cut["outputs"])


def test_only_operations_of_tensorflow(beam, questions):
    for exported in (beam, questions):
        operations = saved_operations(exported.folder)
        assert {"MatMul", "LookupTableFindV2", "UnicodeTranscode"} <= operations
        assert {
            name for name in operations if not hasattr(tf.raw_ops, name)
        } | operations & PYTHON == set()
        assert json.loads((exported.folder / SUMMARY_FILE).read_text())["other_operations"] == []


@pytest.mark.slow
def test_what_only_python_can_run_is_refused(tmp_path):
    run = toy.untrained_run(tmp_path, "questions_in_python", "halting=none,num_steps=1")
    with pytest.raises(UserError, match=r"the graph holds .*PyFunc"):
        export_run(run, tmp_path / "export", signatures=["classify"])
    assert list((tmp_path / "export").iterdir()) == []


def test_another_vocabulary_than_the_training_s_is_refused(tmp_path):
    run = toy.untrained_run(tmp_path, "letters", "halting=none,num_steps=1")
    (run.vocab_dir / "letters.txt").write_text("\n".join("abc"))
    with pytest.raises(
        UserError, match=r"letters\.txt is not the vocabulary that the run was trained with"
    ):
        export_run(Run.load(run.output_dir), tmp_path / "export")
    # A run that knows no checksums still knows how large its vocabulary was.
    with pytest.raises(UserError, match="has 5 and 5 ids"):
        export_run(dataclasses.replace(run, vocab_sha256={}), tmp_path / "export")


def test_versions_are_numbers_and_none_is_written_twice(beam, tmp_path):
    run = toy.Run.load(beam.run.output_dir.with_name("elsewhere"))
    assert beam.folder == beam.run.output_dir.parent / "export" / "1"
    with pytest.raises(UserError, match="export/1 already exists"):
        export_run(run, beam.folder.parent, version=1)
    for name in ("7", "12", "notes"):
        (tmp_path / name).mkdir()
    assert new_version(tmp_path) == tmp_path / "13"
    assert new_version(tmp_path, 8) == tmp_path / "8"
    assert new_version(tmp_path / "elsewhere") == tmp_path / "elsewhere" / "1"
    with pytest.raises(UserError, match=r"ut_tf\.json is a file"):
        new_version(beam.folder / SUMMARY_FILE)


def test_a_place_that_cannot_be_used_is_refused_at_once(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=rf"^{tmp_path}/file is a file"):
        new_version(tmp_path / "file" / "models" / "x")

    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(
        UserError,
        match=rf"^{tmp_path} cannot be read \(Permission denied\): name another `export_dir`",
    ):
        new_version(tmp_path)


def test_of_two_exports_of_one_version_the_second_is_told(tmp_path):
    for name in ("mine", "3"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "saved_model.pb").write_text(name)
    with (
        pytest.raises(UserError, match=r"3 exists meanwhile: .*`version`"),
        disk_errors(tmp_path),
    ):
        put_in_place(tmp_path / "mine", tmp_path / "3")
    assert (tmp_path / "3" / "saved_model.pb").read_text() == "3"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"signatures": ["scor"]}, "no signature 'scor'; did you mean score"),
        ({"signatures": ["classify"]}, "It has serving_default, score, ponder"),
        ({"dtype": "float16"}, "`dtype`=float16: expected one of float32, bfloat16"),
        ({"quantize": "int4"}, "`quantize`=int4: expected int8"),
        ({"version": -1}, "`version`=-1"),
        ({"checkpoint": "5"}, "`checkpoint`=5"),
    ],
)
def test_arguments_that_cannot_be(beam, tmp_path, options, expected):
    run = toy.Run.load(beam.run.output_dir.with_name("elsewhere"))
    with pytest.raises(UserError, match=expected):
        export_run(run, tmp_path / "export", decode=GREEDY, **options)
    assert not (tmp_path / "export").exists()


def test_the_summary_says_what_was_exported(beam):
    summary = json.loads((beam.folder / SUMMARY_FILE).read_text())
    assert (summary["problem"], summary["checkpoint"], summary["dtype"]) == (
        "letters",
        {"asked": "best", "step": toy.STEP},
        "float32",
    )
    assert (summary["decode"]["beam_size"], summary["decode"]["n_best"]) == (3, 2)
    assert summary["signatures"]["score"] == {
        "inputs": ["inputs", "targets"],
        "outputs": ["error", "log_probabilities", "warning"],
    }
    assert {"tensorflow", "keras", "ut_tf"} <= set(summary["versions"])


def test_warm_up_requests_are_tensorflow_serving_s(beam, questions):
    for exported, names in (
        (beam, ["serving_default", "score", "ponder"]),
        (questions, ["serving_default", "classify", "ponder"]),
    ):
        records = [
            record.numpy() for record in tf.data.TFRecordDataset(str(exported.folder / WARMUP_FILE))
        ]
        requests = [prediction_log().FromString(record).predict_log.request for record in records]
        assert [request.model_spec.signature_name for request in requests] == names
        assert {request.model_spec.name for request in requests} == {exported.run.problem}
        for request in requests:
            texts = {
                name: [one.decode() for one in tf.make_ndarray(tensor)]
                for name, tensor in request.inputs.items()
            }
            exported.loaded.ask(request.model_spec.signature_name, **texts)


CLEAN = """
import sys
import tensorflow as tf
import tensorflow_text
loaded = tf.saved_model.load(sys.argv[1])
answer = loaded.signatures["serving_default"](inputs=tf.constant(["abc", "j"]))
print([[text.decode() for text in row] for row in answer["outputs"].numpy()])
assert not {name for name in sys.modules if name.split(".")[0] == "ut_tf"}
"""


@pytest.mark.slow
def test_a_process_without_this_package_answers_the_same(beam, tmp_path):
    moved = shutil.copytree(beam.folder, tmp_path / "1")
    outputs, _ = beam.decoded(["abc", "j"], BEAM)
    done = subprocess.run(
        [sys.executable, "-c", CLEAN, str(moved)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str([[text.decode() for text in row] for row in outputs])


def prediction_log() -> Any:
    """Returns the class of tensorflow.serving.PredictionLog, from the part of its definition that
    warm-up needs.
    """
    file = descriptor_pb2.FileDescriptorProto(
        name="prediction_log_test.proto", package="serving_test", syntax="proto3"
    )
    file.dependency.append("tensorflow/core/framework/tensor.proto")
    text, message, tensor = 9, 11, ".tensorflow.TensorProto"
    fields: dict[str, list[tuple[str, int, int, str]]] = {
        "ModelSpec": [("name", 1, text, ""), ("signature_name", 3, text, "")],
        "PredictRequest": [("model_spec", 1, message, ".serving_test.ModelSpec")],
        "PredictLog": [("request", 1, message, ".serving_test.PredictRequest")],
        "PredictionLog": [("predict_log", 6, message, ".serving_test.PredictLog")],
    }
    for name, members in fields.items():
        described = file.message_type.add(name=name)
        for field, number, kind, type_name in members:
            described.field.add(
                name=field, number=number, type=kind, label=1, type_name=type_name or None
            )
    request = file.message_type[1]
    entry = request.nested_type.add(
        name="InputsEntry", options=descriptor_pb2.MessageOptions(map_entry=True)
    )
    entry.field.add(name="key", number=1, type=text, label=1)
    entry.field.add(name="value", number=2, type=message, label=1, type_name=tensor)
    request.field.add(
        name="inputs",
        number=2,
        type=message,
        label=3,
        type_name=".serving_test.PredictRequest.InputsEntry",
    )
    pool = descriptor_pool.DescriptorPool()
    for known in _with_dependencies(tf.make_tensor_proto(0).DESCRIPTOR.file):
        pool.AddSerializedFile(known.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("serving_test.PredictionLog"))


def _with_dependencies(file: Any) -> list[Any]:
    found = [one for dependency in file.dependencies for one in _with_dependencies(dependency)]
    return [*found, file]
