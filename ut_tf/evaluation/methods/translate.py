"""The method that judges texts which the model writes itself."""

from ut_tf.data.batch_plan import evenly_spaced
from ut_tf.data.problem import EvaluationSet
from ut_tf.evaluation.measurement import Measurement
from ut_tf.evaluation.method import EvaluationContext, EvaluationMethod
from ut_tf.inference.translator import Translator
from ut_tf.metrics.bleu import corpus_scores
from ut_tf.metrics.intervals import RESAMPLES
from ut_tf.metrics.rouge import rouge_scores
from ut_tf.search.config import DecodeConfig

# Sentences of a bootstrap: sacrebleu holds all its samples in memory, of so many about half a
# gigabyte.
_MOST_RESAMPLED = 5000


class Translate(EvaluationMethod):
    """bleu (cased, sacrebleu's 13a) and chrf, 0 to 100, with sacrebleu's bootstrap, and where asked
    ROUGE; or the problem's ``text_metrics`` with its ``text_intervals``.
    """

    headline = "bleu"

    def __init__(self, context: EvaluationContext) -> None:
        super().__init__(context)
        self._translators: dict[str, Translator] = {}

    def check(self, evaluation_set: EvaluationSet) -> None:
        self.context.problem.text_pairs(evaluation_set.split, self.context.data_dir)
        self._translator(evaluation_set.decode)

    def measure(self, evaluation_set: EvaluationSet, with_intervals: bool) -> Measurement:
        problem = self.context.problem
        sources, references = problem.text_pairs(evaluation_set.split, self.context.data_dir)
        chosen = evenly_spaced(len(sources), evaluation_set.max_examples)
        translator = self._translator(evaluation_set.decode)
        written = [
            best[0].text for best in translator.translate((sources[number],) for number in chosen)
        ]
        expected = [references[number] for number in chosen]
        examples = {evaluation_set.name: len(written)}
        metrics = problem.text_metrics(written, expected)
        if metrics is None:
            with_rouge = self.context.with_rouge
            return _scored(written, expected, examples, with_intervals, with_rouge)
        intervals = problem.text_intervals(written, expected) if with_intervals else {}
        return Measurement(metrics, intervals, examples)

    def _translator(self, decode: str) -> Translator:
        if decode not in self._translators:
            problem, data_dir = self.context.problem, self.context.data_dir
            files = problem.vocab_files(data_dir)
            codec = problem.text_codec(
                self.context.vocab_dir or (files[0].parent if files else data_dir)
            )
            self._translators[decode] = Translator(
                self.context.model, codec, DecodeConfig.from_text(decode)
            )
        return self._translators[decode]


def _scored(
    written: list[str],
    expected: list[str],
    examples: dict[str, int],
    with_intervals: bool,
    with_rouge: bool,
) -> Measurement:
    resamples = RESAMPLES if with_intervals and 1 < len(written) <= _MOST_RESAMPLED else 0
    scores = corpus_scores(written, [expected], resamples=resamples)
    named = {"bleu": scores["bleu_cased"], "chrf": scores["chrf"]}
    if with_rouge:
        named |= rouge_scores(written, [expected], RESAMPLES if with_intervals else 0)
    return Measurement(
        {name: score.value for name, score in named.items()},
        {name: score.interval for name, score in named.items() if score.interval is not None},
        examples,
        {name: score.signature for name, score in named.items()},
    )
