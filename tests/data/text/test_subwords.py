"""Subwords: text comes back as it was, graph and Python agree, ids are ours, and a size that cannot
be is told with one that can.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ut_tf.data.text.subword_codec import TranslationCodec, make_subword_codec
from ut_tf.data.text.subword_files import read_subwords
from ut_tf.data.text.subwords import Subwords, cut_line, fit_texts, train_subwords
from ut_tf.data.text.tensor2tensor_codec import Tensor2TensorCodec
from ut_tf.data.text.tensor2tensor_subwords import Tensor2TensorSubwords
from ut_tf.errors import UserError
from ut_tf.symbols import END_ID

ROOT = Path(__file__).parents[3]
TEXT = [
    f"{subject} {verb} {thing}."
    for subject in ("Ein Mann", "Eine Frau", "Der Hund", "Das Mädchen")
    for verb in ("läuft über", "sieht", "größer als", "trägt")
    for thing in ("die Straße", "den Fluss", "ein Büschel Gras", "zwei Äpfel")
]
SIZE = 360


@pytest.fixture(scope="module")
def subwords() -> Subwords:
    return Subwords(train_subwords(TEXT, SIZE))


@pytest.fixture(scope="module")
def codec(subwords: Subwords) -> TranslationCodec:
    return TranslationCodec(subwords)


@pytest.fixture(scope="module")
def foreign() -> Subwords:
    """A model as sentencepiece trains it by default: unknown 0, beginning 1, end 2, no padding, and
    no bytes.
    """
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT), model_writer=written, vocab_size=45, minloglevel=2
    )
    return Subwords(written.getvalue())


def there_and_back(codec: TranslationCodec, *texts: str) -> list[str]:
    return [
        text.decode("utf-8")
        for text in codec.decode(codec.encode(tf.constant(texts))["inputs"]).numpy()
    ]


def one_blank(text: str) -> str:
    return " ".join(part for part in text.split(" ") if part)


# "▁" stands for a blank in sentencepiece, U+FEFF for nothing.
WRITTEN = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="▁\ufeff"), max_size=20
)


@given(st.lists(WRITTEN, min_size=1, max_size=5))
@settings(max_examples=30, deadline=None)
def test_any_text_comes_back_but_for_runs_of_blanks(
    codec: TranslationCodec, texts: list[str]
) -> None:
    composed = [unicodedata.normalize("NFC", text) for text in texts]
    assert there_and_back(codec, *composed) == [one_blank(text) for text in composed]


@given(st.lists(WRITTEN, min_size=1, max_size=5))
@settings(max_examples=40, deadline=None)
def test_graph_and_python_give_the_same_ids(
    codec: TranslationCodec, subwords: Subwords, texts: list[str]
) -> None:
    encoded = codec.encode(tf.constant(texts))["inputs"].numpy()
    assert [
        row[: len(ids)].tolist() for row, ids in zip(encoded, subwords.encode(texts), strict=True)
    ] == subwords.encode(texts)
    assert encoded.shape[1] == max(map(len, subwords.encode(texts)))


def test_composed_and_decomposed_text_are_the_same(subwords: Subwords) -> None:
    for text in ("Größe und Äpfel", "café", "ấ", "Å"):
        composed, decomposed = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
        assert composed != decomposed
        assert subwords.encode([composed]) == subwords.encode([decomposed])


def test_ids_are_ours(codec: TranslationCodec) -> None:
    encoded = codec.encode(tf.constant(["", "   ", "Der Hund 😀"]))["inputs"].numpy()
    assert encoded[:2, 0].tolist() == [END_ID, END_ID]
    assert not encoded[:2, 1:].any()
    last = encoded[2]
    assert last[-1] == END_ID
    assert last[:-1].min() > 2, "0, 1 and unknown never stand for text"
    assert (
        codec.encode_targets(tf.constant(["a"])).numpy().tolist()
        == codec.encode(tf.constant(["a"]))["inputs"].numpy().tolist()
    )
    assert codec.encode(tf.constant([], tf.string))["inputs"].shape == (0, 0)


def test_decoding_stops_at_the_first_end_or_padding(
    codec: TranslationCodec, subwords: Subwords
) -> None:
    (ids,) = subwords.encode(["Der Hund sieht"])
    more = subwords.encode(["zwei Äpfel"])[0]
    rows = [ids + more, [*ids[:-1], 0, *more], [END_ID, *more], [0]]
    longest = max(map(len, rows))
    padded = np.array([row + [0] * (longest - len(row)) for row in rows], np.int32)
    assert codec.decode(tf.constant(padded)).numpy().tolist() == [b"Der Hund sieht"] * 2 + [
        b"",
        b"",
    ]


def test_a_model_from_elsewhere_keeps_0_and_1_free(foreign: Subwords) -> None:
    assert (foreign.shift, foreign.size) == (2, 47)
    codec = TranslationCodec(foreign)
    text = "Ein Mann trägt zwei Äpfel."
    (ids,) = foreign.encode([text])
    assert codec.encode(tf.constant([text]))["inputs"].numpy().tolist() == [ids]
    assert min(ids[:-1]) > 1 and ids[-1] == END_ID
    assert there_and_back(codec, text, "") == [text, ""]
    assert (
        b"".join(codec.tokens(codec.encode(tf.constant([text])))[0].numpy())
        .decode("utf-8")
        .startswith("▁Ein")
    )


def test_a_size_that_the_text_cannot_give_is_told_with_one_that_it_can() -> None:
    for kind in ("bpe", "unigram"):
        with pytest.raises(UserError, match=r"`vocab_size`=5000: .* most (\d+) subwords") as error:
            train_subwords(TEXT, 5000, kind)
        most = int(str(error.value).split("at most ")[1].split()[0])
        assert Subwords(train_subwords(TEXT, most, kind)).size == most
        assert Subwords(train_subwords(TEXT, 5000, kind, exact=False)).size == most
    with pytest.raises(UserError, match=r"`vocab_size`=100: .* at least (\d+)") as error:
        train_subwords(TEXT, 100)
    least = int(str(error.value).split("at least ")[1].split(";")[0])
    assert Subwords(train_subwords(TEXT, least)).size == least
    with pytest.raises(UserError, match="no line that a vocabulary could be trained on"):
        train_subwords([], 300)


def test_each_character_is_a_symbol_of_its_own() -> None:
    sums = [f"{a}+{b}" for a in range(30) for b in range(30)]
    subwords = Subwords(train_subwords(sums, 8000, "char"))
    assert subwords.size == 259 + len("▁0123456789+")
    blank, one, two, plus, again, end = subwords.encode(["12+1"])[0]
    assert one == again and len({blank, one, two, plus, end}) == 5 and end == 1
    # Rare characters are bytes, and no character is lost.
    few = Subwords(train_subwords(sums, 261, "char"))
    assert few.size == 261
    for text in ("12+1", "7 ä"):
        (ids,) = few.encode([text])
        assert few._processor.decode(ids[:-1]) == text
    with pytest.raises(UserError, match=r"`vocab_size`=100: .* 256 bytes need 259; give more"):
        train_subwords(sums, 100, "char")


@pytest.mark.slow
def test_an_exported_codec_takes_and_returns_strings(
    codec: TranslationCodec, tmp_path: Path
) -> None:
    module = tf.Module()
    module.codec = codec
    signature = [tf.TensorSpec([None], tf.string)]
    module.again = tf.function(
        lambda texts: codec.decode(codec.encode(texts)["inputs"]), input_signature=signature
    )
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    assert loaded.again(tf.constant(["Der  Fluss", ""])).numpy().tolist() == [b"Der Fluss", b""]


def test_what_is_no_model_is_named(tmp_path: Path) -> None:
    path = tmp_path / "subwords.model"
    with pytest.raises(UserError, match=r"subwords\.model cannot be read"):
        read_subwords(path)
    path.write_text("no model")
    with pytest.raises(UserError, match=r"subwords\.model is no sentencepiece model"):
        read_subwords(path)


def test_without_tensorflow_text_the_error_says_what_to_install(
    subwords: Subwords, monkeypatch: Any
) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    with pytest.raises(UserError, match=r"pip install 'tensorflow-text==2\.\d+\.\*'"):
        TranslationCodec(subwords)


def test_processes_that_encode_do_not_load_tensorflow() -> None:
    code = "import sys; import ut_tf.data.corpus.encoding; sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_no_bytes_are_no_model_and_sizes_beyond_counting_are_refused() -> None:
    with pytest.raises(UserError, match=r"^mine\.model is empty: expected the \.model file"):
        Subwords(b"", "mine.model")
    with pytest.raises(UserError, match=r"^`vocab_size`=99999999999"):
        train_subwords(TEXT, 99_999_999_999)


def test_long_lines_count_for_the_vocabulary() -> None:
    words = ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf"]
    rng = np.random.default_rng(0)
    documents = [" ".join(rng.choice(words, 1200)) for _ in range(10)]
    titles = [f"title line {number}" for number in range(8)]
    subwords = Subwords(train_subwords([*documents, *titles], 8000, exact=False))
    ids, lines = subwords.encode(documents), "".join(documents)
    # Each word is one subword; learnt from the titles alone it would be one for each character.
    assert sum(map(len, ids)) <= 1201 * len(documents) < len(lines) / 5
    alone = Subwords(train_subwords(documents, 8000, exact=False))
    assert alone.encode(documents[:1])[0][:3] == [
        alone.encode([word])[0][0] for word in documents[0].split()[:3]
    ]
    # A script without blanks is cut between characters.
    unspaced = ["".join(rng.choice([*"天地玄黄"], 5000)) for _ in range(3)]
    assert 2 not in Subwords(train_subwords(unspaced, 300, exact=False)).encode(["天地玄黄"])[0]


@given(st.text(st.sampled_from("ab é本𝒳"), max_size=60), st.integers(1, 4))
def test_parts_of_a_line_are_short_and_lose_blanks_alone(text: str, repeat: int) -> None:
    line = text * (100 * repeat)
    parts = list(cut_line(line))
    assert all(len(part.encode()) <= 4192 for part in parts)
    assert "".join(parts).replace(" ", "") == line.replace(" ", "")
    # No word is cut that would have had room.
    if " " in text and len(line.encode()) > 4192:
        assert {word for part in parts for word in part.split()} <= {*line.split()} | {""}
    if len(line.encode()) <= 4192:
        assert parts == [line]


def test_a_small_text_has_fewer_subwords_and_a_large_one_as_many_as_are_asked_for() -> None:
    lines = ["ab cd"] * 1000
    texts, size = fit_texts(lines, 8000)
    # 256 bytes, padding, end, unknown, five characters, and one for each hundred characters.
    assert (list(texts), size) == (lines, 259 + 5 + 50)
    texts, size = fit_texts(iter(lines), 290)
    assert (list(texts), size) == (lines, 290)
    assert fit_texts([], 300)[1] == 300


FOLDER = Path(__file__).resolve().parents[2] / "golden" / "t2t_subwords"
VOCABULARY = FOLDER / "vocab.toy.512.subwords"
REFERENCES: dict[str, Any] = json.loads((FOLDER / "references.json").read_text())


@pytest.fixture(scope="module")
def their_codec() -> Tensor2TensorCodec:
    made = make_subword_codec(read_subwords(VOCABULARY))
    assert isinstance(made, Tensor2TensorCodec)
    return made


def ids_of(rows: Any) -> list[list[int]]:
    """The ids of each row without padding."""
    return [[number for number in row if number] for row in rows.numpy().tolist()]


def padded(rows: list[list[int]]) -> Any:
    return tf.ragged.constant(rows, tf.int32).to_tensor()


def test_strange_lines_have_tensor2tensor_s_ids(their_codec: Tensor2TensorCodec) -> None:
    texts = [text for text, _ in REFERENCES["encoded"]]
    expected = [[*ids, END_ID] for _, ids in REFERENCES["encoded"]]
    assert len(texts) > 200
    subwords = read_subwords(VOCABULARY)
    assert subwords.size == REFERENCES["vocab_size"]
    for text, ids, theirs in zip(texts, subwords.encode(texts), expected, strict=True):
        assert ids == theirs, text
    encoded = ids_of(their_codec.encode(tf.constant(texts))["inputs"])
    for text, ids, theirs in zip(texts, encoded, expected, strict=True):
        assert ids == theirs, text
    assert ids_of(their_codec.encode(tf.constant([""]))["inputs"]) == [[END_ID]]


def test_ids_become_tensor2tensor_s_text(their_codec: Tensor2TensorCodec) -> None:
    rows = [ids for ids, _ in REFERENCES["decoded"]]
    written = [text.decode() for text in their_codec.decode(padded(rows)).numpy()]
    for ids, text, (_, theirs) in zip(rows, written, REFERENCES["decoded"], strict=True):
        assert text == theirs, ids
    there_and_back = [text for text, _ in REFERENCES["encoded"] if "\n" not in text]
    again = their_codec.decode(their_codec.encode(tf.constant(there_and_back))["inputs"]).numpy()
    assert [text.decode() for text in again] == [text.strip() for text in there_and_back]
    assert their_codec.decode(tf.constant([[END_ID, 5], [0, 5]])).numpy().tolist() == [b"", b""]


@pytest.mark.slow
def test_an_export_has_the_same_ids(their_codec: Tensor2TensorCodec, tmp_path: Path) -> None:
    module = tf.Module()
    module.codec = their_codec
    module.encode = tf.function(
        lambda texts: their_codec.encode(texts)["inputs"],
        [tf.TensorSpec([None], tf.string)],
        autograph=False,
    )
    module.decode = tf.function(
        their_codec.decode, [tf.TensorSpec([None, None], tf.int32)], autograph=False
    )
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    texts = [text for text, _ in REFERENCES["encoded"]]
    encoded = loaded.encode(tf.constant(texts))
    assert ids_of(encoded) == [[*ids, END_ID] for _, ids in REFERENCES["encoded"]]
    assert loaded.decode(encoded).numpy().tolist() == their_codec.decode(encoded).numpy().tolist()


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


def test_only_control_characters_and_blanks_are_changed(codec: TranslationCodec) -> None:
    kept = "„½ x² … ﬁ ™ 10\u00a0000 😀“ ＡＢＣ"
    given = (kept, "a\tb\x0bc\r", "  a   b  ", "a\x7fb\x9fc")
    assert there_and_back(codec, *given) == [kept, "a b c", "a b", "a b c"]
