"""Evaluation of a model on the sets that its problem names, each by the method the problem asks
for.

How it is used::

    metrics = evaluate(run, checkpoint="best")  # what ut-eval does
    # what the trainer does
    metrics = evaluate_model(model, problem, problem.validation_sets(), data_dir)
    judge = Evaluator(model, problem, data_dir)  # keeps its compiled graphs between calls
    metrics = judge.evaluate(problem.validation_sets())

How it works: a compiled graph turns each batch into sums per example (see ``metrics``); they are
kept (see ``sums``), added up in float64 and divided at the end. Metrics are named "<set>/<metric>",
or "<metric>" for a set without a name:

- classify: loss (nats), error (percent).
- teacher_forced: loss (nats per symbol), accuracy (share of the symbols), seq_accuracy (share of
  the sequences whose every symbol is right).
- last_word: loss, perplexity and accuracy of all symbols; target/loss, target/perplexity and
  target/accuracy of the last symbol of each example.
- ranking: accuracy (share of the examples whose last symbol is more probable than the feature
  "alternative"; equally probable is wrong), loss (nats per symbol, of all symbols).
- greedy: char_acc and seq_acc, shares as for teacher_forced of sequences that the model wrote
  itself. The end symbol counts as one; positions beyond the target's end do not.
- translate: bleu (cased, sacrebleu's 13a) and chrf, 0 to 100, of the texts that the model wrote
  itself; or what the problem's ``text_metrics`` makes of them.

A set with ``group_by`` has the accuracies (errors) of each group too, "error/<group>". Where the
model halts dynamically, every method but greedy and translate gives ponder_time and
ponder_time_std: mean and standard deviation of the number of recurrent steps, over the encoder's
positions that count (over the decoder's where there is no encoder), also for each group
("ponder_time/<group>") and for each value of the set's ``ponder_by``
("ponder_time/supporting_facts_2").

``measure`` adds an interval at 95 % confidence to each figure (see ``intervals``): Wilson's to
shares of examples (error, seq_acc, seq_accuracy, target/accuracy, the accuracy of ranking), a
bootstrap over the examples to all others, sacrebleu's to bleu and chrf of at most 5000 sentences,
the problem's ``text_intervals`` to its ``text_metrics``. Its summary (``Problem.summarize``) has
none.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from ut_tf.data.batch_plan import evenly_spaced
from ut_tf.data.pipeline import eval_batches
from ut_tf.data.problem import EvaluationSet, Problem
from ut_tf.errors import UserError
from ut_tf.evaluation.measurement import CheckpointMeasurement, Measurement
from ut_tf.evaluation.training_time import training_minutes
from ut_tf.inference.translator import Translator
from ut_tf.metrics import per_example as metrics
from ut_tf.metrics.bleu import corpus_scores
from ut_tf.metrics.intervals import RESAMPLES
from ut_tf.metrics.sums import GroupedSums
from ut_tf.run import Run
from ut_tf.run_weights import restore_weights
from ut_tf.search.config import DecodeConfig
from ut_tf.search.strategies import greedy_decode
from ut_tf.storage.checkpoints import find_checkpoint, read_state

# Tokens in a batch, padding included: what 400 symbols' attention weights leave in a few hundred
# megabytes. Of language models it is the logits, a whole vocabulary of words for each symbol.
_BATCH_TOKENS = {
    "classify": 8192,
    "teacher_forced": 8192,
    "last_word": 2048,
    "ranking": 2048,
    "greedy": 32768,
}

# Sentences that sacrebleu's bootstrap is asked for: it holds all its samples in memory, of so many
# about half a gigabyte.
_MOST_RESAMPLED = 5000


def evaluate(
    run: Run, checkpoint: str = "best", lengths: Iterable[int] = (), split: str | None = None
) -> dict[str, float]:
    """Returns the metrics of a run's checkpoint on its problem's evaluation sets; arguments and
    errors as for ``evaluate_checkpoint``.
    """
    return evaluate_checkpoint(run, checkpoint, lengths, split)[1]


def evaluate_checkpoint(
    run: Run, checkpoint: str = "best", lengths: Iterable[int] = (), split: str | None = None
) -> tuple[int, dict[str, float]]:
    """Returns the step of a run's checkpoint, and its metrics; arguments and errors as for
    ``measure_checkpoint``.
    """
    found = measure_checkpoint(run, checkpoint, lengths, split)
    return found.step, found.metrics


def measure_checkpoint(
    run: Run, checkpoint: str = "best", lengths: Iterable[int] = (), split: str | None = None
) -> CheckpointMeasurement:
    """Returns the metrics of a run's checkpoint on its problem's evaluation sets, with their
    intervals.

    Args:
      run: a trained run.
      checkpoint: "best" (by validation; the last where none was judged), "last", or a checkpoint's
        path.
      lengths: replaces the lengths that the problem evaluates at, where it makes examples of a
        given length.
      split: replaces the split that the sets name ("test" as a rule). Training text is not kept, so
        nothing of "train" is translated.

    Raises:
      UserError: there is no such checkpoint, or the problem has no such split.
    """
    problem = run.make_problem()
    if split is not None and split not in problem.splits:
        raise UserError(
            f"--split={split}: problem {run.problem} has the splits {', '.join(problem.splits)};"
            " name one of them."
        )
    sets = problem.evaluation_sets(tuple(lengths))
    if split is not None:
        sets = [
            dataclasses.replace(one, split=split)
            for one in sets
            if (split, one.method) != ("train", "translate")
        ]
    if not sets:
        raise UserError(
            f"--split={split}: problem {run.problem} is judged by its translations alone, and keeps"
            " no training text."
        )
    model = run.make_model()
    # Found once: where the run is still being trained, the best one may be another a moment later.
    directory = find_checkpoint(run.output_dir, checkpoint)
    step = restore_weights(model, run, str(directory))
    found = Evaluator(model, problem, run.data_dir, vocab_dir=run.vocab_dir).measure(sets)
    return CheckpointMeasurement(
        found.metrics,
        found.intervals,
        found.examples,
        found.signatures,
        step=step,
        split=",".join(sorted({one.split for one in sets})),
        parameters=model.count_params(),
        data_note=problem.data_note(run.data_dir),
        training_minutes=training_minutes(run.output_dir, step),
        selection=_selection(problem, directory),
    )


def _selection(problem: Problem, checkpoint: Path) -> dict[str, Any] | None:
    """Returns what validation said of a checkpoint by the metric that chooses; None where it was
    not judged.
    """
    state = read_state(checkpoint)
    metric, direction = problem.selection_metric
    value = state.get("metrics", {}).get(metric)
    if value is None or state.get("evaluated_step") != state.get("step"):
        return None
    return {"metric": metric, "direction": direction, "value": value}


def evaluate_model(
    model: Any,
    problem: Problem,
    sets: Iterable[EvaluationSet],
    data_dir: Path,
    label_smoothing: float = 0.0,
) -> dict[str, float]:
    """Returns the metrics of `model` on `sets`, and the problem's summary of them.

    Args:
      model: a keras.Model as the registry of models makes them.
      problem: whose data is read; prepared.
      sets: what to judge, and how.
      data_dir: where the problem prepared its data.
      label_smoothing: of the loss; 0 for a loss that can be compared between runs.
    """
    return Evaluator(model, problem, data_dir, label_smoothing).evaluate(sets)


class Evaluator:
    """Evaluates one model again and again without tracing its graphs anew.

    Args:
      model, problem, data_dir, label_smoothing: as for ``evaluate_model``.
      batch_tokens: tokens in a batch, padding included, for every method; None: as each method can
        take.
      vocab_dir: a run's copy of the problem's vocabulary files; None: those of `data_dir`.
    """

    def __init__(
        self,
        model: Any,
        problem: Problem,
        data_dir: Path,
        label_smoothing: float = 0.0,
        batch_tokens: int | None = None,
        vocab_dir: Path | None = None,
    ) -> None:
        self._model = model
        self._problem = problem
        self._data_dir = data_dir
        self._label_smoothing = label_smoothing
        self._batch_tokens = batch_tokens
        self._vocab_dir = vocab_dir
        self._translators: dict[str, Translator] = {}
        self._graphs: dict[Any, Callable[[Any], dict[str, Any]]] = {}

    def evaluate(self, sets: Iterable[EvaluationSet]) -> dict[str, float]:
        """Returns the metrics of all `sets`, and the problem's summary of them.

        What describes a spread (ponder_time_std) is left out, and no intervals are computed: what
        training waits for.

        Raises:
          UserError: the names of two sets are equal, or a set has no examples.
        """
        return self._measure(sets, with_intervals=False).metrics

    def measure(self, sets: Iterable[EvaluationSet]) -> Measurement:
        """Returns the metrics of all `sets` with their intervals, and the problem's summary, which
        has none; errors as for ``evaluate``.
        """
        return self._measure(sets, with_intervals=True)

    def _measure(self, sets: Iterable[EvaluationSet], with_intervals: bool) -> Measurement:
        found = Measurement({})
        for evaluation_set in sets:
            prefix = f"{evaluation_set.name}/" if evaluation_set.name else ""
            of_set = self._measure_set(evaluation_set, with_intervals)
            metrics = {prefix + name: value for name, value in of_set.metrics.items()}
            if twice := sorted(found.metrics.keys() & metrics.keys()):
                raise UserError(
                    f"problem {self._problem.name}: two evaluation sets give {twice[0]!r}; name"
                    " each set differently."
                )
            found.metrics.update(metrics)
            found.intervals.update(
                {prefix + name: interval for name, interval in of_set.intervals.items()}
            )
            found.examples.update(of_set.examples)
            found.signatures.update(
                {prefix + name: text for name, text in of_set.signatures.items()}
            )
        found.metrics.update(self._problem.summarize(found.metrics))
        return found

    def _measure_set(self, evaluation_set: EvaluationSet, with_intervals: bool) -> Measurement:
        method = evaluation_set.method
        if method == "translate":
            return self._translate(evaluation_set, with_intervals)
        batches = eval_batches(
            self._problem,
            evaluation_set,
            self._data_dir,
            batch_tokens=self._batch_tokens or _BATCH_TOKENS[method],
        )
        if method == "ranking" and "alternative" not in batches.element_spec:
            there = ", ".join(sorted(batches.element_spec))
            raise UserError(
                f"problem {self._problem.name}: method ranking needs the feature 'alternative'; the"
                f" features are {there} in its split {evaluation_set.split!r}: judge another"
                " (--split)."
            )
        judge = self._graph(method, batches.element_spec)
        sums = GroupedSums(evaluation_set.ponder_by)
        for batch in batches:
            per_example = {name: value.numpy() for name, value in judge(batch).items()}
            groups = [
                self._feature(batch, name) if name else None
                for name in (evaluation_set.group_by, evaluation_set.ponder_by)
            ]
            sums.add(per_example, batch["weight"].numpy(), *groups)
        intervals = sums.intervals(method) if with_intervals else {}
        return Measurement(
            sums.metrics(method, spreads=with_intervals),
            intervals,
            {evaluation_set.name: sums.examples},
        )

    def _feature(self, batch: Mapping[str, Any], name: str) -> Any:
        if name not in batch:
            there = ", ".join(sorted(batch))
            raise UserError(
                f"problem {self._problem.name}: an evaluation set groups examples by {name!r};"
                f" their features are {there}."
            )
        return batch[name].numpy()

    def _translate(self, evaluation_set: EvaluationSet, with_intervals: bool) -> Measurement:
        sources, references = self._problem.text_pairs(evaluation_set.split, self._data_dir)
        chosen = evenly_spaced(len(sources), evaluation_set.max_examples)
        if evaluation_set.decode not in self._translators:
            files = self._problem.vocab_files(self._data_dir)
            codec = self._problem.text_codec(
                self._vocab_dir or (files[0].parent if files else self._data_dir)
            )
            self._translators[evaluation_set.decode] = Translator(
                self._model, codec, DecodeConfig.from_text(evaluation_set.decode)
            )
        translator = self._translators[evaluation_set.decode]
        written = [
            best[0].text for best in translator.translate((sources[number],) for number in chosen)
        ]
        expected = [references[number] for number in chosen]
        examples = {evaluation_set.name: len(written)}
        own = self._problem.text_metrics(written, expected)
        if own is not None:
            return Measurement(
                own,
                self._problem.text_intervals(written, expected) if with_intervals else {},
                examples,
            )
        resamples = RESAMPLES if with_intervals and 1 < len(written) <= _MOST_RESAMPLED else 0
        scores = corpus_scores(written, [expected], resamples=resamples)
        found = {"bleu": scores["bleu_cased"], "chrf": scores["chrf"]}
        intervals = {
            name: score.interval for name, score in found.items() if score.interval is not None
        }
        signatures = {name: score.signature for name, score in found.items()}
        return Measurement(
            {name: score.value for name, score in found.items()}, intervals, examples, signatures
        )

    def _graph(
        self, method: str, element_spec: Mapping[str, Any]
    ) -> Callable[[Any], dict[str, Any]]:
        """Returns the compiled judge of a batch; batch sizes and lengths stay unknown to it, so it
        is traced once.
        """
        signature = {name: _any_length(spec) for name, spec in element_spec.items()}
        key = (method, tuple(sorted((name, str(spec)) for name, spec in signature.items())))
        if key not in self._graphs:
            judge = (
                self._greedy
                if method == "greedy"
                else functools.partial(self._predictions, _JUDGES[method])
            )
            self._graphs[key] = tf.function(judge, input_signature=[signature])
        return self._graphs[key]

    def _predictions(
        self,
        judge: Callable[[Any, Mapping[str, Any], float], dict[str, Any]],
        features: dict[str, Any],
    ) -> dict[str, Any]:
        logits, details = self._model(features, training=False, return_details=True)
        return {**judge(logits, features, self._label_smoothing), **_pondering(details)}

    def _greedy(self, features: dict[str, Any]) -> dict[str, Any]:
        targets = features["targets"]
        # Symbols beyond the targets are not judged, so none are written.
        symbols = greedy_decode(self._model, features, max_length=tf.shape(targets)[1])
        return metrics.sequence_matches(symbols, targets)


def _classification(
    logits: Any, features: Mapping[str, Any], label_smoothing: float
) -> dict[str, Any]:
    return metrics.classification(logits, features["targets"], label_smoothing)


def _teacher_forced(
    logits: Any, features: Mapping[str, Any], label_smoothing: float
) -> dict[str, Any]:
    return metrics.teacher_forced(logits, features["targets"], label_smoothing)


def _last_word(logits: Any, features: Mapping[str, Any], label_smoothing: float) -> dict[str, Any]:
    return metrics.last_word(logits, features["targets"], label_smoothing)


def _ranking(logits: Any, features: Mapping[str, Any], label_smoothing: float) -> dict[str, Any]:
    return metrics.ranking(logits, features["targets"], features["alternative"], label_smoothing)


_JUDGES = {
    "classify": _classification,
    "teacher_forced": _teacher_forced,
    "last_word": _last_word,
    "ranking": _ranking,
}


def _pondering(details: Any) -> dict[str, Any]:
    part = details.decoder if details.encoder is None else details.encoder
    # At fixed depth there are no halting probabilities, and nothing to learn from the number of
    # steps.
    if part is None or part.halting_probabilities is None:
        return {}
    return metrics.pondering(part.ponder_times, part.mask)


def _any_length(spec: Any) -> Any:
    """Returns the spec of a batch with its batch size and length unknown; the words of a fact keep
    their number.
    """
    return tf.TensorSpec([None, None, *spec.shape[2:]][: spec.shape.rank], spec.dtype)
