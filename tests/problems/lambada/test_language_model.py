"""LAMBADA as a language model: windows, numbered unknown words, scored text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.problems.lambada.small_archive import prepared, spoken, symbols_of, write_archive
from ut_tf.errors import UserError
from ut_tf.problems.lambada.codec import WordsCodec
from ut_tf.problems.lambada.corpus import ABSENT_ID, FIRST_NUMBERED_ID, UNKNOWN_ID
from ut_tf.problems.lambada.language_model import LambadaLM
from ut_tf.problems.lambada.passages import number_unknown, windows
from ut_tf.symbols import END_ID


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
