"""A prepared corpus: what is left out and counted, what goes on where it was stopped, and what
several processes give.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gzip
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ut_tf.data import apache_beam_runner
from ut_tf.data.corpus import apache_beam_encoding
from ut_tf.data.corpus.corpus import Corpus, CorpusSettings
from ut_tf.data.corpus.encoded_pairs import read_shards
from ut_tf.data.corpus.encoding import Filters, encode_chunk, encode_split, shard_file
from ut_tf.data.corpus.held_out import LONGEST_JUDGED, HeldOut
from ut_tf.data.corpus.parallel_text import ParallelFiles, read_lines
from ut_tf.data.text.subword_files import read_subwords
from ut_tf.data.text.subwords import train_subwords
from ut_tf.errors import UserError

PAIRS = [(f"the number {n} and {n % 7}", f"die Zahl {n} und {n % 7}") for n in range(300)]
SETTINGS = CorpusSettings(vocab_size=320, exact=True)


@pytest.fixture(scope="module")
def vocab_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vocab") / "subwords.model"
    path.write_bytes(train_subwords((text for pair in PAIRS for text in pair), 320))
    return path


def ids_of(folder: Path, split: str = "train") -> list[tuple[list[int], list[int]]]:
    pairs = read_shards(sorted(folder.glob(f"{split}-*.npz")))
    sides = [
        [ids.tolist() for ids in np.split(side.ids, np.cumsum(side.lengths)[:-1])]
        for side in (pairs.sources, pairs.targets)
    ]
    return list(zip(*sides, strict=True))


def test_ids_on_disk_are_those_of_the_text(vocab_file: Path, tmp_path: Path) -> None:
    counts = encode_split(PAIRS, tmp_path, "train", vocab_file, chunk=64)
    assert counts == {"pairs": 300, "kept": 300}
    assert len(list(tmp_path.iterdir())) == 5
    subwords = read_subwords(vocab_file)
    expected = zip(*(subwords.encode(side) for side in zip(*PAIRS, strict=True)), strict=True)
    assert ids_of(tmp_path) == list(expected)


def test_what_is_left_out_is_counted_by_its_reason(vocab_file: Path) -> None:
    chunk = [
        ("one", "eins"),
        ("", "x"),
        ("x", " \t"),
        ("y" * 31, "z"),
        ("a b c d e f g h", "a"),
        ("a b c", "a"),
    ]
    pairs, counts = encode_chunk(
        chunk, read_subwords(vocab_file), Filters(max_characters=30, max_length_ratio=4.0)
    )
    assert counts == {"pairs": 6, "kept": 2, "empty": 2, "too_long": 1, "length_ratio": 1}
    assert len(pairs) == 2
    _, counts = encode_chunk(
        chunk, read_subwords(vocab_file), Filters(max_characters=0, max_length_ratio=0.0)
    )
    assert counts == {"pairs": 6, "kept": 4, "empty": 2}
    _, counts = encode_chunk(chunk, read_subwords(vocab_file), None)
    assert counts == {"pairs": 6, "kept": 6}, "nothing is left out of what is judged"


def test_finished_shards_are_kept_and_others_made(vocab_file: Path, tmp_path: Path) -> None:
    encode_split(PAIRS, tmp_path, "train", vocab_file, chunk=64)
    whole = ids_of(tmp_path)
    shard_file(tmp_path, "train", 1).unlink()
    (tmp_path / ".train-00001.npz.abc").write_bytes(b"half")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("train-*.npz")}
    assert encode_split(PAIRS, tmp_path, "train", vocab_file, chunk=64) == {
        "pairs": 300,
        "kept": 300,
    }
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert ids_of(tmp_path) == whole


def test_two_processes_write_what_one_writes(vocab_file: Path, tmp_path: Path) -> None:
    filters = Filters(max_characters=19)
    alone, together = tmp_path / "1", tmp_path / "2"
    counts = encode_split(
        PAIRS, alone, "train", vocab_file, filters, len(PAIRS), processes=1, chunk=30
    )
    assert (
        encode_split(
            PAIRS, together, "train", vocab_file, filters, len(PAIRS), processes=2, chunk=30
        )
        == counts
    )
    assert 0 < counts["too_long"] < 300
    assert ids_of(alone) == ids_of(together)


@pytest.mark.skipif(
    importlib.util.find_spec("apache_beam") is None, reason="Apache Beam is not installed"
)
def test_beam_writes_what_one_process_writes(vocab_file: Path, tmp_path: Path) -> None:
    from ut_tf.data.corpus.apache_beam_encoding import encode_with_beam

    filters = Filters(max_characters=19)
    counts = encode_split(PAIRS, tmp_path / "1", "train", vocab_file, filters, chunk=64)
    assert (
        encode_with_beam(
            PAIRS, tmp_path / "2", "train", vocab_file, filters, "runner=DirectRunner", chunk=64
        )
        == counts
    )
    assert ids_of(tmp_path / "1") == ids_of(tmp_path / "2")
    assert len(list((tmp_path / "2").iterdir())) == 5


def test_a_shard_that_beam_did_not_write_is_told_and_made_by_the_next_call(
    vocab_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(work: Callable[[int], None], items: Sequence[int], options: str) -> None:
        for number in items:
            if number != 2 or options == "second":
                work(number)

    monkeypatch.setattr(apache_beam_runner, "run_on_beam", run)
    encode = functools.partial(
        apache_beam_encoding.encode_with_beam, PAIRS, tmp_path, "train", vocab_file, None, chunk=64
    )
    with pytest.raises(UserError, match=r"left 1 file unwritten, first .*train-00002"):
        encode(options="first")
    assert encode(options="second") == {"pairs": 300, "kept": 300}
    assert not (tmp_path / "chunks").exists()


@pytest.mark.parametrize("state", ["DONE", "CANCELLED"])
def test_a_pipeline_that_was_cancelled_is_an_error(
    state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Pipeline:
        def __init__(self, options: object) -> None:
            del options

        def __or__(self, step: object) -> Pipeline:
            return self

        def run(self) -> SimpleNamespace:
            return SimpleNamespace(wait_until_finish=lambda: state)

    steps = {name: lambda *_: None for name in ("Create", "Reshuffle", "Map")}
    module = SimpleNamespace(Pipeline=Pipeline, **steps)
    monkeypatch.setitem(sys.modules, "apache_beam", module)  # type: ignore[arg-type]
    monkeypatch.setattr(apache_beam_runner, "require_beam", lambda: None)
    monkeypatch.setattr(apache_beam_runner, "_parsed", lambda _: None)
    refused = pytest.raises(UserError, match="ended as CANCELLED: what is finished is kept")
    with refused if state != "DONE" else contextlib.nullcontext():
        apache_beam_runner.run_on_beam(print, [1], "runner=DirectRunner")


def test_beam_that_is_not_installed_is_named(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UserError, match="pip install apache-beam, or leave them out"):
        Corpus(tmp_path / "c", SETTINGS, beam_options="runner=DirectRunner").prepare(
            {"train": PAIRS}, "test"
        )


class Interrupted(list[tuple[str, str]]):
    """Pairs whose reading is interrupted in the third pass: counting and the vocabulary are done
    then.
    """

    passes = 0

    def __iter__(self) -> Iterator[tuple[str, str]]:
        self.passes += 1
        for number, pair in enumerate(super().__iter__()):
            if self.passes == 3 and number == 250:
                raise KeyboardInterrupt
            yield pair


def test_a_stopped_preparation_goes_on(tmp_path: Path) -> None:
    splits = {"train": Interrupted(PAIRS), "validation": PAIRS[:5]}
    corpus = Corpus(tmp_path / "c", SETTINGS)
    with pytest.raises(KeyboardInterrupt):
        corpus.prepare(splits, "test")
    assert not corpus.prepared.is_complete()
    vocabulary = corpus.vocab_file.stat().st_mtime_ns
    corpus.prepare(splits, "test")
    assert splits["train"].passes == 4, "nothing was counted or trained anew"
    assert corpus.vocab_file.stat().st_mtime_ns == vocabulary
    fresh = Corpus(tmp_path / "d", SETTINGS)
    fresh.prepare({**splits, "train": PAIRS}, "test")
    assert ids_of(corpus.folder) == ids_of(fresh.folder)
    assert corpus.summary == fresh.summary


def test_a_stopped_preparation_from_other_settings_is_made_anew(tmp_path: Path) -> None:
    splits = {"train": PAIRS, "validation": PAIRS[:5]}
    corpus = Corpus(tmp_path / "c", SETTINGS)
    corpus.prepare(splits, "test")
    corpus.folder.joinpath("summary.json").unlink()
    other = Corpus(tmp_path / "c", dataclasses.replace(SETTINGS, vocab_size=310))
    other.prepare(splits, "test")
    assert other.summary["vocab_size"] == read_subwords(other.vocab_file).size == 310


def test_held_out_pairs_are_not_trained_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = [*PAIRS, *[(source, f"anders {source}") for source, _ in PAIRS], ("", "leer")]
    corpus = Corpus(tmp_path / "c", SETTINGS)
    corpus.prepare({"train": pairs}, "mine")
    sources, targets = corpus.text("validation")
    assert set(zip(sources, targets, strict=True)) < {*pairs}
    counts = corpus.summary["splits"]["train"]
    assert len(sources) == counts["held_out"] == counts["like_held_out"]
    assert 601 == counts["pairs"] == counts["kept"] + 2 * len(sources) + counts["empty"]
    encoded = {tuple(ids) for ids in read_subwords(corpus.vocab_file).encode(sources)}
    assert not encoded & {tuple(source) for source, _ in ids_of(corpus.folder)}
    told = capsys.readouterr().err
    assert f"mine: left out of training: {len(sources)} pairs held out for validation" in told
    assert "mine: left out of training: 1 pair with an empty side" in told


def test_neither_side_of_a_held_out_pair_is_trained_on() -> None:
    pairs = [
        *PAIRS,
        *[(f"again {source}", target) for source, target in PAIRS],
        *[(source, f"wieder {target}") for source, target in PAIRS],
    ]
    held_out = HeldOut(pairs, len(pairs), Filters())
    rest = list(held_out.training_pairs(pairs))
    for side in (0, 1):
        assert not {pair[side] for pair in held_out.pairs} & {pair[side] for pair in rest}
    assert len(rest) == len(pairs) - len(held_out.pairs) - held_out.alike


def test_what_is_too_long_to_be_judged_is_refused_with_its_line_and_not_held_out(
    tmp_path: Path,
) -> None:
    (tmp_path / "dev.tsv").write_text("kurz\tshort\nkurz\t" + "z " * LONGEST_JUDGED + "\n")
    corpus = Corpus(tmp_path / "c", SETTINGS)
    with pytest.raises(UserError, match=r"dev\.tsv, line 2"):
        corpus.prepare(
            {"train": PAIRS, "validation": ParallelFiles((tmp_path / "dev.tsv",))}, "mine"
        )
    assert not corpus.prepared.is_complete()
    long = [("z" * LONGEST_JUDGED, target) for _, target in PAIRS]
    with pytest.raises(UserError, match="leave none to hold out"):
        HeldOut(long, len(long), Filters())


@pytest.mark.parametrize("replaced", [False, True])
def test_shards_of_another_vocabulary_are_not_used(
    vocab_file: Path, tmp_path: Path, replaced: bool
) -> None:
    splits = {"train": Interrupted(PAIRS), "validation": PAIRS[:5]}
    corpus = Corpus(tmp_path / "c", SETTINGS)
    encode_split([("stale", "alt")] * 3, tmp_path / "c", "train", vocab_file)
    stale = shard_file(tmp_path / "c", "train", 0).read_bytes()
    with pytest.raises(KeyboardInterrupt):
        corpus.prepare(splits, "test")
    shard_file(corpus.folder, "train", 0).write_bytes(stale)
    corpus.vocab_file.unlink()
    if replaced:
        corpus.vocab_file.write_bytes(
            train_subwords(["another text", "of 9 words"], 290, exact=False)
        )
    corpus.prepare({**splits, "train": PAIRS}, "test")
    sources = read_subwords(corpus.vocab_file).encode([source for source, _ in PAIRS])
    assert [source for source, _ in ids_of(corpus.folder)] == sources


def test_a_default_size_gives_way_to_the_text_and_a_given_one_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    splits = {"train": PAIRS, "validation": PAIRS[:5]}
    by_default = Corpus(tmp_path / "c", CorpusSettings(vocab_size=8000, exact=False))
    by_default.prepare(splits, "mine")
    size = by_default.summary["vocab_size"]
    assert 300 < size < 8000
    assert f"has {size} subwords instead of 8,000" in capsys.readouterr().err
    with pytest.raises(UserError, match=f"at most {size} subwords"):
        Corpus(tmp_path / "c", CorpusSettings(vocab_size=8000, exact=True)).check()
    with pytest.raises(UserError, match=f"at most {size} subwords"):
        Corpus(tmp_path / "d", CorpusSettings(vocab_size=8000, exact=True)).prepare(splits, "mine")


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
