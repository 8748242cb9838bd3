"""Evaluation of a model on the sets that its problem names, each by the method of the set.

Example::

    metrics = evaluate(run, checkpoint="best")  # {"error": 3.1, ...}
    evaluator = Evaluator(model, problem, data_dir)  # keeps compiled graphs
    metrics = evaluator.evaluate(problem.validation_sets())

Metrics are named "<set>/<metric>", or "<metric>" for a set without a name; docs/evaluation.md
lists them.
"""

import dataclasses
import functools
import inspect
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ut_tf import registry
from ut_tf.argument_types import checked_types
from ut_tf.config.overrides import parse_assignments
from ut_tf.data.problem import EvaluationSet, Problem, check_lengths
from ut_tf.data.split_of import EmptySplitError
from ut_tf.errors import UserError
from ut_tf.evaluation.measurement import CheckpointMeasurement, Measurement
from ut_tf.evaluation.method import EvaluationContext, EvaluationMethod
from ut_tf.evaluation.refill_pass import measure_in_slots
from ut_tf.evaluation.selection import selection_of
from ut_tf.metrics.rouge import check_rouge
from ut_tf.notices import warn
from ut_tf.run import Run
from ut_tf.run_weights import LoadedCheckpoint, load_checkpoint
from ut_tf.search.config import DecodeConfig
from ut_tf.storage.processes import training_minutes

_WITHOUT_EFFECT = {"n_best", "return_beams", "write_beam_scores"}
"""Options of the search that add to what ut-decoder writes."""

Sets = list[EvaluationSet]


@checked_types
def evaluate(
    run: Run,
    checkpoint: str = "best",
    lengths: Iterable[int] = (),
    split: str | None = None,
    decode: str = "",
    refill: int = 0,
) -> dict[str, float]:
    """The metrics of a run's checkpoint on its problem's evaluation sets, name -> number, as
    ut-eval prints them.

    Args:
      run: a trained run; ``run.in_use("eval_num_steps=8")`` uses it with other hyperparameters.
      checkpoint: "best" (by validation; the last where none was judged), "last", or a checkpoint's
        path.
      lengths: replaces the lengths that the problem evaluates at.
      split: replaces the split that the sets name ("test" as a rule).
      decode: options of the search in place of the problem's, "alpha=1.2,beam_size=8".
      refill: slots of a batch that examples leave when they have halted; 0: batches are whole.

    Raises:
      UserError: as of ``evaluator.measure_checkpoint``.
    """
    return measure_checkpoint(run, checkpoint, lengths, split, decode=decode, refill=refill).metrics


@checked_types
def measure_checkpoint(
    run: Run,
    checkpoint: str | LoadedCheckpoint = "best",
    lengths: Iterable[int] = (),
    split: str | None = None,
    problem: Problem | None = None,
    decode: str = "",
    refill: int = 0,
    metrics: str = "",
) -> CheckpointMeasurement:
    """The metrics of a run's checkpoint on its problem's evaluation sets, with their intervals.

    Args:
      run: a trained run.
      checkpoint: "best" (by validation; the last where none was judged), "last", or a checkpoint's
        path; or one that is loaded already.
      lengths: replaces the lengths that the problem evaluates at, where it makes examples of a
        given length.
      split: replaces the split that the sets name ("test" as a rule). Training text is not kept, so
        nothing of "train" is translated.
      problem: the run's problem, where it has been made already.
      decode: replaces options of ``DecodeConfig`` with which the problem has texts written,
        "name=value,name=value".
      refill: slots of a batch that examples leave when they have halted; 0: batches are whole.
      metrics: of texts that the model writes: "bleu,chrf", the default, or "bleu,chrf,rouge".

    Raises:
      UserError: there is no such checkpoint, the problem has no such split, it has no texts written
        for `decode` or `metrics`, or `refill` is for no such model.
    """
    problem = run.make_problem() if problem is None else problem
    sets = chosen_sets(run, problem, tuple(lengths), split)
    with_rouge = _asks_for_rouge(metrics, run, problem, sets)
    sets, changed = decoded_with(run, sets, decode)
    loaded = load_checkpoint(run, checkpoint)
    evaluator = Evaluator(
        loaded.model,
        problem,
        run.data_dir,
        vocab_dir=run.vocab_dir,
        refill=refill,
        with_rouge=with_rouge,
    )
    return CheckpointMeasurement(
        **vars(evaluator.measure(sets)),
        **about_checkpoint(run, problem, sets, loaded),
        headlines=evaluator.headlines(sets),
        decode=changed,
    )


def _asks_for_rouge(metrics: str, run: Run, problem: Problem, sets: Sets) -> bool:
    """Whether ROUGE is among the metrics of texts that were asked for."""
    names = {name.strip() for name in metrics.split(",") if name.strip()}
    if not names:
        return False
    if names - {"rouge"} != {"bleu", "chrf"}:
        raise UserError(f"`metrics`={metrics}: expected bleu,chrf or bleu,chrf,rouge.")
    if type(problem).text_metrics is not Problem.text_metrics:
        raise UserError(
            f"`metrics`={metrics}: {run.problem} judges texts by metrics of its own; leave it out."
        )
    if not any(evaluation_set.method == "translate" for evaluation_set in sets):
        raise UserError(
            f"`metrics`={metrics}: no text is written when {run.problem} is evaluated on this"
            " split; leave it out."
        )
    if "rouge" in names:
        check_rouge()
    return "rouge" in names


def about_checkpoint(
    run: Run, problem: Problem, sets: Sequence[EvaluationSet], loaded: LoadedCheckpoint
) -> dict[str, Any]:
    """Fields of ``CheckpointMeasurement`` that tell of a checkpoint and its data."""
    return {
        "step": loaded.step,
        "split": ",".join(sorted({evaluation_set.split for evaluation_set in sets})),
        "parameters": loaded.model.count_params(),
        "data_note": problem.data_note(run.data_dir),
        "training_minutes": training_minutes(run.output_dir, loaded.step),
        "selection": selection_of(problem, loaded.state),
    }


def chosen_sets(run: Run, problem: Problem, lengths: tuple[int, ...], split: str | None) -> Sets:
    """The problem's evaluation sets; arguments and errors as of ``measure_checkpoint``.

    Lengths without examples are left out, with a warning, as long as one is left.
    """
    check_lengths(lengths)
    sets = problem.evaluation_sets(lengths)
    if split is not None:
        sets = _of_split(run, problem, sets, split)
    return _with_examples(run, problem, sets)


def _of_split(run: Run, problem: Problem, sets: Sets, split: str) -> Sets:
    """The sets with another split."""
    if split not in problem.splits:
        raise UserError(
            f"`split`={split}: problem {run.problem} has the splits {', '.join(problem.splits)};"
            " name one of them."
        )
    sets = [
        dataclasses.replace(evaluation_set, split=split)
        for evaluation_set in sets
        if (split, evaluation_set.method) != ("train", "translate")
    ]
    if not sets:
        raise UserError(
            f"`split`={split}: problem {run.problem} is judged by its translations alone, and keeps"
            " no training text."
        )
    return sets


def _with_examples(run: Run, problem: Problem, sets: Sets) -> Sets:
    """The sets without those of a length of which their split has no examples.

    Raises:
      EmptySplitError: it has none of any.
    """
    found: Sets = []
    errors: dict[int, EmptySplitError] = {}
    for evaluation_set in sets:
        length = evaluation_set.length
        try:
            if length is not None:
                problem.examples(evaluation_set.split, run.data_dir, length=length)
            found.append(evaluation_set)
        except EmptySplitError as error:
            errors[length or 0] = error
    if errors and not found:
        raise next(iter(errors.values()))
    if errors:
        _warn_of_left_out(run.problem, found[0].split, tuple(errors))
    return found


@functools.cache
def _warn_of_left_out(problem: str, split: str, lengths: tuple[int, ...]) -> None:
    warn(
        f"`lengths`={','.join(map(str, lengths))} left out: a checksum of an input decides its"
        f" split, and that of no input of {problem} that is so short says {split}."
    )


def decoded_with(run: Run, sets: Sets, decode: str) -> tuple[Sets, str]:
    """The sets with some options of their search replaced, and those that differ now,
    "name=value,name=value" in alphabetical order; errors as of ``measure_checkpoint``.
    """
    if not decode:
        return sets, ""
    before = {
        number: DecodeConfig.from_text(evaluation_set.decode)
        for number, evaluation_set in enumerate(sets)
        if evaluation_set.method == "translate"
    }
    if not before:
        raise UserError(
            f"`decode_hparams`={decode}: nothing is searched for when {run.problem} is evaluated on"
            " this split; leave the options out."
        )
    given, _ = parse_assignments(decode)
    if useless := sorted(_WITHOUT_EFFECT & given.keys()):
        raise UserError(
            f"`decode_hparams`={decode}: {useless[0]} has no effect on an evaluation, which judges"
            " the best text alone; leave it out."
        )
    changed: dict[str, Any] = {}
    replaced = list(sets)
    for number, config in before.items():
        own, _ = parse_assignments(sets[number].decode)
        text = ",".join(f"{name}={value}" for name, value in {**own, **given}.items())
        after = DecodeConfig.from_text(text)
        replaced[number] = dataclasses.replace(sets[number], decode=text)
        changed |= dict(after.to_dict().items() - config.to_dict().items())
    # It decides the speed, not the texts.
    changed.pop("batch_size", None)
    return replaced, ",".join(f"{name}={value}" for name, value in sorted(changed.items()))


def combined(
    problem: Problem, measured: Iterable[tuple[EvaluationSet, Measurement]]
) -> Measurement:
    """Returns the measurements of a problem's sets as one, with the problem's summary.

    Raises:
      UserError: the names of two sets are equal.
    """
    total = Measurement({})
    for evaluation_set, of_set in measured:
        of_set = of_set.prefixed(evaluation_set.name)
        if twice := sorted(total.metrics.keys() & of_set.metrics.keys()):
            raise UserError(
                f"problem {problem.name}: two evaluation sets give {twice[0]!r};"
                " name each set differently."
            )
        for name, values in vars(total).items():
            values.update(getattr(of_set, name))
    total.metrics.update(problem.summarize(total.metrics))
    total.intervals.update(problem.summarize_intervals(total.intervals))
    return total


class Evaluator:
    """Evaluates one model; its methods keep their compiled graphs between calls.

    Args:
      model, problem, data_dir, label_smoothing, batch_tokens, vocab_dir, refill, with_rouge: as of
        ``EvaluationContext``.
    """

    def __init__(
        self,
        model: Any,
        problem: Problem,
        data_dir: Path,
        label_smoothing: float = 0.0,
        batch_tokens: int | None = None,
        vocab_dir: Path | None = None,
        refill: int = 0,
        with_rouge: bool = False,
    ) -> None:
        self._context = EvaluationContext(
            model,
            problem,
            data_dir,
            label_smoothing,
            batch_tokens,
            vocab_dir,
            refill=refill,
            with_rouge=with_rouge,
        )
        self._methods: dict[str, EvaluationMethod] = {}

    def check(self, sets: Sequence[EvaluationSet]) -> None:
        """Makes the methods of validation's `sets`, so that what they lack is told before training.

        Raises:
          UserError: a method cannot be made, a set lacks what its method needs, or no method gives
            the problem's selection_metric.
        """
        for evaluation_set in sets:
            self.method(evaluation_set.method).check(evaluation_set)
        problem = self._context.problem
        names = [self._metric_names(evaluation_set) for evaluation_set in sets]
        known = [name for group in names if group is not None for name in group]
        selection, _ = problem.selection_metric
        if None in names or type(problem).summarize is not Problem.summarize:
            return
        if not any(f"{selection}/".startswith(f"{name}/") for name in known):
            raise UserError(
                f"problem {problem.name}: its selection_metric {selection!r} is not among the"
                f" metrics of its validation sets: expected one of {', '.join(known)}."
            )

    def evaluate(self, sets: Iterable[EvaluationSet]) -> dict[str, float]:
        """The metrics of all `sets`, and the problem's summary of them, without standard
        deviations.

        Raises:
          UserError: the names of two sets are equal, or a set has no examples.
        """
        return self._measure(sets, with_intervals=False).metrics

    def measure(self, sets: Iterable[EvaluationSet]) -> Measurement:
        """The metrics of all `sets` and the problem's summary, with their intervals; errors as for
        ``evaluate``.
        """
        return self._measure(sets, with_intervals=True)

    def headlines(self, sets: Iterable[EvaluationSet]) -> tuple[str, ...]:
        """The metric that says most of each method of `sets`, without the names of the sets."""
        methods = dict.fromkeys(evaluation_set.method for evaluation_set in sets)
        return tuple(self.method(name).headline for name in methods)

    def headline_metrics(
        self, sets: Sequence[EvaluationSet], metrics: Iterable[str]
    ) -> tuple[str, ...]:
        """The full names of the headlines of `sets` that are among `metrics`."""
        headlines = self.headlines(sets)
        names = [
            f"{part.name}/{name}" if part.name else name for part in sets for name in headlines
        ]
        # A translator has two sets without a name: of given targets and of its own.
        return tuple(name for name in dict.fromkeys(names) if name in metrics)

    def _measure(self, sets: Iterable[EvaluationSet], with_intervals: bool) -> Measurement:
        measured = ((part, self._measure_set(part, with_intervals)) for part in sets)
        return combined(self._context.problem, measured)

    def _measure_set(self, part: EvaluationSet, with_intervals: bool) -> Measurement:
        method = self.method(part.method)
        if self._context.refill:
            return measure_in_slots(method, part, with_intervals)
        return method.measure(part, with_intervals)

    def _metric_names(self, evaluation_set: EvaluationSet) -> list[str] | None:
        names = self.method(evaluation_set.method).metric_names
        if names is None:
            return None
        prefix = f"{evaluation_set.name}/" if evaluation_set.name else ""
        return [f"{prefix}{name}" for name in names]

    def method(self, name: str) -> EvaluationMethod:
        """Returns the method with this name, made once."""
        if name not in self._methods:
            factory: Any = registry.evaluation_methods.get(name)
            if inspect.isabstract(factory):
                raise UserError(
                    f"the evaluation method {name!r} has no"
                    f" {', '.join(sorted(factory.__abstractmethods__))}: define it in the class"
                    f" {factory.__name__}."
                )
            method = factory(self._context)
            if not isinstance(method, EvaluationMethod):
                raise UserError(
                    f"the evaluation method {name!r} made a {type(method).__name__}: register a"
                    " class derived from ut_tf.evaluation.method.EvaluationMethod."
                )
            self._methods[name] = method
        return self._methods[name]
