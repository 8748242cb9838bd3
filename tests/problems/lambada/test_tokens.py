"""Running text divided into words as LAMBADA's files are."""

from __future__ import annotations

import pytest

from ut_tf.problems.lambada.tokens import treebank_tokens


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


def test_tokens_have_neither_capitals_nor_blanks_and_lose_no_letter() -> None:
    text = "Dr. Jekyll's \"friend\" --  an M.D.  of 40 -- had gone; who wouldn't? (Nobody.)"
    tokens = treebank_tokens(text)
    assert all(token == token.lower() and not any(map(str.isspace, token)) for token in tokens)
    letters = [character for character in text.lower() if character.isalnum()]
    assert [
        character
        for token in tokens
        for character in token.replace("-lrb-", "").replace("-rrb-", "")
        if character.isalnum()
    ] == letters
