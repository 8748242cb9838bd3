"""Scores on text, against values worked out by hand."""

from __future__ import annotations

import math

import pytest

from ut_tf.errors import UserError
from ut_tf.metrics.bleu import corpus_scores


def test_bleu_by_hand() -> None:
    # Six words of seven: precisions 6/6, 5/5, 4/4, 3/3, so only the brevity penalty exp(1 - 7/6)
    # counts; with both cases equal.
    scores = corpus_scores(
        ["the cat sat on the mat"],
        [["The cat sat on the mat today"]],
        variants=("cased", "uncased"),
    )
    assert scores["bleu_uncased"].value == pytest.approx(100 * math.exp(1 - 7 / 6))
    # Cased, "the" at the start is wrong: 5/6, 4/5, 3/4, 2/3, whose product is 1/3.
    assert scores["bleu_cased"].value == pytest.approx(100 * math.exp(1 - 7 / 6) * (1 / 3) ** 0.25)
    assert "case:lc" in scores["bleu_uncased"].signature
    assert "case:mixed" in scores["bleu_cased"].signature
    assert "hyp_len = 6 ref_len = 7" in scores["bleu_cased"].details


def test_a_perfect_translation_and_an_empty_one() -> None:
    perfect = corpus_scores(
        ["Ein Hund.", "Zwei Hunde laufen."], [["Ein Hund.", "Zwei Hunde laufen."]], ter=True
    )
    assert {name: round(score.value, 6) for name, score in perfect.items()} == {
        "bleu_cased": 100,
        "chrf": 100,
        "ter": 0,
    }
    assert [score.name for score in perfect.values()] == ["BLEU", "chrF2", "TER"]
    empty = corpus_scores([""], [["Ein Hund."]], ter=True)
    assert {name: score.value for name, score in empty.items()} == {
        "bleu_cased": 0,
        "chrf": 0,
        "ter": 100,
    }


def test_the_better_of_several_references_counts() -> None:
    texts, references = ["a b c d e"], [["a b c d e"], ["x"]]
    assert corpus_scores(texts, references)["bleu_cased"].value == pytest.approx(100)
    assert "nrefs:2" in corpus_scores(texts, references)["bleu_cased"].signature


def test_the_tokeniser_decides_what_is_a_word() -> None:
    texts, references = ["a b c d."], [["a b c d ."]]
    assert corpus_scores(texts, references)["bleu_cased"].value == pytest.approx(100)
    assert corpus_scores(texts, references, tokenize="none")["bleu_cased"].value < 80


def test_an_interval_on_demand_says_so_in_the_signature() -> None:
    texts = ["a b c d e", "a b c x e", "f g h i j", "k l m n"] * 5
    plain = corpus_scores(texts, [["a b c d e", "a b c d e", "f g h i j", "k l m o"] * 5])[
        "bleu_cased"
    ]
    sure = corpus_scores(
        texts, [["a b c d e", "a b c d e", "f g h i j", "k l m o"] * 5], resamples=200
    )["bleu_cased"]
    assert plain.interval is None
    assert plain.value == sure.value
    assert sure.interval is not None
    assert sure.interval[0] < plain.value < sure.interval[1]
    assert "bs:200|seed:" in sure.signature
    assert "bs:" not in plain.signature


@pytest.mark.parametrize(
    ("translations", "references", "tokenize", "message"),
    [
        ([], [[]], "13a", "the translation has no lines"),
        (["a"], [["a"]], "13", "tokenize=13: expected one of .*; did you mean 13a"),
    ],
)
def test_mistakes(
    translations: list[str], references: list[list[str]], tokenize: str, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        corpus_scores(translations, references, tokenize=tokenize)
