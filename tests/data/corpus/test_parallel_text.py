"""Parallel text: what the files hold comes out as it stood, and what they should not hold is told
with file and line.
"""

from __future__ import annotations

import gzip
import os
import threading
from pathlib import Path

import pytest

from ut_tf.data.corpus.parallel_text import ParallelFiles, read_lines
from ut_tf.errors import UserError


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    data = content.encode("utf-8") if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def test_lines_come_in_pairs_from_plain_and_packed_files(tmp_path: Path) -> None:
    sources = (written(tmp_path, "a.en.gz", "one\ntwo\n"), written(tmp_path, "b.en", "three"))
    targets = (written(tmp_path, "a.de", "eins\nzwei\n"), written(tmp_path, "b.de.gz", "drei\n"))
    pairs = ParallelFiles(sources, targets)
    assert list(pairs) == [("one", "eins"), ("two", "zwei"), ("three", "drei")]
    assert list(pairs) == list(pairs), "every pass reads the files again"
    assert pairs.files == (*sources, *targets)


def test_only_line_ends_are_taken_away(tmp_path: Path) -> None:
    source = written(tmp_path, "a.en", "\ufeffone \r\n\ttwo\u2028still two\x0b\n\nfour\x85four")
    target = written(tmp_path, "a.de", "1\r\n2\n3\n4")
    assert list(ParallelFiles((source,), (target,))) == [
        ("one ", "1"),
        ("\ttwo\u2028still two\x0b", "2"),
        ("", "3"),
        ("four\x85four", "4"),
    ]


def test_packing_is_seen_in_the_content_not_in_the_name(tmp_path: Path) -> None:
    path = tmp_path / "pairs.txt"
    path.write_bytes(gzip.compress(b"one\teins\n"))
    assert list(ParallelFiles((path,))) == [("one", "eins")]


def test_tabs_part_source_and_target_and_further_columns_are_ignored(tmp_path: Path) -> None:
    path = written(tmp_path, "pairs.tsv", "one\teins\nGo.\tGeh.\tCC-BY\tTatoeba\n\tleer\n")
    assert list(ParallelFiles((path,))) == [("one", "eins"), ("Go.", "Geh."), ("", "leer")]


@pytest.mark.parametrize(("sources", "targets"), [(3, 5), (5, 3), (0, 2), (1, 2)])
def test_unequal_files_are_refused_with_their_counts(
    tmp_path: Path, sources: int, targets: int
) -> None:
    first, second = (
        written(tmp_path, "a.en", "x\n" * sources),
        written(tmp_path, "a.de", "y\n" * targets),
    )
    with pytest.raises(UserError, match=rf"a\.en has {sources}"):
        list(ParallelFiles((first,), (second,)))


def test_bytes_that_are_no_utf_8_are_refused_with_file_and_line(tmp_path: Path) -> None:
    first = written(tmp_path, "a.en", "one\ntwo\n")
    second = written(tmp_path, "latin.de", "eins\nfünf\n".encode("latin-1"))
    with pytest.raises(UserError, match=r"latin\.de, line 2"):
        list(ParallelFiles((first,), (second,)))


def test_a_line_without_a_tab_is_refused_with_file_and_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"pairs\.tsv, line 2: 'two zwei' has no tab"):
        list(ParallelFiles((written(tmp_path, "pairs.tsv", "one\teins\ntwo zwei\n"),)))


def test_files_that_cannot_be_are_refused(tmp_path: Path) -> None:
    first, empty = written(tmp_path, "a.en", "x\n"), written(tmp_path, "empty", "")
    with pytest.raises(UserError, match=r"1 source file \(a\.en\) but 2 target files \(a\.en"):
        ParallelFiles((first,), (first, empty))
    with pytest.raises(UserError, match=r"absent\.de is no file"):
        list(ParallelFiles((first,), (tmp_path / "absent.de",)))
    with pytest.raises(UserError, match="is no file"):
        list(ParallelFiles((tmp_path,)))
    for pairs in (ParallelFiles((empty,), (empty,)), ParallelFiles((empty,))):
        with pytest.raises(UserError, match="no lines"):
            list(pairs)


@pytest.mark.parametrize("packed", [False, True])
def test_a_pipe_gives_all_its_lines_packed_or_not(tmp_path: Path, packed: bool) -> None:
    pipe, lines = tmp_path / "pipe", [f"line {number}" for number in range(20_000)]
    content = "\n".join(lines).encode()
    os.mkfifo(pipe)
    writer = threading.Thread(
        target=pipe.write_bytes, args=(gzip.compress(content) if packed else content,)
    )
    writer.start()
    assert list(read_lines(pipe)) == lines
    writer.join()


def test_pairs_have_a_file_and_a_line(tmp_path: Path) -> None:
    sources = (written(tmp_path, "a.en.gz", "one\ntwo\n"), written(tmp_path, "b.en", "three"))
    targets = (written(tmp_path, "a.de", "eins\nzwei\n"), written(tmp_path, "b.de", "drei\n"))
    pairs = ParallelFiles(sources, targets)
    assert pairs.place(1) == f"{sources[0]}, line 2"
    assert pairs.place(2, of_target=True) == f"{targets[1]}, line 1"


def test_a_packed_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cut.gz"
    whole = gzip.compress(
        "".join(f"line {number * 7919}\tZeile\n" for number in range(20_000)).encode()
    )
    for content in (whole[: len(whole) // 2], whole[:100] + b"\x00" * 50 + whole[150:]):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"cut\.gz cannot be unpacked after line \d+"):
            list(ParallelFiles((path,)))
