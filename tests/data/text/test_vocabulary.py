"""Words and ids: lower case, no punctuation, and the same ids in a graph as outside."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

from ut_tf.data.text.vocabulary import (
    UNKNOWN,
    WordVocabulary,
    distinct_words,
    read_symbols,
    split_words,
    write_symbols,
)
from ut_tf.errors import UserError


def test_words_are_lower_case_and_without_punctuation() -> None:
    words = split_words(
        tf.constant(["Mary, John  moved; there.", "", "¿Où est l'ÉCOLE?"])
    ).to_list()
    assert [[word.decode() for word in row] for row in words] == [
        ["mary", "john", "moved", "there"],
        [],
        ["où", "est", "lécole"],
    ]


def test_ids_follow_the_file_and_words_come_back(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "words.txt"
    write_symbols(path, [UNKNOWN, *distinct_words(tf.constant(["b a.", "C a"]))])
    assert read_symbols(path) == [UNKNOWN, "a", "b", "c"]
    assert [item.name for item in path.parent.iterdir()] == ["words.txt"]
    vocabulary = WordVocabulary(path)
    assert len(vocabulary) == 6
    assert vocabulary.encode(tf.constant(["A c", "x b!"])).to_list() == [[3, 5], [2, 4]]
    assert vocabulary.decode([3, 5, 1, 0]) == "a c"
    in_graph = tf.function(lambda texts: vocabulary.encode(texts).to_tensor())(
        tf.constant(["A c", "b"])
    )
    assert in_graph.numpy().tolist() == [[3, 5], [4, 0]]
    assert in_graph.dtype == tf.int32


def test_only_a_new_line_divides_symbols(tmp_path: Path) -> None:
    symbols = [UNKNOWN, "a\u2028b", "c\x85", "d"]
    write_symbols(tmp_path / "words.txt", symbols)
    assert read_symbols(tmp_path / "words.txt") == symbols
    (tmp_path / "words.txt").write_bytes(b"a\r\nb\r\n")
    assert read_symbols(tmp_path / "words.txt") == ["a", "b"], "a copy from Windows"
    (tmp_path / "words.txt").write_bytes(b"a\n\xff\n")
    with pytest.raises(UserError, match=r"words\.txt is no text in UTF-8"):
        read_symbols(tmp_path / "words.txt")


def test_a_missing_or_empty_vocabulary_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no vocabulary .*words\.txt"):
        read_symbols(tmp_path / "words.txt")
    (tmp_path / "words.txt").touch()
    with pytest.raises(UserError, match=r"words\.txt is empty"):
        read_symbols(tmp_path / "words.txt")
