"""Evaluation of a model on the sets that its problem names, each by the method the problem asks for.

How it is used::

    metrics = evaluate(run, checkpoint="best")                                     # what ut-eval does
    metrics = evaluate_model(model, problem, problem.validation_sets(), data_dir)  # what the trainer does
    judge = Evaluator(model, problem, data_dir)                                    # keeps its compiled graphs between calls
    metrics = judge.evaluate(problem.validation_sets())

How it works: a compiled graph turns each batch into sums per example (see ``metrics``); they are added up in float64 and divided at
the end. Metrics are named "<set>/<metric>", or "<metric>" for a set without a name:

- classify: loss (nats), error (percent), error/<group>; ponder_time (mean number of recurrent steps over the encoder's positions
  that count; over the decoder's where there is no encoder) and ponder_time/<group> where the model halts dynamically.
- teacher_forced: loss (nats per symbol), accuracy (share of the symbols), seq_accuracy (share of the sequences whose every symbol is
  right), ponder_time.
- greedy: char_acc and seq_acc, the same shares for sequences that the model wrote itself. The end symbol counts as one; positions
  beyond the target's end do not.
- translate: bleu (cased, sacrebleu's 13a) and chrf, 0 to 100, of the texts that the model wrote itself.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from ut_tf.data.pipeline import eval_batches, evenly_spaced
from ut_tf.data.problem import EvaluationSet, Problem
from ut_tf.decoding.config import DecodeConfig
from ut_tf.decoding.greedy import greedy_decode
from ut_tf.decoding.translator import Translator
from ut_tf.errors import UserError
from ut_tf.evaluation import metrics
from ut_tf.evaluation.bleu import corpus_scores
from ut_tf.run import Run
from ut_tf.training.checkpoints import restore_weights

# Tokens in a batch, padding included: what 400 symbols' attention weights leave in a few hundred megabytes.
_BATCH_TOKENS = {"classify": 8192, "teacher_forced": 8192, "greedy": 32768}


def evaluate(run: Run, checkpoint: str = "best", lengths: Iterable[int] = (), split: str | None = None) -> dict[str, float]:
    """Returns the metrics of a run's checkpoint on its problem's evaluation sets; arguments and errors as for ``evaluate_checkpoint``."""
    return evaluate_checkpoint(run, checkpoint, lengths, split)[1]


def evaluate_checkpoint(
    run: Run, checkpoint: str = "best", lengths: Iterable[int] = (), split: str | None = None
) -> tuple[int, dict[str, float]]:
    """Returns the step of a run's checkpoint, and its metrics on the problem's evaluation sets.

    Args:
      run: a trained run.
      checkpoint: "best" (by validation; the last where none was judged), "last", or a checkpoint's path.
      lengths: replaces the lengths that the problem evaluates at, where it makes examples of a given length.
      split: replaces the split that the sets name ("test" as a rule). Training text is not kept, so nothing of "train" is translated.

    Raises:
      UserError: there is no such checkpoint, or the problem has no such split.
    """
    problem = run.make_problem()
    if split is not None and split not in problem.splits:
        raise UserError(f"--split={split}: problem {run.problem} has the splits {', '.join(problem.splits)}; name one of them.")
    sets = problem.evaluation_sets(tuple(lengths))
    if split is not None:
        sets = [dataclasses.replace(one, split=split) for one in sets if (split, one.method) != ("train", "translate")]
    if not sets:
        raise UserError(f"--split={split}: problem {run.problem} is judged by its translations alone, and keeps no training text.")
    model = run.make_model()
    step = restore_weights(model, run, checkpoint)
    return step, Evaluator(model, problem, run.data_dir, vocab_dir=run.vocab_dir).evaluate(sets)


def evaluate_model(
    model: Any, problem: Problem, sets: Iterable[EvaluationSet], data_dir: Path, label_smoothing: float = 0.0
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
      batch_tokens: tokens in a batch, padding included, for every method; None: as each method can take.
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

        Raises:
          UserError: the names of two sets are equal, or a set has no examples.
        """
        found: dict[str, float] = {}
        for evaluation_set in sets:
            for name, value in self._evaluate_set(evaluation_set).items():
                full_name = f"{evaluation_set.name}/{name}" if evaluation_set.name else name
                if full_name in found:
                    raise UserError(f"problem {self._problem.name}: two evaluation sets give {full_name!r}; name each set differently.")
                found[full_name] = value
        return {**found, **self._problem.summarize(found)}

    def _evaluate_set(self, evaluation_set: EvaluationSet) -> dict[str, float]:
        method = evaluation_set.method
        if method == "translate":
            return self._translate(evaluation_set)
        batches = eval_batches(self._problem, evaluation_set, self._data_dir, batch_tokens=self._batch_tokens or _BATCH_TOKENS[method])
        judge = self._graph(method, batches.element_spec)
        sums = GroupedSums()
        for batch in batches:
            per_example = {name: value.numpy() for name, value in judge(batch).items()}
            groups = batch[evaluation_set.group_by].numpy() if evaluation_set.group_by else None
            sums.add(per_example, batch["weight"].numpy(), groups)
        return sums.metrics(method)

    def _translate(self, evaluation_set: EvaluationSet) -> dict[str, float]:
        sources, references = self._problem.text_pairs(evaluation_set.split, self._data_dir)
        chosen = evenly_spaced(len(sources), evaluation_set.max_examples)
        if evaluation_set.decode not in self._translators:
            files = self._problem.vocab_files(self._data_dir)
            codec = self._problem.text_codec(self._vocab_dir or (files[0].parent if files else self._data_dir))
            self._translators[evaluation_set.decode] = Translator(self._model, codec, DecodeConfig.from_text(evaluation_set.decode))
        translator = self._translators[evaluation_set.decode]
        written = [best[0].text for best in translator.translate((sources[number],) for number in chosen)]
        scores = corpus_scores(written, [[references[number] for number in chosen]])
        return {"bleu": scores["bleu_cased"].value, "chrf": scores["chrf"].value}

    def _graph(self, method: str, element_spec: Mapping[str, Any]) -> Callable[[Any], dict[str, Any]]:
        """Returns the compiled judge of a batch; batch sizes and lengths stay unknown to it, so it is traced once."""
        signature = {name: _any_length(spec) for name, spec in element_spec.items()}
        key = (method, tuple(sorted((name, str(spec)) for name, spec in signature.items())))
        if key not in self._graphs:
            judge = {"classify": self._classify, "teacher_forced": self._teacher_forced, "greedy": self._greedy}[method]
            self._graphs[key] = tf.function(judge, input_signature=[signature])
        return self._graphs[key]

    def _classify(self, features: dict[str, Any]) -> dict[str, Any]:
        logits, details = self._model(features, training=False, return_details=True)
        judged = metrics.classification(logits, features["targets"], self._label_smoothing)
        return {**judged, **_pondering(details)}

    def _teacher_forced(self, features: dict[str, Any]) -> dict[str, Any]:
        logits, details = self._model(features, training=False, return_details=True)
        judged = metrics.teacher_forced(logits, features["targets"], self._label_smoothing)
        return {**judged, **_pondering(details)}

    def _greedy(self, features: dict[str, Any]) -> dict[str, Any]:
        targets = features["targets"]
        # Symbols beyond the targets are not judged, so none are written.
        symbols = greedy_decode(self._model, features, max_length=tf.shape(targets)[1])
        return metrics.sequence_matches(symbols, targets)


class GroupedSums:
    """Adds up what was measured per example, over all examples and for each group of them."""

    def __init__(self) -> None:
        self._all: defaultdict[str, float] = defaultdict(float)
        self._groups: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))

    def add(self, per_example: Mapping[str, Any], weights: Any, groups: Any | None = None) -> None:
        """Adds a batch.

        Args:
          per_example: name -> float [batch].
          weights: float [batch]; examples of weight 0 do not count.
          groups: [batch], integers or strings: the group of each example; None: no groups.
        """
        real = np.asarray(weights) > 0
        values = {name: np.asarray(value, np.float64)[real] for name, value in per_example.items()}
        values["examples"] = np.ones(int(real.sum()))
        _add_sums(self._all, values)
        if groups is None:
            return
        names = np.array([_group_name(group) for group in np.asarray(groups)[real]])
        for name in np.unique(names):
            _add_sums(self._groups[str(name)], {key: value[names == name] for key, value in values.items()})

    def metrics(self, method: str) -> dict[str, float]:
        """Returns the metrics of `method` (see the module's head), those of groups as "<metric>/<group>"."""
        found = _divide(self._all, method)
        for group, sums in sorted(self._groups.items()):
            of_group = _divide(sums, method)
            found.update({f"{name}/{group}": of_group[name] for name in _OF_GROUPS if name in of_group})
        return found


_OF_GROUPS = ("error", "accuracy", "char_acc", "seq_acc", "ponder_time")


def _divide(sums: Mapping[str, float], method: str) -> dict[str, float]:
    examples, positions = sums.get("examples", 0.0), sums.get("positions", 0.0)
    if method == "classify":
        found = {"loss": _ratio(sums["loss"], examples), "error": 100.0 * (1.0 - _ratio(sums["correct"], examples))}
    elif method == "teacher_forced":
        found = {"loss": _ratio(sums["loss"], positions), "accuracy": _ratio(sums["correct"], positions)}
        found["seq_accuracy"] = _ratio(sums["all_correct"], examples)
    else:
        found = {"char_acc": _ratio(sums["correct"], positions), "seq_acc": _ratio(sums["all_correct"], examples)}
    if "ponder_time" in sums:
        found["ponder_time"] = _ratio(sums["ponder_time"], sums["ponder_positions"])
    return found


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else float("nan")


def _add_sums(sums: defaultdict[str, float], values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        sums[name] += float(value.sum())


def _group_name(group: Any) -> str:
    return group.decode() if isinstance(group, bytes) else str(group)


def _pondering(details: Any) -> dict[str, Any]:
    part = details.decoder if details.encoder is None else details.encoder
    # At fixed depth there are no halting probabilities, and nothing to learn from the number of steps.
    if part is None or part.halting_probabilities is None:
        return {}
    return metrics.pondering(part.ponder_times, part.mask)


def _any_length(spec: Any) -> Any:
    """Returns the spec of a batch with its batch size and length unknown; the words of a fact keep their number."""
    return tf.TensorSpec([None, None, *spec.shape[2:]][: spec.shape.rank], spec.dtype)
