"""LAMBADA's files: read, prepared, damaged, changed; arguments that cannot be."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.problems.lambada.small_archive import (
    NOVELS,
    PASSAGES,
    novels_tar,
    prepared,
    spoken,
    symbols_of,
    write_archive,
)
from ut_tf.errors import UserError
from ut_tf.problems.lambada.archive import (
    NOVELS_FILE,
    PASSAGE_FILES,
    VOCABULARY_FILE,
    find_sources,
    text_files,
)
from ut_tf.problems.lambada.language_model import LambadaLM
from ut_tf.problems.lambada.reading import LambadaRC


def test_the_archive_gives_vocabulary_passages_and_novels(tmp_path: Path) -> None:
    write_archive(tmp_path / "tmp")
    problem = LambadaLM(vocab_size=4, unknown_words=2)
    data_dir = prepared(problem, tmp_path)
    # The four most frequent of the file; equal counts in the alphabet's order.
    assert symbols_of(problem, data_dir)[2:-1] == [
        "<unknown>",
        "<absent>",
        "<unknown-1>",
        "<unknown-2>",
        "saw",
        "the",
        ".",
        "and",
    ]
    assert problem.spec(data_dir).target_vocab_size == 10
    summary = problem._prepared(data_dir).summary
    assert summary["splits"]["train"] == {"texts": 2, "words": 22, "unknown": 10, "unknown_last": 0}
    assert {split: counts["texts"] for split, counts in summary["splits"].items()} == {
        "train": 2,
        "validation": 2,
        "test": 1,
        "control": 1,
    }
    assert problem.data_note(data_dir) == ""
    control = LambadaLM(name="lambada_lm_control", control=True, vocab_size=4, unknown_words=2)
    assert (
        spoken(control, data_dir, next(iter(control.dataset("test", data_dir)))["targets"])
        == "<unknown-1> saw the <unknown-2> . <unknown> <absent>"
    )


def test_running_text_makes_its_own_vocabulary(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tmp" / "lambada" / "books").mkdir(parents=True)
    for number, text in enumerate(
        ('"Zork," he said. The cat sat.', "Then he sat; the cat didn't.", "The CAT!")
    ):
        (tmp_path / "tmp" / "lambada" / "books" / f"{number}.txt").write_text(text)
    with gzip.open(
        tmp_path / "tmp" / "lambada" / f"{PASSAGE_FILES['validation']}.gz", "wt"
    ) as file:
        file.write(PASSAGES["validation"])
    problem = LambadaLM(train_files="books", min_books=2)
    data_dir = prepared(problem, tmp_path)
    assert symbols_of(problem, data_dir)[24:-1] == [".", "cat", "the", "he", "sat"]
    told = capsys.readouterr().err
    assert (
        "3 books" in told
        and "there is no lambada_test_plain_text.txt" in told
        and "made from the training text" in told
    )
    assert "trained on 3 other books" in problem.data_note(data_dir)
    with pytest.raises(UserError, match="without the test passages"):
        problem.examples("test", data_dir)
    # Prepared data needs neither the files nor the same working directory.
    LambadaLM(train_files="books", min_books=2).prepare(data_dir, tmp_path / "nowhere")


def test_a_folder_and_a_tar_file_of_texts_give_the_same(tmp_path: Path) -> None:
    (tmp_path / PASSAGE_FILES["validation"]).write_text(PASSAGES["validation"])
    (tmp_path / "books").mkdir()
    (tmp_path / "books" / "a.txt").write_text("one two .")
    (tmp_path / "books.tar").write_bytes(
        novels_tar({"books/a.txt": "one two .", "books/README.md": "no text"})
    )
    sources = [find_sources(tmp_path, name, "lambada_lm") for name in ("books", "books.tar")]
    assert [[words for _, words in one.books(tokenize=True)] for one in sources] == [
        [["one", "two", "."]]
    ] * 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocabulary": "and\t3\ncat\n"}, rf"{VOCABULARY_FILE}, line 2"),
        ({"vocabulary": "and\t3\ncat\t1\nand\t2\n"}, rf"{VOCABULARY_FILE}, line 3"),
        ({"validation": b"one two\nthr\xe9e four\n"}, r"lambada_development_plain_text.txt, line"),
        ({"novels": novels_tar({"train-novels/X/x.txt": b"a\nb\n\xff"})}, r"train-novels.tar"),
        ({"novels": novels_tar(NOVELS)[:700]}, r"lambada-dataset.tar.gz:train-novels.tar cannot"),
        # Cut off where the first novel ends, and inside of the header of the second: tarfile itself
        # takes these for whole.
        ({"novels": novels_tar(NOVELS)[:1024]}, r"lambada-dataset.tar.gz:train-novels.tar cannot"),
        ({"novels": novels_tar({})}, r"has no training text"),
        *(
            ({"without": name}, rf"lambada-dataset.tar.gz has no {name}")
            for name in (NOVELS_FILE, VOCABULARY_FILE, PASSAGE_FILES["test"])
        ),
    ],
)
def test_what_is_wrong_in_the_archive_is_named(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    write_archive(tmp_path / "tmp", **changes)
    with pytest.raises(UserError, match=message):
        prepared(LambadaLM(), tmp_path)
    assert not LambadaLM()._corpus(tmp_path / "data").prepared.is_complete()


def test_other_texts_than_those_that_were_prepared_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / PASSAGE_FILES["validation"]).write_text(PASSAGES["validation"])
    for place in ("here", "there"):
        (tmp_path / place / "books").mkdir(parents=True)
        (tmp_path / place / "books" / "a.txt").write_text(f"The cat sat {place}.")
    problem = LambadaLM(train_files="books", min_books=1)
    monkeypatch.chdir(tmp_path / "here")
    data_dir = prepared(problem, tmp_path)
    problem.prepare(data_dir, tmp_path / "tmp")
    monkeypatch.chdir(tmp_path / "there")
    with pytest.raises(UserError, match=r"there/books/a.txt is not among the files that .* was"):
        problem.prepare(data_dir, tmp_path / "tmp")
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here" / "books" / "b.txt").write_text("More.")
    with pytest.raises(UserError, match=r"here/books/b.txt is not among"):
        problem.prepare(data_dir, tmp_path / "tmp")


def test_a_folder_that_cannot_be_read_is_no_folder_without_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "books" / "locked").mkdir(parents=True)
    scandir = os.scandir

    def refuse(path: Any) -> Any:
        if Path(path).name == "locked":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr("os.scandir", refuse)
    with pytest.raises(PermissionError, match="locked"):
        text_files(tmp_path / "books")


def test_data_of_another_format_is_to_be_prepared_again(tmp_path: Path) -> None:
    write_archive(tmp_path / "tmp")
    data_dir = prepared(LambadaLM(), tmp_path)
    summary = LambadaLM()._corpus(data_dir).folder / "summary.json"
    summary.write_text(json.dumps({**json.loads(summary.read_text()), "format": 0}))
    with pytest.raises(UserError, match=r"its format is 0, expected 1.*delete it, it will be"):
        LambadaLM().prepare(data_dir, tmp_path / "tmp")


def test_arguments_that_cannot_be_are_refused(tmp_path: Path) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"passages": 0}, "nothing to train on"),
        ({"folds": 1}, "`folds`=1, `fold`=1: expected no folds or at least 2"),
        ({"folds": 3, "fold": 4}, "fold from 1 to folds"),
        ({"folds": 2, "control": True}, "`folds`=2 says what is judged"),
        ({"folds": 2, "passages": 0, "train_files": "books"}, "leave `train_files`=books out"),
        ({"longest": 51}, "`longest`=51: expected at least 52"),
    ]
    for arguments, message in wrong:
        with pytest.raises(UserError, match=message):
            LambadaRC(**arguments)
    with pytest.raises(UserError, match="leave `evaluate_on`=development out"):
        LambadaLM(control=True, evaluate_on="development")
    with pytest.raises(UserError, match="`window`=1"):
        LambadaLM(window=1)
    with pytest.raises(UserError, match="`train_files`=gone"):
        prepared(LambadaLM(train_files="gone"), tmp_path)
