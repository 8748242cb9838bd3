"""ROUGE-1, -2 and -L of texts (Lin, 2004), by the library rouge-score.

Example::

    scores = rouge_scores(["the cat sat"], [["the cat sat down"]])
    scores["rouge1"].value, scores["rouge1"].signature      # 85.7, "nrefs:1|tok:scripts|..."

How it works: each text has F1 of the words, of the pairs of words, and of the longest common
subsequence of words; the figure is their mean. The library's own words are of the letters a to z
alone, so these are others.
"""

import importlib.metadata
import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np

from ut_tf.metrics.bleu import Score, check_lines
from ut_tf.metrics.intervals import middle, resampled_sums
from ut_tf.packages import check_package, imported

ROUGE = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}
_NEED = "ROUGE needs"
_PACKAGE = "rouge-score"
# Scripts without blanks between words; what names of their characters begin with.
_WITHOUT_BLANKS = ("CJK ", "HIRAGANA ", "KATAKANA ", "HALFWIDTH KATAKANA ")


def check_rouge() -> None:
    """Raises UserError where the library is not installed."""
    check_package("rouge_score", _NEED, _PACKAGE)


def rouge_scores(
    translations: Sequence[str], references: Sequence[Sequence[str]], resamples: int = 0
) -> dict[str, Score]:
    """The scores of texts by name: rouge1, rouge2 and rougeL, 0 to 100.

    Args:
      translations: the texts.
      references: one or more lists of texts, each as long as `translations`; of several the best
        one counts for each text.
      resamples: samples of the texts that intervals are computed from; 0: no intervals.

    Raises:
      UserError: there is nothing to score, the numbers of texts differ, or the library is missing.
    """
    check_lines(len(translations), [len(reference) for reference in references])
    made = imported("rouge_score.rouge_scorer", _NEED, _PACKAGE).RougeScorer
    scorer = made(list(ROUGE), tokenizer=Words())
    found = [
        scorer.score_multi(targets, text)
        for text, *targets in zip(translations, *references, strict=True)
    ]
    version = importlib.metadata.version(_PACKAGE)
    signature = f"nrefs:{len(references)}|tok:scripts|case:lower|stem:no|version:{version}"
    scores = {}
    for name, title in ROUGE.items():
        values = np.array([100.0 * each[name].fmeasure for each in found])
        means = resampled_sums(values[:, None], resamples=resamples) if resamples else None
        interval = None if means is None else middle(means[:, 0] / len(values))
        scores[name] = Score(title, float(values.mean()), signature, "", interval)
    return scores


class Words:
    """Divides texts as rouge-score asks: letters with their marks, and digits, of any script in
    lower case. Each Han, Hiragana and Katakana character is a word.
    """

    def tokenize(self, text: str) -> list[str]:
        """The words of a text."""
        return "".join(self._spaced(unicodedata.normalize("NFC", text).lower())).split()

    @staticmethod
    def _spaced(text: str) -> Iterator[str]:
        for sign in text:
            if unicodedata.category(sign)[0] not in "LMN":
                yield " "
            elif unicodedata.name(sign, "").startswith(_WITHOUT_BLANKS):
                yield f" {sign} "
            else:
                yield sign
