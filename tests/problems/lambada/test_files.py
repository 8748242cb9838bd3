"""LAMBADA's files: read, prepared, damaged, changed; arguments that cannot be."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.problems.lambada.small_archive import (
    NOVELS,
    PASSAGES,
    VOCABULARY,
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
)
from ut_tf.problems.lambada.codec import PassageCodec, WordsCodec
from ut_tf.problems.lambada.corpus import ABSENT_ID, FIRST_NUMBERED_ID, UNKNOWN_ID, Texts
from ut_tf.problems.lambada.language_model import LambadaLM
from ut_tf.problems.lambada.passages import cut_passages, gather_words, number_unknown, windows
from ut_tf.problems.lambada.reading import LambadaRC
from ut_tf.problems.lambada.tokens import treebank_tokens
from ut_tf.symbols import END_ID


def test_the_archive_gives_vocabulary_passages_and_novels(tmp_path: Path) -> None:
    write_archive(tmp_path / "tmp")
    problem = LambadaLM(vocab_size=4, unknown_words=2)
    data_dir = prepared(problem, tmp_path)
    # The four most frequent of the file; equal counts in the alphabet's order.
    assert symbols_of(problem, data_dir)[2:-1] == [
        *("<unknown>", "<absent>", "<unknown-1>", "<unknown-2>", "saw", "the", ".", "and"),
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


def test_arguments_that_cannot_be_are_refused(tmp_path: Path) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"passages": 0}, "`passages`=0: expected at least 1"),
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
        *(rare, rare, ".", rare),
        *sentence,
        *sentence,
        vocabulary[7],
        *(rare, ".", "''"),
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


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ('"I can\'t go," said Mr. Pip.', "`` i ca n't go , '' said mr. pip ."),
        (
            "'What?!' he cried at 5 p.m. on the dogs' day.",
            "` what ?! ' he cried at 5 p.m. on the dogs ' day .",
        ),
        ("'Tis J. Smith's--isn't it?", "'t is j. smith 's -- is n't it ?"),
        (
            "Yes... so said I. O'clock; 3,000.50 (e.g. 'em)",
            "yes ... so said i . o'clock ; 3,000.50 -lrb- e.g. 'em -rrb-",
        ),
        ("“We’ll cannot”—she’d said", "`` we 'll can not '' -- she 'd said"),
        ('line\nbreak"\n"next', "line break '' `` next"),
    ],
)
def test_running_text_is_divided_as_the_treebank_is(text: str, tokens: str) -> None:
    assert " ".join(treebank_tokens(text)) == tokens


def test_windows_cover_every_text_once_and_follow_from_the_seed() -> None:
    starts = np.array([0, 50, 153])
    begins, lengths = windows(starts, 16, np.random.default_rng([3, 1]))
    covered = np.concatenate(
        [np.arange(begin, begin + length) for begin, length in zip(begins, lengths, strict=True)]
    )
    assert len(np.unique(covered)) == len(covered) >= 153 - 4 * 7
    assert lengths.max() == 16 and lengths.min() >= 8
    assert not any(
        begin < 50 < begin + length for begin, length in zip(begins, lengths, strict=True)
    )
    again, other = (windows(starts, 16, np.random.default_rng([3, epoch]))[0] for epoch in (1, 2))
    assert begins.tolist() == again.tolist() != other.tolist()


def test_unknown_words_are_numbered_inside_each_row() -> None:
    ids, fresh = number_unknown(
        tf.constant([[5, 90, 91, 90, 92, 92, 0], [91, 5, 90, 91, 0, 0, 0]]),
        vocab_size=50,
        unknown_words=2,
    )
    first, second = FIRST_NUMBERED_ID, FIRST_NUMBERED_ID + 1
    assert ids.numpy().tolist() == [
        [5, first, second, first, UNKNOWN_ID, UNKNOWN_ID, 0],
        [first, 5, second, first, 0, 0, 0],
    ]
    assert fresh.numpy().astype(int).tolist() == [[0, 1, 1, 0, 1, 0, 0], [1, 0, 1, 0, 0, 0, 0]]


def test_a_language_model_sees_windows_and_is_judged_on_passages(tmp_path: Path) -> None:
    write_archive(tmp_path / "tmp")
    problem = LambadaLM(vocab_size=8, window=100)
    data_dir = prepared(problem, tmp_path)
    batch = problem.examples("validation", data_dir).batch(tf.constant([0, 1]))["targets"].numpy()
    # A name that the passage has is told apart; one that comes only at the end can never be guessed
    # rightly.
    assert spoken(problem, data_dir, batch[0]) == "<unknown-1> saw the cat . she saw <unknown-1>"
    assert spoken(problem, data_dir, batch[1]) == "the cat saw <unknown-1> . he saw <absent>"
    assert END_ID not in batch
    train = list(problem.dataset("train", data_dir, seed=1))
    assert all(ABSENT_ID not in example["targets"].numpy() for example in train)
    assert {spoken(problem, data_dir, example["targets"]).split(" ")[-1] for example in train} <= {
        ".",
        *symbols_of(problem, data_dir),
    }
    one_symbol = LambadaLM(vocab_size=8, unknown_words=0)
    one_symbol.prepare(data_dir, tmp_path / "tmp")
    assert (
        spoken(
            one_symbol, data_dir, next(iter(one_symbol.dataset("validation", data_dir)))["targets"]
        )
        == "<unknown> saw the cat . she saw <absent>"
    )


def test_scored_text_has_the_ids_of_training(tmp_path: Path) -> None:
    write_archive(tmp_path / "tmp")
    problem = LambadaLM(vocab_size=8)
    data_dir = prepared(problem, tmp_path)
    codec = problem.text_codec(problem.vocab_files(data_dir)[0].parent)
    assert isinstance(codec, WordsCodec)
    ids = codec.encode_targets(tf.constant(["Zork saw the cat . she saw zork", "the cat"]))
    judged = problem.examples("validation", data_dir).batch(tf.constant([0]))["targets"]
    assert ids[0].numpy().tolist() == judged[0].numpy().tolist()
    assert codec.decode(ids).numpy().tolist() == [
        b"<unknown-1> saw the cat . she saw <unknown-1>",
        b"the cat",
    ]
    with pytest.raises(UserError, match="no inputs"):
        codec.encode()
