"""Scores of translations on text: BLEU, chrF and TER by sacrebleu, so that the figures can be
compared with published ones.

Example::

    scores = corpus_scores(["The cat sat."], [["The cat sat down."]])
    # 51.3, "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
    scores["bleu_cased"].value, scores["bleu_cased"].signature

How it works: scores are of the whole corpus, from detokenised text; sacrebleu tokenises both sides
itself. The signature says with what settings: give it wherever the figure is given.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ut_tf.errors import UserError, did_you_mean
from ut_tf.packages import imported

if TYPE_CHECKING:
    from ut_tf.metrics.intervals import Interval

Variant = Literal["cased", "uncased"]
VARIANTS: tuple[Variant, ...] = ("cased", "uncased")
DEFAULT_TOKENIZER = "13a"


@dataclass(frozen=True)
class Score:
    """One figure of a corpus.

    Args:
      name: as sacrebleu writes it: BLEU, chrF2, TER.
      value: 0 to 100; BLEU and chrF: higher is better, TER (which may exceed 100): lower.
      signature: sacrebleu's account of the settings.
      details: what sacrebleu adds to the figure (BLEU's precisions, brevity penalty and lengths),
        or empty.
      interval: at 95 % confidence, where it was asked for and there are sentences enough.
    """

    name: str
    value: float
    signature: str
    details: str
    interval: Interval | None = None


def corpus_scores(
    translations: Sequence[str],
    references: Sequence[Sequence[str]],
    variants: Sequence[Variant] = ("cased",),
    tokenize: str = DEFAULT_TOKENIZER,
    ter: bool = False,
    advise: bool = False,
    resamples: int = 0,
) -> dict[str, Score]:
    """The scores of a corpus by name: bleu_cased and bleu_uncased as `variants` say, chrf,
    and ter where asked.

    Args:
      translations: one text for each sentence.
      references: one or more lists of texts, each as long as `translations`.
      variants: of BLEU: cased, uncased (both sides lower-cased) or both.
      tokenize: sacrebleu's tokeniser for BLEU: 13a (that of the WMT script mteval-v13a), intl, zh,
        char, none ...
      ter: whether to measure the translation edit rate, which takes seconds for some thousand
        sentences.
      advise: whether sacrebleu may warn on standard error of texts that look tokenised.
      resamples: samples of the sentences that sacrebleu's bootstrap computes intervals from; 0: no
        intervals.

    Raises:
      UserError: there is nothing to score, the numbers of lines differ, or there is no such
        tokeniser.
    """
    check_lines(len(translations), [len(reference) for reference in references])
    texts, columns = list(translations), [list(reference) for reference in references]
    metrics: dict[str, Any] = {}
    for number, variant in enumerate(variants):
        # The advice is the same for both variants.
        metrics[f"bleu_{variant}"] = _bleu(variant == "uncased", tokenize, advise and number == 0)
    metrics["chrf"] = _sacrebleu().CHRF()
    if ter:
        metrics["ter"] = _sacrebleu().TER()
    return {name: _score(metric, texts, columns, resamples) for name, metric in metrics.items()}


def check_lines(translated: int, references: Sequence[int], names: Sequence[str] = ()) -> None:
    """Raises UserError where there is nothing to score, or a reference has another number of lines
    than the translation.

    Args:
      translated: lines of the translation.
      references: lines of each reference.
      names: what the translation and the references are called in messages.
    """
    names = names or (
        "the translation",
        *(f"reference {number}" for number in range(1, len(references) + 1)),
    )
    if not references:
        raise UserError("there is no reference to compare the translation with: name at least one.")
    for name, lines in zip(names[1:], references, strict=True):
        if lines != translated:
            raise UserError(
                f"{names[0]} has {translated} line{'s' * (translated != 1)}, {name} {lines}: "
                "expected as many in both, of which line n translates line n."
            )
    if not translated:
        raise UserError(f"{names[0]} has no lines: expected one sentence a line.")


def _bleu(lowercase: bool, tokenize: str, advise: bool) -> Any:
    bleu = _sacrebleu().BLEU
    if tokenize not in bleu.TOKENIZERS:
        near = did_you_mean(tokenize, bleu.TOKENIZERS)
        raise UserError(f"tokenize={tokenize}: expected one of {', '.join(bleu.TOKENIZERS)}{near}")
    try:
        return bleu(lowercase=lowercase, tokenize=tokenize, force=not advise)
    except (RuntimeError, ImportError, OSError) as error:
        reason = " ".join(str(error).split())
        raise UserError(
            f"tokenize={tokenize} cannot be used here ({reason}): install what it needs, or choose"
            " 13a or intl."
        ) from error


def _score(
    metric: Any, translations: list[str], references: list[list[str]], resamples: int
) -> Score:
    if resamples:
        try:
            return _resampled_score(copy.copy(metric), translations, references, resamples)
        except TypeError:
            # sacrebleu cannot take the mean where some samples score 0: of so few sentences there
            # is no interval.
            pass
    score = metric.corpus_score(translations, references)
    return _score_of(metric, score, None)


def _resampled_score(
    metric: Any, translations: list[str], references: list[list[str]], resamples: int
) -> Score:
    score = metric.corpus_score(translations, references, n_bootstrap=resamples)
    values = json.loads(score.format(width=6, is_json=True, signature=str(metric.get_signature())))
    # It leaves both out where every sample scores 0.
    middle, half = values.get("confidence_mean", 0.0), values.get("confidence_var", 0.0)
    # Its interval is as wide on either side, also where the scale ends.
    highest = math.inf if score.name == "TER" else 100.0
    return _score_of(metric, score, (max(0.0, middle - half), min(highest, middle + half)))


def _score_of(metric: Any, score: Any, interval: Interval | None) -> Score:
    head, _, details = score.format().partition(f"{score.score:.2f}")
    return Score(
        head.split(" ")[0],
        float(score.score),
        str(metric.get_signature()),
        details.strip(),
        interval,
    )


def _sacrebleu() -> Any:
    return imported("sacrebleu.metrics", "scores on text need")
