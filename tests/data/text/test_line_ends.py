"""Files whose lines end with CR alone are refused by every reader of text, by their names."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from ut_tf.bin.frame.command import _lines_of
from ut_tf.data.corpus.parallel_text import ParallelFiles, read_lines
from ut_tf.data.text.line_ends import check_line_ends
from ut_tf.data.text.utf8 import decode_utf8
from ut_tf.data.text.vocabulary import (
    UNKNOWN,
    WordVocabulary,
    distinct_words,
    read_symbols,
    split_words,
    write_symbols,
)
from ut_tf.errors import UserError
from ut_tf.inference.text_files import read_input
from ut_tf.problems.agreement.files import read_simplified
from ut_tf.problems.lambada.archive import PASSAGE_FILES, VOCABULARY_FILE, Sources
from ut_tf.problems.own_files.labelled_text import LabelledFiles, read_labelled
from ut_tf.problems.own_files.large_text import lines_of

READERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "pairs.tsv": ("one\teins\ntwo\tzwei", lambda path: list(ParallelFiles((path,)))),
    "source.en": ("one\ntwo", lambda path: list(ParallelFiles((path,), (path,)))),
    "classes.tsv": ("a\tone\nb\ttwo", lambda path: list(read_labelled(LabelledFiles((path,))))),
    "table.csv": ("text,label\none,a", lambda path: list(read_labelled(LabelledFiles((path,))))),
    "objects.jsonl": (
        '{"text": "one", "label": 1}\n{"text": "two", "label": 2}',
        lambda path: list(read_labelled(LabelledFiles((path,)))),
    ),
    "book.txt": ("one\ntwo", lambda path: list(lines_of([path]))),
    "ut-decoder, ut-query": ("one\ntwo", read_input),
    "ut-bleu": ("one\ntwo", lambda path: list(read_lines(path))),
    "standard input": ("one\ntwo", lambda path: list(_lines_of(io.BytesIO(path.read_bytes())))),
    "passages.txt": (
        "one two\nthree four",
        lambda path: Sources(None, {PASSAGE_FILES["test"]: path}).passages("test"),
    ),
    "words.txt": (
        "one\t1\ntwo\t2",
        lambda path: Sources(None, {VOCABULARY_FILE: path}).vocabulary(),
    ),
}


@pytest.mark.parametrize("name", READERS)
def test_cr_line_ends_are_refused_by_every_reader(name: str, tmp_path: Path) -> None:
    text, read = READERS[name]
    path = tmp_path / name
    # The last line may have its end or not, as with LF.
    for content in (text, text + "\n"):
        path.write_bytes(content.replace("\n", "\r").encode())
        with pytest.raises(UserError, match=rf"{name}, line 1 has CR line ends .* 2 lines .* LF"):
            read(path)
    for content in (text, text.replace("\n", "\r\n") + "\r\n"):
        path.write_bytes(content.encode())
        assert read(path)


def test_packed_files_and_the_tables_of_agreement_too(tmp_path: Path) -> None:
    packed = tmp_path / "a.gz"
    packed.write_bytes(gzip.compress(b"one\rtwo\rthree\r"))
    with pytest.raises(UserError, match=r"a\.gz, line 1 has CR line ends .* 3 lines"):
        read_input(packed)
    (tmp_path / "numpred.val").write_bytes(b"VBZ\tthe cat\rVBP\tcats")
    (tmp_path / "numpred.test.1").write_bytes(b"VBZ\tthe cat\n")
    with pytest.raises(UserError, match=r"numpred\.val, line 1 has CR line ends"):
        read_simplified(tmp_path)


@pytest.mark.parametrize("name", READERS)
def test_cr_line_ends_are_refused_below_one_lf(name: str, tmp_path: Path) -> None:
    # Old files that were joined, each with an LF at its end.
    text, read = READERS[name]
    first, rest = text.split("\n", 1)
    path = tmp_path / name
    path.write_bytes(f"{first}\n{rest}\r{rest}\r{rest}\n".encode())
    with pytest.raises(UserError, match=rf"{name}, line 2 has CR line ends .* 3 lines"):
        read(path)


def test_other_line_ends_are_left_alone() -> None:
    crawled = [*[b"one\n"] * 9, b"two\rthree\n", b"four\r\n"]
    for lines in (
        crawled,
        [b"five\r\n", b"six"],
        [b"four\r\n"],
        [b"four\r"],
        [b"a\r\r\n"],
        [b"\r"],
        [],
    ):
        assert list(check_line_ends(lines, "a")) == lines


@pytest.mark.parametrize(
    ("content", "line", "place"),
    [
        (b"fine\nf\xfcnf\n", 1, r"line 2: byte 2 of the line is not UTF-8 \(0xfc\)"),
        (b"\xff", 7, r"line 7: byte 1 of the line is not UTF-8 \(0xff\)"),
        # The mark at the beginning is three bytes of its line.
        (b"\xef\xbb\xbfcut \xe2\x82", 1, r"line 1: byte 8 of the line is not UTF-8 \(0xe2\)"),
    ],
)
def test_a_byte_that_is_no_utf_8_is_told_of_by_its_place(
    content: bytes, line: int, place: str
) -> None:
    with pytest.raises(UserError, match=rf"^a\.txt, {place}: mend it\.$"):
        decode_utf8(content, "a.txt", "mend it", line)


def test_a_byte_order_mark_is_no_text_where_a_file_begins_and_text_elsewhere() -> None:
    marked = "\ufeffone\n\ufefftwo".encode()
    assert decode_utf8(marked, "a.txt", "") == "one\n\ufefftwo"
    assert decode_utf8(marked, "a.txt", "", line=2) == "\ufeffone\n\ufefftwo"


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
