"""LAMBADA as reading: passages of novels, folds, text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.problems.lambada.small_archive import (
    VOCABULARY,
    prepared,
    spoken,
    symbols_of,
    write_archive,
)
from ut_tf.errors import UserError
from ut_tf.problems.lambada.archive import (
    PASSAGE_FILES,
)
from ut_tf.problems.lambada.codec import PassageCodec
from ut_tf.problems.lambada.corpus import Texts, fold_of
from ut_tf.problems.lambada.passages import cut_passages, gather_words
from ut_tf.problems.lambada.reading import LambadaRC


def test_reading_asks_with_the_last_sentence(tmp_path: Path) -> None:
    passages = (
        "zork sat . he saw the cat and zork\nzork sat . blob saw blob\n`` he sat . '' zork saw"
        " he\nall one cat\n"
    )
    write_archive(tmp_path / "tmp", validation=passages, vocabulary=VOCABULARY + "``\t1\n''\t1\n")
    problem = LambadaRC()
    data_dir = prepared(problem, tmp_path)
    batch = problem.examples("validation", data_dir).batch(tf.range(4))
    said = [spoken(problem, data_dir, row) for row in batch["inputs"]]
    assert said[0] == "<unknown-1> sat . <end> he saw the cat and <end>"
    # Marks that close a sentence belong to it, not to the question.
    assert said[2] == "`` he sat . '' <end> <unknown-1> saw <end>"
    symbols = symbols_of(problem, data_dir)
    # The second passage's word stands in the question alone, the last passage has no context but
    # its own beginning.
    assert [symbols[number] for number in batch["targets"].numpy()] == ["<unknown-1>", "", "he", ""]
    assert said[3].endswith("<end> <end>")


def test_passages_of_novels_end_with_a_word_that_stands_before() -> None:
    vocabulary = [
        "w" + "".join(chr(ord("a") + int(digit)) for digit in str(number)) for number in range(300)
    ]
    words = ["<unknown>", *vocabulary, ".", "''"]
    ids = {word: 2 + place for place, word in enumerate(words)}
    rare, other, common = vocabulary[250], vocabulary[260], vocabulary[3]
    sentence = [*vocabulary[:25], "."]
    book = [
        *sentence,
        *sentence,
        rare,
        rare,
        ".",
        rare,
        *sentence,
        *sentence,
        vocabulary[7],
        rare,
        ".",
        "''",
    ]
    # The word of the next to last sentence stands nowhere before, that of the last one is too
    # common to be asked for.
    book += [vocabulary[8], other, ".", vocabulary[9], common, "."]
    texts = Texts(
        np.array([ids[word] for word in book], np.int32), np.array([0, len(book)], np.int64)
    )
    found = cut_passages(texts, words, longest=120)
    assert len(found) == 1
    start, question, answer = found.starts[0], found.questions[0], found.answers[0]
    assert book[question:answer] == [vocabulary[7]] and book[answer] == rare
    # The context are two sentences: one would be shorter than fifty words, three are not needed.
    assert book[start:question] == [rare, *sentence, *sentence]
    assert len(cut_passages(texts, words, longest=50)) == 0
    # Of two books each has its own: a context never begins in the book before.
    two = Texts(
        np.concatenate([texts.words[len(sentence) :], texts.words]),
        np.array([0, len(book) - 26, 2 * len(book) - 26], np.int64),
    )
    of_second = found.moved(len(book) - 26)
    again = cut_passages(two, words, longest=120)
    assert again.starts.tolist() == [start - 26, *of_second.starts] and again.answers.tolist() == [
        answer - 26,
        *of_second.answers,
    ]
    own, alone = gather_words(two, again)
    for number in range(2):
        kept = own.words[alone.starts[number] : alone.answers[number] + 1]
        assert [words[word - 2] for word in kept] == book[start : answer + 1]
    assert len(own.words) == 2 * (answer + 1 - start) == own.starts[-1]


def test_cross_validation_judges_every_passage_once_and_trains_on_none_of_them(
    tmp_path: Path,
) -> None:
    passages = "".join(f"w{number} sat . he saw w{number}\n" for number in range(40))
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / PASSAGE_FILES["validation"]).write_text(passages)
    judged: list[int] = []
    for fold in (1, 2, 3, 4):
        problem = LambadaRC(passages=0, folds=4, fold=fold)
        data_dir = prepared(problem, tmp_path)
        sizes = {split: len(problem.examples(split, data_dir)) for split in problem.splits}
        assert sizes == {"train": 27, "validation": 3, "test": 10}
        parts = problem._part(problem._texts("validation", data_dir))
        judged += np.flatnonzero(parts == "test").tolist()
        assert problem.data_note(data_dir).startswith(f"fold {fold} of 4 of the development set")
    assert sorted(judged) == list(range(40))


def test_passages_that_overlap_are_in_one_fold() -> None:
    drawn = np.random.default_rng(5).integers(1, 2**20, [30, 40]).astype(np.int32)
    # The first 15 words of passage 20 end passage 3, and those that end it begin passage 11; of
    # passage 7 only 14 are in passage 8.
    drawn[20, :15], drawn[11, :15], drawn[8, :14] = drawn[3, -15:], drawn[20, -15:], drawn[7, -14:]
    passages = Texts(drawn.ravel(), np.arange(0, 30 * 40 + 1, 40))
    for folds in (2, 5, 30):
        found = fold_of(passages, folds)
        assert found[3] == found[20] == found[11]
    # Of thirty folds for thirty passages each has one, but for those that these have left.
    assert len(set(fold_of(passages, 30))) == 28


def test_what_cannot_be_answered_is_judged_but_not_trained_on(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    passages = "".join(
        f"w{number} sat . he saw {f'w{number}' if number % 2 else 'blob'}\n" for number in range(40)
    )
    (tmp_path / "tmp" / PASSAGE_FILES["validation"]).write_text(passages)
    problem = LambadaRC(passages=0, folds=2)
    data_dir = prepared(problem, tmp_path)
    assert all(example["targets"].numpy() for example in problem.dataset("train", data_dir))
    assert len(problem.examples("test", data_dir)) == 20
    assert not all(example["targets"].numpy() for example in problem.dataset("test", data_dir))


def test_passages_as_text_have_the_features_of_training(tmp_path: Path) -> None:
    write_archive(tmp_path / "tmp")
    problem = LambadaRC(vocab_size=8)
    data_dir = prepared(problem, tmp_path)
    codec = problem.text_codec(problem.vocab_files(data_dir)[0].parent)
    assert isinstance(codec, PassageCodec)
    lines = ["zork saw\u00a0the cat .\tshe\u2003saw"]
    (fields,) = codec.read(lines, "passages.txt")
    inputs = codec.encode(*(tf.constant([text]) for text in fields))["inputs"]
    expected = problem.examples("validation", data_dir).batch(tf.constant([0]))
    assert inputs.numpy().tolist() == expected["inputs"].numpy().tolist()
    assert codec.decode(expected["targets"]).numpy().tolist() == [b"<unknown-1>"]
    assert (
        codec.encode(tf.constant(["zork saw the cat ."]), tf.constant(["she saw"]))["inputs"]
        .numpy()
        .tolist()
        == inputs.numpy().tolist()
    )
    assert codec.encode_targets(tf.constant(["Cat ", "zork"])).numpy().tolist() == [
        symbols_of(problem, data_dir).index("cat"),
        -1,
    ]
    for wrong in ("no tab", "two\ttabs\there", " \tno context"):
        with pytest.raises(UserError, match=r"passages\.txt, line 2"):
            list(codec.read([lines[0], wrong], "passages.txt"))


def test_accuracy_is_the_share_that_is_not_wrong() -> None:
    assert LambadaRC().summarize({"error": 40.0, "loss": 1.0}) == {"accuracy": pytest.approx(0.6)}
    (interval,) = (
        LambadaRC().summarize_intervals({"error": (30.0, 45.0), "loss": (1.0, 2.0)}).items()
    )
    assert interval == ("accuracy", (pytest.approx(0.55), pytest.approx(0.7)))
    assert LambadaRC().summarize_intervals({}) == {}
