"""tensor2tensor's subword vocabularies: ids and texts are those of tensor2tensor 1.15.7, outside of
graphs, in them and in an export; tests/golden/t2t_subwords/make_references.py wrote them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from ut_tf.data.text.subword_codec import make_subword_codec
from ut_tf.data.text.subword_files import read_subwords
from ut_tf.data.text.tensor2tensor_codec import Tensor2TensorCodec
from ut_tf.data.text.tensor2tensor_subwords import Tensor2TensorSubwords
from ut_tf.errors import UserError
from ut_tf.symbols import END_ID

FOLDER = Path(__file__).resolve().parents[2] / "golden" / "t2t_subwords"
VOCABULARY = FOLDER / "vocab.toy.512.subwords"
REFERENCES: dict[str, Any] = json.loads((FOLDER / "references.json").read_text())


@pytest.fixture(scope="module")
def codec() -> Tensor2TensorCodec:
    made = make_subword_codec(read_subwords(VOCABULARY))
    assert isinstance(made, Tensor2TensorCodec)
    return made


def ids_of(rows: Any) -> list[list[int]]:
    """The ids of each row without padding."""
    return [[number for number in row if number] for row in rows.numpy().tolist()]


def padded(rows: list[list[int]]) -> Any:
    return tf.ragged.constant(rows, tf.int32).to_tensor()


def test_strange_lines_have_tensor2tensor_s_ids(codec: Tensor2TensorCodec) -> None:
    texts = [text for text, _ in REFERENCES["encoded"]]
    expected = [[*ids, END_ID] for _, ids in REFERENCES["encoded"]]
    assert len(texts) > 200
    subwords = read_subwords(VOCABULARY)
    assert subwords.size == REFERENCES["vocab_size"]
    for text, ids, theirs in zip(texts, subwords.encode(texts), expected, strict=True):
        assert ids == theirs, text
    encoded = ids_of(codec.encode(tf.constant(texts))["inputs"])
    for text, ids, theirs in zip(texts, encoded, expected, strict=True):
        assert ids == theirs, text
    assert ids_of(codec.encode(tf.constant([""]))["inputs"]) == [[END_ID]]


def test_ids_become_tensor2tensor_s_text(codec: Tensor2TensorCodec) -> None:
    rows = [ids for ids, _ in REFERENCES["decoded"]]
    written = [text.decode() for text in codec.decode(padded(rows)).numpy()]
    for ids, text, (_, theirs) in zip(rows, written, REFERENCES["decoded"], strict=True):
        assert text == theirs, ids
    there_and_back = [text for text, _ in REFERENCES["encoded"] if "\n" not in text]
    again = codec.decode(codec.encode(tf.constant(there_and_back))["inputs"]).numpy()
    assert [text.decode() for text in again] == [text.strip() for text in there_and_back]
    assert codec.decode(tf.constant([[END_ID, 5], [0, 5]])).numpy().tolist() == [b"", b""]


def test_an_export_has_the_same_ids(codec: Tensor2TensorCodec, tmp_path: Path) -> None:
    module = tf.Module()
    module.codec = codec
    module.encode = tf.function(
        lambda texts: codec.encode(texts)["inputs"],
        [tf.TensorSpec([None], tf.string)],
        autograph=False,
    )
    module.decode = tf.function(
        codec.decode, [tf.TensorSpec([None, None], tf.int32)], autograph=False
    )
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    texts = [text for text, _ in REFERENCES["encoded"]]
    encoded = loaded.encode(tf.constant(texts))
    assert ids_of(encoded) == [[*ids, END_ID] for _, ids in REFERENCES["encoded"]]
    assert loaded.decode(encoded).numpy().tolist() == codec.decode(encoded).numpy().tolist()


def test_tokens_are_the_subwords(codec: Tensor2TensorCodec) -> None:
    features = codec.encode(tf.constant(["the state_1", "a"]))
    tokens = [token.decode() for token in codec.tokens(features).numpy()[0]]
    assert tokens[-1] == "</s>" and "".join(tokens[:-1]) == "the_state_\\u_1_"
    assert codec.input_text(tokens) == "the state_1"
    assert codec.tokens(features).numpy()[1, -1] == b""


def test_files_as_several_versions_wrote_them(tmp_path: Path) -> None:
    lines = VOCABULARY.read_text(encoding="utf-8").splitlines()
    # Blanks at the ends of a line need quotes.
    bare = [line[1:-1] if {line[1], line[-2]}.isdisjoint(" '\"") else line for line in lines]
    text = "the state's \\ 'quoted' state_1"
    for number, beginning in enumerate((bare[:2], ["<pad>", "<EOS>"], ['"<pad>"', '"<EOS>"'])):
        path = tmp_path / f"vocab.{number}"
        path.write_text("\r\n".join([*beginning, *bare[2:]]), encoding="utf-8", newline="")
        assert read_subwords(path).encode([text]) == read_subwords(VOCABULARY).encode([text])


def test_a_vocabulary_that_lost_lines_is_refused(tmp_path: Path) -> None:
    lines = [line for line in VOCABULARY.read_text(encoding="utf-8").splitlines() if line != "'e'"]
    path = tmp_path / "vocab.cut"
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(UserError, match=r"vocab\.cut has no line for 'e' alone"):
        read_subwords(path)
    with pytest.raises(UserError, match=r"vocab\.cut, line 3: byte 2 of the line is not UTF-8"):
        Tensor2TensorSubwords(b"<pad>\n<EOS>\n'\xff'\n", "vocab.cut")
