"""ROUGE of texts in any script; the library need not be installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.training.toy import toy_run
from ut_tf.bin import bleu
from ut_tf.errors import UserError
from ut_tf.evaluation.evaluator import measure_checkpoint
from ut_tf.metrics.rouge import Words, check_rouge, rouge_scores


def test_words_keep_letters_of_all_scripts() -> None:
    words = Words().tokenize
    assert words("Über die Brücke, 3.5 km") == ["über", "die", "brücke", "3", "5", "km"]
    # Vowel signs and accents belong to their letters, however they are written.
    assert words("हिन्दी में") == ["हिन्दी", "में"]
    assert words("cafe\u0301") == ["caf\u00e9"]
    assert words("東京に 住む") == ["東", "京", "に", "住", "む"]
    assert words("Привет, мир! 안녕 세상") == ["привет", "мир", "안녕", "세상"]


def test_a_missing_library_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rouge_score", None)
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    with pytest.raises(UserError, match="pip install rouge-score"):
        rouge_scores(["a"], [["a"]])


def test_scores_by_hand() -> None:
    pytest.importorskip("rouge_score")
    check_rouge()
    scores = rouge_scores(["Der Übergang kam", "ja"], [["der übergang kam spät", "nein"]])
    # Of the first text precision is 1 and recall 3/4, of pairs 2/3; the second has nothing.
    expected = {"rouge1": 100 * 6 / 7 / 2, "rouge2": 100 * 4 / 5 / 2, "rougeL": 100 * 6 / 7 / 2}
    assert {name: score.value for name, score in scores.items()} == pytest.approx(expected)
    assert scores["rouge1"].signature.startswith("nrefs:1|tok:scripts|case:lower|stem:no|version:")
    assert scores["rouge1"].interval is None
    best = rouge_scores(["b a"], [["c"], ["a b"]], resamples=50)
    assert best["rouge1"].value == 100.0 and best["rougeL"].value == pytest.approx(50.0)
    assert best["rouge1"].interval == pytest.approx((100.0, 100.0))


def test_ut_bleu_prints_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rouge_score")
    path = tmp_path / "texts"
    path.write_text("Hallo Welt\nÄpfel und Öl\n", encoding="utf-8")
    assert bleu.main([f"--translation={path}", f"--reference={path}", "--rouge"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("ROUGE")]
    assert [line.split() for line in lines] == [
        [name, "=", "100.00", lines[0].split()[-1]] for name in ("ROUGE-1", "ROUGE-2", "ROUGE-L")
    ]


def test_metrics_of_a_problem_s_own_have_no_rouge_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = toy_run(tmp_path, "toy_class")
    judge = type(run.make_problem())
    monkeypatch.setattr(judge, "text_metrics", lambda *_: {"f1": 1.0})
    with pytest.raises(UserError, match="toy_class judges texts by metrics of its own"):
        measure_checkpoint(run, metrics="bleu,chrf,rouge")


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [("rouge", "expected bleu,chrf or bleu,chrf,rouge"), ("bleu,chrf,rouge", "no text is written")],
)
def test_what_cannot_be_measured_is_refused_at_once(
    tmp_path: Path, metrics: str, expected: str
) -> None:
    with pytest.raises(UserError, match=expected):
        measure_checkpoint(toy_run(tmp_path, "toy_class"), metrics=metrics)
