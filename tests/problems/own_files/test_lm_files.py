"""A language model of the user's own text: windows, held-out text, the commands."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ut_tf.data.text.codec import TextCodec
from ut_tf.data.text.subwords import train_subwords
from ut_tf.errors import UserError
from ut_tf.problems.own_files import language_model, large_text
from ut_tf.problems.own_files.language_model import LmFiles

SIZE = {"vocab_size": 300, "fit_vocabulary": False}
LINES = [f"line {number} of {'many ' * (number % 5)}words" for number in range(100)]


def problem_of(folder: Path, **options: object) -> LmFiles:
    path = folder / "text.txt"
    path.write_text("\n\n".join(LINES))
    return LmFiles(source_files=str(path), **{**SIZE, **options})  # type: ignore[arg-type]


def text_of(problem: LmFiles, split: str, data: Path, epoch: int = 0) -> list[str]:
    """The text of each window."""
    codec = problem.text_codec(problem.vocab_files(data)[0].parent)
    windows = problem.dataset(split, data, seed=1, epoch=epoch).as_numpy_iterator()
    ids = [window["targets"] for window in windows]
    return [codec.decode(tf.constant([row[row > 1]]))[0].numpy().decode() for row in ids]


def test_windows_cover_the_training_text_once_and_begin_elsewhere_in_each_epoch(tmp_path) -> None:
    problem = problem_of(tmp_path, window=20)
    problem.prepare(tmp_path / "data", tmp_path)
    epochs = [
        [row["targets"] for row in problem.dataset("train", tmp_path / "data", 1, epoch)]
        for epoch in (0, 1)
    ]
    counts = [np.bincount(np.concatenate(rows), minlength=300) for rows in epochs]
    np.testing.assert_array_equal(counts[0], counts[1])
    assert max(len(row) for row in epochs[0]) == 20
    firsts = [{tuple(row.numpy()) for row in rows} for rows in epochs]
    assert firsts[0] != firsts[1]
    # Each line ends with the end symbol, and four of the hundred are held out.
    assert counts[0][1] == 96


def test_files_for_test_are_judged_whole(tmp_path: Path) -> None:
    (tmp_path / "test.txt").write_text("first line\nsecond line\n")
    problem = problem_of(tmp_path, test_source_files=str(tmp_path / "test.txt"))
    problem.prepare(tmp_path / "data", tmp_path)
    assert problem.evaluation_sets()[0].split == "test"
    assert text_of(problem, "test", tmp_path / "data") == ["first line second line"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\n \n", "has no line that is not empty"),
        (b"alone\n", "1 line of text leaves none"),
        (b"fine\n\xe9t\xe9\n", "line 2: byte 1 of the line is not UTF-8"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_bytes(content)
    with pytest.raises(UserError, match=message):
        LmFiles(str(tmp_path / "text.txt")).prepare(tmp_path / "data", tmp_path)


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LmFiles:
    """A text that is too large for this memory, in shards of a few lines."""
    monkeypatch.setattr(language_model, "LARGEST_TEXT", 1000)
    monkeypatch.setattr(large_text, "_CHARACTERS_OF_A_SHARD", 300)
    monkeypatch.setattr(large_text, "usable_cores", lambda: 1)
    (tmp_path / "dev.txt").write_text("first line\nsecond line\n")
    return problem_of(tmp_path, window=20, dev_source_files=str(tmp_path / "dev.txt"))


def pooled_windows(problem: LmFiles, data: Path, epoch: int = 0) -> list[tuple[int, ...]]:
    pools = problem.example_pools(data, seed=1, epoch=epoch)
    assert pools is not None
    rows = []
    for number in range(pools.count):
        pool = pools.pool(number)
        features = pool.load()(np.arange(len(pool.lengths)))
        rows += [tuple(row[row > 0]) for row in features["targets"]]
        assert [len(row) for row in rows[-len(pool.lengths) :]] == pool.lengths.tolist()
    return rows


def test_a_large_text_is_the_same_text_in_shards(tmp_path: Path, large: LmFiles) -> None:
    data = tmp_path / "data"
    large.prepare(data, tmp_path)
    assert large.spec(data).target_vocab_size == 300
    epochs = [pooled_windows(large, data, epoch) for epoch in (0, 1)]
    counts = [np.bincount(np.concatenate(rows), minlength=300) for rows in epochs]
    np.testing.assert_array_equal(counts[0], counts[1])
    assert epochs[0] != epochs[1]
    assert epochs[0] == pooled_windows(large, data)
    validation = np.concatenate([row["targets"] for row in large.dataset("validation", data)])
    # Each line ends with the end symbol.
    assert (counts[0][1], np.sum(validation == 1)) == (100, 2)
    with pytest.raises(UserError, match=r"none are held out beyond 1,000: .*`dev_source_files`"):
        problem_of(tmp_path).prepare(data, tmp_path)


def test_a_stopped_preparation_of_a_large_text_goes_on(
    tmp_path: Path, large: LmFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    with monkeypatch.context() as patch:
        patch.setattr(language_model, "_encoded", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            large.prepare(data, tmp_path)
    (folder,) = (path for path in (data / "own_files").iterdir() if path.is_dir())
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert len(before) > 5
    large.prepare(data, tmp_path)
    assert {path: path.stat().st_mtime_ns for path in before} == before


CODE = [
    line
    for number in range(40)
    for line in (f"if x{number}:", f"    y = {number}", "        return  y", "\tz = 1 ", "end")
]


def prepared(folder: Path, **options: object) -> tuple[LmFiles, TextCodec]:
    (folder / "code.txt").write_text("\n".join(CODE))
    problem = LmFiles(source_files=str(folder / "code.txt"), **options)  # type: ignore[arg-type]
    problem.prepare(folder / "data", folder)
    return problem, problem.text_codec(problem.vocab_files(folder / "data")[0].parent)


@pytest.fixture(scope="module")
def keeping(tmp_path_factory: pytest.TempPathFactory) -> tuple[LmFiles, TextCodec, Path]:
    folder = tmp_path_factory.mktemp("keeping")
    return *prepared(folder, keep_blanks=True), folder / "data"


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.text(st.sampled_from(" \t\u00a0\u3000xy=1éß本") | st.characters(codec="utf-8")),
        min_size=1,
        max_size=8,
    )
)
def test_every_text_comes_back_with_all_its_blanks(
    keeping: tuple[LmFiles, TextCodec, Path], texts: list[str]
) -> None:
    # Control characters become blanks, U+2581 too, and U+FEFF goes.
    plain = [
        unicodedata.normalize(
            "NFC", "".join(c for c in text if c == "\t" or (c.isprintable() and c not in "▁\ufeff"))
        )
        for text in texts
    ]
    codec = keeping[1]
    ids = codec.encode_targets(tf.constant(plain))
    assert [text.decode() for text in codec.decode(ids).numpy()] == plain


def test_what_is_trained_on_has_its_indentation(keeping: tuple[LmFiles, TextCodec, Path]) -> None:
    problem, codec, data = keeping
    ids = np.concatenate([row["targets"] for row in problem.dataset("validation", data)])
    lines = np.split(ids, np.flatnonzero(ids == 1) + 1)[:-1]
    written = [codec.decode(tf.constant([line]))[0].numpy().decode() for line in lines]
    # Without those that stand in all parts of the text.
    assert set(written) <= set(CODE) and len(written) == 4
    assert any(line.startswith("    y") for line in written)
    # One subword for the indentation.
    assert len(codec.encode_targets(tf.constant(["        return  y"]))[0]) < 8


def test_a_given_vocabulary_must_keep_blanks_too(tmp_path: Path) -> None:
    for keeps in (True, False):
        (tmp_path / "given.model").write_bytes(train_subwords(CODE, 300, keep_blanks=keeps))
        options = {"keep_blanks": True, "vocab_file": str(tmp_path / "given.model")}
        if keeps:
            prepared(tmp_path, **options)
        else:
            with pytest.raises(UserError, match=r"given\.model drops blanks: give one"):
                prepared(tmp_path / ".." / tmp_path.name, **{**options, "window": 9})
        (tmp_path / "data").rename(tmp_path / f"data-{keeps}")
