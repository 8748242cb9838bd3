"""What exit rules cost and save: a trained model's metrics, steps and time under each of them.

How it is used::

    sweep = sweep_exits(run)  # at full depth, and under every rule at some thresholds
    print(sweep.table())
    sweep.write(run.output_dir)
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ut_tf import registry
from ut_tf.data.problem import Problem
from ut_tf.evaluation.evaluator import chosen_sets
from ut_tf.evaluation.sweep_files import Sweep, plain_table
from ut_tf.evaluation.uses import Uses
from ut_tf.run import Run
from ut_tf.storage.layout import EXIT_SWEEP

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
        return use_of_rule(self.eval_exit, self.eval_exit_threshold)


@dataclass(frozen=True)
class ExitSweep(Sweep):
    """A model at full depth and under exit rules.

    Args:
      step: of the checkpoint.
      headlines: names of the metrics that say most.
      points: the first without a rule.
    """

    stem = EXIT_SWEEP
    columns = ("eval_exit", "eval_exit_threshold", "mean_steps", "milliseconds")

    step: int
    headlines: tuple[str, ...]
    points: tuple[ExitPoint, ...]

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
        return plain_table(header, rows, left=1)


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
    pairs: list[tuple[str, float | None]] = [(NO_RULE, None), *rules_at_thresholds(run, rules)]
    # A rule that cannot be is told before anything is computed.
    runs = [run.in_use(use_of_rule(*pair)) for pair in pairs]
    uses = Uses(runs[0], problem, sets, checkpoint)
    for pair, used in zip(pairs, runs, strict=True):
        found = uses.judge(uses.model_of(used))
        points.append(
            ExitPoint(*pair, found.mean_steps, found.milliseconds, found.measured.metrics)
        )
        if on_point is not None:
            on_point(points[-1], len(points), len(pairs))
    shown = uses.evaluator.headline_metrics(sets, points[0].metrics)
    return ExitSweep(uses.loaded.step, shown, tuple(points))


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


def rules_at_thresholds(run: Run, rules: Sequence[str]) -> list[tuple[str, float | None]]:
    """The rules, by default all that a run's model can take, at each of their thresholds; None: at
    the rule's own.

    Raises:
      UserError: the model is no Universal Transformer, and so has no rules.
    """
    run.in_use(use_of_rule(NO_RULE, None))
    return [
        (rule, threshold)
        for rule in rules or possible_rules(run)
        for threshold in THRESHOLDS.get(rule, (None,))
    ]


def use_of_rule(rule: str, threshold: float | None) -> str:
    """The rule at a threshold as ``Run.in_use`` reads it."""
    assignment = "" if threshold is None else f",eval_exit_threshold={threshold:g}"
    return f"eval_exit={rule}{assignment}"
