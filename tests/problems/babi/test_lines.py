"""What is read as bAbI's lines and as plain sentences."""

from __future__ import annotations

import pytest

from ut_tf.data.text.sentences import sentences
from ut_tf.errors import UserError
from ut_tf.problems.babi.lines import questions


@pytest.mark.parametrize("lines", [[], ["\n"], [" \n", "\n"]])
def test_a_file_without_text_has_no_questions(lines: list[str]) -> None:
    assert list(questions(lines, "file")) == []


def test_facts_without_a_question_are_an_error() -> None:
    with pytest.raises(UserError, match="file has no question"):
        list(questions(["\n", "Mary left.\n"], "file"))


def test_a_long_line_takes_no_longer_by_its_square() -> None:
    digits = "9" * 300_000
    assert sentences(f"{digits}\t") == []
    assert sentences(f"{digits} . {digits}?\tkitchen\t1") == [
        f"{digits} .",
        f"{digits}?\tkitchen\t1",
    ]
    assert sentences("a.\t" * 30_000 + "\nx") == ["a."] * 30_000 + ["x"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a. b?\tc. d\t1", ["a.", "b?\tc. d\t1"]),
        ("a?\tb.\n", ["a?\tb."]),
        ("a?\tb.\nc?\td.", ["a?", "b.", "c?\td."]),
        ("a?\n\tb.", ["a?", "b."]),
    ],
)
def test_what_follows_a_tab_stays_in_the_last_line(text: str, parts: list[str]) -> None:
    assert sentences(text) == parts
