"""Which words of a sentence the words of a written tree stand for: cases by hand, and what always
holds.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ut_tf.problems.parsing.alignment import align


@pytest.mark.parametrize(
    ("written", "words", "expected"),
    [
        ("the cat sat", "the cat sat", [[0], [1], [2]]),
        (
            "the cat cat sat",
            "the cat sat .",
            [[0], [1], [], [2]],
        ),  # Written twice; the last word is left over.
        (
            "the sat",
            "the big cat sat",
            [[0], [1, 2, 3]],
        ),  # What is left out stands before the next one.
        ("a cat sat", "the cat sat", [[0], [1], [2]]),  # Another word in its place.
        ("<A> said <A>", "Vinken said so", [[0], [1], [2]]),
        ("XX XX XX", "it works", [[0], [1], []]),
        ("XX", "it works", [[0]]),
        ("", "it works", []),
    ],
)
def test_by_hand(written: str, words: str, expected: list[list[int]]) -> None:
    assert align(written.split(), words.split()) == expected


@given(st.lists(st.sampled_from("abcX")), st.lists(st.sampled_from("abc")))
def test_places_are_in_order_and_a_beginning_of_all(written: list[str], words: list[str]) -> None:
    places = [
        place
        for found in align(["XX" if one == "X" else one for one in written], words)
        for place in found
    ]
    assert places == list(range(len(places)))
