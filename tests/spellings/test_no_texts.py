"""What is no text, in every way in: bytes, halves of surrogate pairs, other values, ids as numpy
has them; and exports from before each example had an error of its own.
"""

from __future__ import annotations

import io
import json
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests
import tensorflow as tf

from tests.inference.test_translator import Echo, Oracle
from tests.serving.python_model import PythonModel, served
from tests.spellings.table import as_example, untrained
from tests.spellings.test_spellings import TABLES
from tests.spellings.ways import TINY
from ut_tf.bin import query
from ut_tf.errors import UserError
from ut_tf.inference.translator import Translator
from ut_tf.problems.algorithmic.problem import Algorithmic
from ut_tf.problems.babi.codec import StoryCodec
from ut_tf.search.config import DecodeConfig
from ut_tf.serving.served_model import ServedModel

HALF = "half of a surrogate pair and no character: decode the bytes that it comes from as UTF-8."


@pytest.fixture(scope="module")
def digits() -> Translator:
    return Translator(Echo(), Algorithmic("copy").text_codec(Path()), DecodeConfig(beam_size=1))


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    folder = tmp_path_factory.mktemp("stories")
    (folder / "words.txt").write_text("<unknown>\nmary\nleft\nwhere\nis\n")
    (folder / "answers.txt").write_text("kitchen\nhall\ngarden\nbathroom\n")
    return Translator(Oracle(), StoryCodec(folder, "facts", 70))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"12", "of the type bytes: expected a text (str), decode it first."),
        (np.str_, "of the type type: expected a text (str)."),
        (12, "of the type int: expected a text (str)."),
        (None, "of the type NoneType: expected a text (str)."),
        ("1\ud8002", f"with U+D800, {HALF}"),
        ("12\udcff", f"with U+DCFF, {HALF}"),
    ],
)
def test_inputs_and_targets_that_are_no_texts(digits: Translator, text: Any, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        list(digits.translate([(text,)]))
    assert str(error.value) == f"an input {sentence}"
    with pytest.raises(UserError) as error:
        list(digits.score(["12"], [text]))
    assert str(error.value) == f"a target {sentence}"


@pytest.mark.parametrize(
    ("story", "sentence"),
    [
        (b"Mary left.", "a story of the type bytes: expected a text (str) or a list of texts, de"),
        (["Mary left.", b"Mary left."], "a line of story of the type bytes: expected a text (str)"),
        (["Mary left.", "Mary \udc80"], f"a line of story with U+DC80, {HALF}"),
        (["Mary left.", ["Mary left."]], "a line of story of the type list: expected a text (str)"),
        ({"Mary left."}, "a story of the type set: expected a text (str) or a list of texts."),
    ],
)
def test_stories_that_are_no_texts(stories: Translator, story: Any, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        list(stories.translate([(story, "Where is Mary?")]))
    assert str(error.value).startswith(sentence)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (r'{"instances": ["12", "1\ud8002"]}', "element: 1 of 'instances' list. The text has U+D8"),
        (r'{"inputs": ["12", "\udcff"]}', "Failed to process 'inputs' of 'inputs' object. The te"),
        (r'{"inputs": [["12"]]}', 'JSON Value: ["12"] is not of expected type: string'),
        (r'{"instances": [null]}', "JSON Value: null is not of expected type: string"),
    ],
)
def test_values_of_json_that_are_no_texts(body: str, sentence: str) -> None:
    def upper(examples: list[dict[str, str]]) -> list[dict[str, Any]]:
        return [{"outputs": example["inputs"].upper()} for example in examples]

    with served(PythonModel({"serving_default": (["inputs"], upper)})) as server:
        reply = requests.post(f"{server.address}/v1/models/toy:predict", data=body, timeout=9)
    assert reply.status_code == 400
    assert sentence in reply.json()["error"]


def test_ids_may_be_those_that_numpy_makes(tmp_path: Path) -> None:
    for number, table in enumerate(TABLES):
        codec = untrained(table, tmp_path / str(number), TINY).text_codec()
        text = next(iter(table.reads_targets), next(iter(table.reads)))
        ids = codec.encode_targets(tf.constant([*as_example(text)][:1]))
        ids = tf.maximum(ids, 0)
        expected = codec.decode(ids).numpy().tolist()
        for dtype in (np.int64, np.uint16):
            found = codec.decode(np.array(ids.numpy().tolist()).astype(dtype))
            assert found.numpy().tolist() == expected, table.name


def test_exports_without_errors_of_their_own_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    older = tf.Module()
    older.call = tf.function(
        lambda inputs: {"outputs": tf.strings.upper(inputs), "scores": tf.zeros(tf.shape(inputs))},
        input_signature=[tf.TensorSpec([None], tf.string, "inputs")],
    )
    tf.saved_model.save(older, str(tmp_path / "1"), signatures={"serving_default": older.call})
    stdin = types.SimpleNamespace(buffer=io.BytesIO(b"a\n\nb\n"), isatty=lambda: False)
    monkeypatch.setattr(sys, "stdin", stdin)
    with served(ServedModel(tmp_path / "1", 1)) as server:
        url = f"{server.address}/v1/models/toy:predict"
        for texts in (["a"], ["a", "b"]):
            reply = requests.post(url, data=json.dumps({"instances": texts}), timeout=9)
            answers = [{"outputs": text.upper(), "scores": 0.0} for text in texts]
            assert (reply.status_code, reply.json()) == (200, {"predictions": answers})
        assert query.main([f"--server={server.address}", "--model_name=toy"]) == 0
    assert capsys.readouterr() == ("A\n\nB\n", "")
