"""What exit rules cost and save: a trained model's metrics, steps and time under each of them.

How it is used::

    sweep = sweep_exits(run)  # at full depth, and under every rule at some thresholds
    print(sweep.table())
    sweep.write(run.output_dir)
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import tensorflow as tf
from tabulate import tabulate

from ut_tf import registry
from ut_tf.data.problem import EvaluationSet, Problem
from ut_tf.evaluation.evaluator import Evaluator, chosen_sets
from ut_tf.evaluation.method import EvaluationContext
from ut_tf.evaluation.methods.batches import BatchMethod
from ut_tf.evaluation.sweep_files import plain_point, write_sweep
from ut_tf.metrics.sums import Metric, ratio
from ut_tf.run import Run
from ut_tf.run_weights import copy_weights, load_checkpoint
from ut_tf.storage.layout import EXIT_SWEEP_FILE, EXIT_SWEEP_TABLE_FILE

NO_RULE = "none"
_RELATIVE, _NATS, _STEPS = (0.01, 0.03, 0.1, 0.3), (1e-4, 1e-3, 1e-2, 1e-1), (2.0, 3.0, 5.0)
THRESHOLDS = {
    "state_difference": _RELATIVE,
    "acceleration": _RELATIVE,
    "entropy": _NATS,
    "confidence": _RELATIVE,
    "kl": _NATS,
    "argmax_stable": _STEPS,
}
_COLUMNS = ("eval_exit", "eval_exit_threshold", "mean_steps", "milliseconds")


@dataclass(frozen=True)
class ExitPoint:
    """A model under one rule.

    Args:
      eval_exit: the rule's name.
      eval_exit_threshold: None: the rule's own, or no rule.
      mean_steps: mean ponder time of the counted positions of encoder and decoder, where the
        targets are given; of several sets their mean, weighted by examples.
      milliseconds: per example, of the faster of two evaluations whose graphs are traced.
      metrics: of the evaluation.
    """

    eval_exit: str
    eval_exit_threshold: float | None
    mean_steps: float
    milliseconds: float
    metrics: dict[str, float]

    @property
    def use(self) -> str:
        """The rule as ``Run.in_use`` reads it."""
        return _use(self.eval_exit, self.eval_exit_threshold)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON: what is not finite is None."""
        return plain_point(self, _COLUMNS)


@dataclass(frozen=True)
class ExitSweep:
    """A model at full depth and under exit rules.

    Args:
      step: of the checkpoint.
      headlines: names of the metrics that say most.
      points: the first without a rule.
    """

    step: int
    headlines: tuple[str, ...]
    points: tuple[ExitPoint, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"step": self.step, "points": [point.to_dict() for point in self.points]}

    def table(self) -> str:
        """A line for each point, with the metrics that say most."""
        rows = [
            [
                point.eval_exit,
                "" if point.eval_exit_threshold is None else f"{point.eval_exit_threshold:g}",
                *(f"{point.metrics[name]:.4g}" for name in self.headlines),
                f"{point.mean_steps:.2f}",
                f"{point.milliseconds:.3g}",
            ]
            for point in self.points
        ]
        header = ["eval_exit", "threshold", *self.headlines, "mean steps", "ms/example"]
        alignment = ("left", *("right",) * (len(header) - 1))
        return tabulate(rows, header, tablefmt="plain", disable_numparse=True, colalign=alignment)

    def write(self, output_dir: Path) -> None:
        """Writes the points, with all metrics, as JSON and as CSV into a run directory.

        Raises:
          UserError: a file cannot be written.
        """
        names = (EXIT_SWEEP_FILE, EXIT_SWEEP_TABLE_FILE)
        write_sweep(output_dir, names, self.to_dict(), _COLUMNS, self.points)


class GivenTargets(BatchMethod):
    """The mean ponder time of encoder and decoder, where the targets are given."""

    metrics: ClassVar[Mapping[str, Metric]] = {"mean_steps": Metric(("steps", "positions"), ratio)}
    headline = "mean_steps"

    def judge(self, features: dict[str, Any]) -> dict[str, Any]:
        details = self.context.model(features, training=False, return_details=True)[1]
        parts = [part for part in details if part is not None]
        steps = [tf.reduce_sum(part.ponder_times * part.mask, 1) for part in parts]
        positions = [tf.reduce_sum(part.mask, 1) for part in parts]
        return {"steps": tf.add_n(steps), "positions": tf.add_n(positions)}


def sweep_exits(
    run: Run,
    checkpoint: str = "best",
    lengths: Iterable[int] = (),
    split: str | None = None,
    problem: Problem | None = None,
    rules: Sequence[str] = (),
    on_point: Callable[[ExitPoint, int, int], None] | None = None,
) -> ExitSweep:
    """Judges a run's checkpoint without a rule and under exit rules at the thresholds of
    ``THRESHOLDS``; a rule of your own has its own threshold.

    Args:
      run: with prepared data.
      checkpoint, lengths, split, problem: as of ``measure_checkpoint``.
      rules: names; none: all that the model can take.
      on_point: called with each point, its number from 1, and how many there are.

    Raises:
      UserError: as ``measure_checkpoint``, or the model cannot take a rule.
    """
    problem = run.make_problem() if problem is None else problem
    sets = chosen_sets(run, problem, tuple(lengths), split)
    points: list[ExitPoint] = []
    pairs: list[tuple[str, float | None]] = [(NO_RULE, None)]
    # Another model than a Universal Transformer has no rules.
    _with_rule(run, *pairs[0])
    pairs += [
        (rule, threshold)
        for rule in rules or possible_rules(run)
        for threshold in THRESHOLDS.get(rule, (None,))
    ]
    # A rule that cannot be is told before anything is computed.
    runs = [_with_rule(run, *pair) for pair in pairs]
    # Read once: a training may remove the checkpoint before the last rule is judged.
    loaded = load_checkpoint(runs[0], checkpoint)
    for pair, used in zip(pairs, runs, strict=True):
        model = loaded.model
        if used is not runs[0]:
            model = used.make_model()
            copy_weights(loaded.model, model)
        evaluator = Evaluator(model, problem, run.data_dir, vocab_dir=run.vocab_dir)
        steps = GivenTargets(EvaluationContext(model, problem, run.data_dir))
        points.append(_judged(evaluator, steps, sets, *pair))
        if on_point is not None:
            on_point(points[-1], len(points), len(pairs))
    shown = evaluator.headline_metrics(sets, points[0].metrics)
    return ExitSweep(loaded.step, shown, tuple(points))


def possible_rules(run: Run) -> list[str]:
    """The names of the rules that a run's model can take, those on states first."""
    reads_logits = {
        name: bool(registry.exit_rules.attribute(name, "reads_logits", False))
        for name in registry.exit_rules.names()
        if name != NO_RULE
    }
    has_logits = run.spec is not None and not run.spec.has_one_answer
    has_logits = has_logits and not run.hparams.network.mix_layers_after
    has_q_values = getattr(run.hparams.network, "q_head", False)
    names = [
        name
        for name, reads in reads_logits.items()
        if (has_logits or not reads)
        and (has_q_values or not registry.exit_rules.attribute(name, "reads_q_values", False))
    ]
    return sorted(names, key=lambda name: reads_logits[name])


def _with_rule(run: Run, rule: str, threshold: float | None) -> Run:
    return run.in_use(_use(rule, threshold))


def _use(rule: str, threshold: float | None) -> str:
    assignment = "" if threshold is None else f",eval_exit_threshold={threshold:g}"
    return f"eval_exit={rule}{assignment}"


def _judged(
    evaluator: Evaluator,
    steps: GivenTargets,
    sets: Sequence[EvaluationSet],
    rule: str,
    threshold: float | None,
) -> ExitPoint:
    measured = evaluator.measure(sets)
    # The graphs are traced now.
    seconds = min(_seconds(evaluator, sets) for _ in range(2))
    examples = sum(measured.examples.values())
    total = sum(
        measured.examples[part.name] * steps.measure(part, False).metrics["mean_steps"]
        for part in sets
    )
    return ExitPoint(
        rule, threshold, total / examples, 1000.0 * seconds / examples, measured.metrics
    )


def _seconds(evaluator: Evaluator, sets: Sequence[EvaluationSet]) -> float:
    began = time.perf_counter()
    evaluator.evaluate(sets)
    return time.perf_counter() - began
