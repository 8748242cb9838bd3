"""Subwords split at random: the text stays, about the given share is split, equal draws give equal
ids.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ut_tf.data.corpus.encoded_pairs import Side
from ut_tf.data.corpus.subword_dropout import Parts, split_at_random, subword_parts
from ut_tf.data.text.subwords import Subwords, train_subwords
from ut_tf.errors import UserError
from ut_tf.symbols import END_ID

TEXT = [
    f"{subject} {verb} {thing}."
    for subject in ("Ein Mann", "Eine Frau", "Der Hund", "Das Mädchen")
    for verb in ("läuft über", "sieht", "größer als", "trägt")
    for thing in ("die Straße", "den Fluss", "ein Büschel Gras", "zwei Äpfel")
]


@pytest.fixture(scope="module")
def subwords() -> Subwords:
    return Subwords(train_subwords(TEXT, 360))


@pytest.fixture(scope="module")
def parts(subwords: Subwords) -> Parts:
    return subword_parts(subwords)


def spelled(subwords: Subwords, side: Side) -> list[str]:
    """The text of each example, an end symbol as "/"."""
    pieces = {number: piece for piece, number in subwords.merges().items()} | {END_ID: "/"}
    return [
        "".join(pieces.get(int(number), f"<{number}>") for number in ids)
        for ids in np.split(side.ids, np.cumsum(side.lengths)[:-1])
    ]


def test_two_parts_make_up_each_merged_subword(subwords: Subwords, parts: Parts) -> None:
    pieces = {number: piece for piece, number in subwords.merges().items()}
    merged = [number for number, piece in pieces.items() if len(piece) > 1]
    assert len(merged) > 40
    for number in merged:
        first, second = parts[number]
        assert pieces[first] + pieces[second] == pieces[number]
    assert not np.delete(parts, merged, axis=0).any()


@settings(max_examples=30, deadline=None)
@given(texts=st.lists(st.sampled_from([*TEXT, "", "日本 x"]), min_size=1), rate=st.floats(0, 0.99))
def test_the_text_stays_and_the_end_too(
    subwords: Subwords, parts: Parts, texts: list[str], rate: float
) -> None:
    side = Side.of(subwords.encode(texts), subwords.size)
    split = split_at_random(side, parts, rate, np.random.default_rng(0))
    assert spelled(subwords, split) == spelled(subwords, side)
    assert (split.lengths >= side.lengths).all() and split.lengths.sum() == len(split.ids)


def test_the_text_stays_where_blocks_meet(
    monkeypatch: pytest.MonkeyPatch, subwords: Subwords, parts: Parts
) -> None:
    monkeypatch.setattr("ut_tf.data.corpus.subword_dropout._IDS_AT_ONCE", 7)
    side = Side.of(subwords.encode([*TEXT, ""]), subwords.size)
    split = split_at_random(side, parts, 0.5, np.random.default_rng(0))
    assert spelled(subwords, split) == spelled(subwords, side)
    assert split.ids.dtype == side.ids.dtype and len(split.ids) > len(side.ids)


def test_parts_are_split_too(subwords: Subwords, parts: Parts) -> None:
    pieces = {number: piece for piece, number in subwords.merges().items()}
    longest = max(pieces, key=lambda number: len(pieces[number]))
    side = Side(np.full(1000, longest, np.uint16), np.ones(1000, np.int32))
    split = split_at_random(side, parts, 0.99, np.random.default_rng(0))
    assert len(pieces[longest]) > 2
    assert split.lengths.mean() > 0.9 * len(pieces[longest])


def test_earlier_merges_come_first() -> None:
    class Merged(Subwords):
        size = 9

        def __init__(self) -> None:
            pass

        def merges(self) -> dict[str, int]:
            return {"bc": 4, "ab": 3, "abc": 5, "a": 6, "b": 7, "c": 8}

    # "ab" and "c" make up the third, too, but "bc" was merged before "ab" could be.
    assert subword_parts(Merged())[3:6].tolist() == [[6, 7], [7, 8], [6, 4]]


def test_other_vocabularies_are_refused() -> None:
    unigram = Subwords(train_subwords(TEXT, 340, kind="unigram", exact=False))
    for vocabulary in (unigram, object()):
        with pytest.raises(UserError, match="needs a byte pair encoding"):
            subword_parts(vocabulary)


def test_the_share_that_is_split(subwords: Subwords, parts: Parts) -> None:
    number = max(subwords.merges().values(), key=lambda number: parts[number, 0] > 0)
    ids = np.full(20_000, number, np.uint16)
    side = Side(ids, np.array([len(ids)], np.int32))
    split = split_at_random(side, parts, 0.1, np.random.default_rng(1))
    assert np.mean(split.ids == number) * len(split.ids) / len(ids) == pytest.approx(0.9, abs=0.01)
