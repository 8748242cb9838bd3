"""Does a model think longer where more is to be thought? Its steps beside those of an algorithm.

How it is used::

    report = judge_by_difficulty(run)
    print(report.table())
    report.write(run.output_dir)

A problem of known depth says for each position how many steps its algorithm takes until the answer
is known (``position_difficulty``, the *oracle*). Of each position with an answer that is not given:

    steps      at which it was updated, its ponder time
    final      the first step from which on its answer is the last one
    wasted     steps - final
    too many   the mean of max(steps - a * oracle, 0)
    too few    the mean of max(a * oracle - steps, 0); both together are the regret

The model's steps per step of the algorithm, a, are those of the least mean |steps - a * oracle| on
the validation split. The accuracy there is that of the answers after a * oracle steps, while all
positions go on; that of the oracle's exits is measured once more, with positions that stop there.
Spearman's correlation is that of steps and oracle.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.stats

from ut_tf.data.problem import EvaluationSet, Problem
from ut_tf.errors import UserError
from ut_tf.evaluation.evaluator import Evaluator, chosen_sets
from ut_tf.evaluation.methods.predictions import Aligned
from ut_tf.evaluation.oracle import DIFFICULTY, AtOracle, can_exit, steps_at
from ut_tf.evaluation.sweep_files import Sweep, plain_table
from ut_tf.metrics.intervals import CONFIDENCE, Interval, wilson
from ut_tf.run import Run
from ut_tf.run_weights import load_checkpoint
from ut_tf.storage.layout import BY_DIFFICULTY

_MEANS = ("accuracy", "steps", "final", "wasted")
_RESAMPLES = 200
_MOST_EXAMPLES = 1000
Numbers = npt.NDArray[Any]


@dataclass(frozen=True)
class Positions:
    """The judged positions of a split, one behind the other.

    Args:
      example: number of the example that a position is of.
      oracle: steps of the algorithm, at least 1.
      steps: ponder time.
      right: bool [positions, steps], whether the answer after each step is the target.
      final: the first step, from 1, from which on the answer is the last one.
    """

    example: Numbers
    oracle: Numbers
    steps: Numbers
    right: Numbers
    final: Numbers

    @property
    def solved(self) -> Numbers:
        """Whether the last answer of each position is the target."""
        return np.asarray(self.right[:, -1])

    @property
    def wasted(self) -> Numbers:
        """The steps of each position after its answer was final."""
        return np.asarray(np.maximum(self.steps - self.final, 0.0))

    def scale(self) -> float:
        """The steps for each step of the algorithm, a, of the least mean |steps - a * oracle|."""
        ratios = self.steps / self.oracle
        order = np.argsort(ratios, kind="stable")
        weights = np.cumsum(self.oracle[order])
        # The weighted median minimises the sum of the weighted absolute differences.
        middle = int(np.searchsorted(weights, weights[-1] / 2.0))
        return float(ratios[order][middle])

    def right_at_oracle(self, scale: float) -> float:
        """The share of the positions whose answer after scale * oracle steps is the target."""
        last = self.right.shape[1]
        at = np.minimum(steps_at(self.oracle, scale).numpy().astype(int), last) - 1
        return float(self.right[np.arange(len(at)), at].mean())


@dataclass(frozen=True)
class Point:
    """The positions of one difficulty.

    Args:
      difficulty: steps of the algorithm.
      positions: their number.
      metrics: accuracy, and means of steps, final and wasted steps.
      interval: of the accuracy.
    """

    difficulty: int
    positions: int
    metrics: dict[str, float]
    interval: Interval


@dataclass(frozen=True)
class DifficultyReport(Sweep):
    """A model beside the algorithm.

    Args:
      step: of the checkpoint.
      split: that was judged.
      form: how positions stop, in words.
      trained_to_exit: whether they exit in training, too.
      points: by difficulty, ascending.
      totals: accuracy, steps, final, wasted, spearman, scale (a), too_many, too_few,
        oracle_accuracy (after scale * oracle steps), and of what exits there oracle_exit_accuracy
        and oracle_exit_steps, of all positions; None where there is no such number.
      spearman_interval: over examples; None where either is constant.
    """

    stem = BY_DIFFICULTY
    about = ("step", "split", "form", "trained_to_exit", "totals", "spearman_interval")
    columns = ("difficulty", "positions")

    step: int
    split: str
    form: str
    trained_to_exit: bool
    points: tuple[Point, ...]
    totals: dict[str, Any]
    spearman_interval: Interval | None

    def table(self) -> str:
        """A line for each difficulty, and what holds of all."""
        rows = [
            [
                str(point.difficulty),
                f"{point.positions:,}",
                "{:.4g} [{:.4g}, {:.4g}]".format(point.metrics["accuracy"], *point.interval),
                *(f"{point.metrics[name]:.2f}" for name in _MEANS[1:]),
            ]
            for point in self.points
        ]
        return f"{plain_table([*self.columns, *_MEANS], rows)}\n{self._totals()}"

    def _totals(self) -> str:
        of = self.totals
        spearman = "Spearman of steps and difficulty: none, one of them is always the same"
        if self.spearman_interval is not None:
            low, high = self.spearman_interval
            spearman = (
                f"Spearman of steps and difficulty {of['spearman']:.3f} [{low:.3f}, {high:.3f}]"
            )
        return (
            f"all: accuracy {of['accuracy']:.4g}, {of['steps']:.2f} steps, final after"
            f" {of['final']:.2f}, {of['wasted']:.2f} wasted\n{spearman}\n"
            f"regret: {of['too_many']:.2f} steps too many, {of['too_few']:.2f} too few, beside"
            f" {of['scale']:.3g} * difficulty; accuracy there {of['oracle_accuracy']:.4g}"
            + _exits(of)
        )


def judge_by_difficulty(
    run: Run,
    checkpoint: str = "best",
    lengths: Iterable[int] = (),
    split: str | None = None,
    problem: Problem | None = None,
) -> DifficultyReport:
    """Judges a run's checkpoint by the difficulty of positions.

    Args:
      run: with prepared data.
      checkpoint, lengths, split, problem: as of ``measure_checkpoint``.

    Raises:
      UserError: as ``measure_checkpoint``, or the problem's depth is not known.
    """
    problem = run.make_problem() if problem is None else problem
    lengths = tuple(lengths)
    sets = chosen_sets(run, problem, lengths, split)
    loaded = load_checkpoint(run, checkpoint)
    network = run.hparams.network
    if getattr(network, "mix_layers_before", 0) or getattr(network, "mix_layers_after", 0):
        raise UserError(
            "steps by difficulty are those of a recurrence alone, and this model has layers around"
            " it (mix_layers_before, mix_layers_after): judge one without them."
        )
    evaluator = Evaluator(loaded.model, problem, run.data_dir, vocab_dir=run.vocab_dir)
    validation = chosen_sets(run, problem, lengths, "validation")
    found = [
        collected(evaluator, loaded.model, parts, problem.name) for parts in (sets, validation)
    ]
    judged, chooses = found
    scale, exited = chooses.scale(), None
    if can_exit(run):
        exiting = AtOracle(loaded.model, scale)
        exited = collected(evaluator, exiting, sets, problem.name)
    exits = bool(getattr(network, "train_exit", False))
    about = (loaded.step, sets[0].split, form_of(network), exits)
    return _report(judged, scale, about, exited)


def form_of(network: Any) -> str:
    """How positions of a network stop at inference, in words: "fixed depth", "basic", "kl 0.01"."""
    halting = getattr(network, "halting", "none")
    rule = getattr(network, "eval_exit", "none")
    parts = [name for name in (halting, rule) if name != "none"] or ["fixed depth"]
    if rule != "none" and network.eval_exit_threshold is not None:
        parts[-1] += f" {network.eval_exit_threshold:g}"
    return ", ".join(parts)


def _report(
    judged: Positions,
    scale: float,
    about: tuple[int, str, str, bool],
    exited: Positions | None = None,
) -> DifficultyReport:
    """Returns the report; `about` are its first fields."""
    means = {
        "accuracy": judged.solved.astype(float),
        "steps": judged.steps,
        "final": judged.final,
        "wasted": judged.wasted,
    }
    points = []
    for difficulty in np.unique(judged.oracle):
        of = judged.oracle == difficulty
        metrics = {name: float(values[of].mean()) for name, values in means.items()}
        interval = wilson(int(judged.solved[of].sum()), int(of.sum()))
        points.append(Point(int(difficulty), int(of.sum()), metrics, interval))
    needed = scale * judged.oracle
    totals: dict[str, Any] = {name: float(values.mean()) for name, values in means.items()}
    totals |= {
        "spearman": _finite(_spearman(judged.steps, judged.oracle)),
        "scale": scale,
        "too_many": float(np.maximum(judged.steps - needed, 0.0).mean()),
        "too_few": float(np.maximum(needed - judged.steps, 0.0).mean()),
        "oracle_accuracy": judged.right_at_oracle(scale),
    }
    if exited is not None:
        totals["oracle_exit_accuracy"] = float(exited.solved.mean())
        totals["oracle_exit_steps"] = float(exited.steps.mean())
    return DifficultyReport(*about, tuple(points), totals, _spearman_interval(judged))


def _spearman(steps: Numbers, oracle: Numbers) -> float:
    if len(np.unique(steps)) < 2 or len(np.unique(oracle)) < 2:
        return float("nan")
    return float(scipy.stats.spearmanr(steps, oracle).statistic)


def _spearman_interval(judged: Positions) -> Interval | None:
    """The percentile bootstrap over examples, whose positions go together."""
    if not np.isfinite(_spearman(judged.steps, judged.oracle)):
        return None
    _, firsts, counts = np.unique(judged.example, return_index=True, return_counts=True)
    draws, values = np.random.default_rng(0), []
    for _ in range(_RESAMPLES):
        chosen = draws.integers(0, len(firsts), len(firsts))
        rows = np.concatenate([np.arange(firsts[i], firsts[i] + counts[i]) for i in chosen])
        values.append(_spearman(judged.steps[rows], judged.oracle[rows]))
    tail = (1.0 - CONFIDENCE) / 2.0
    low, high = np.nanquantile(values, [tail, 1.0 - tail])
    return float(low), float(high)


def _exits(totals: Mapping[str, Any]) -> str:
    if "oracle_exit_steps" not in totals:
        return ""
    return (
        f"\noracle: positions that stop there, after {totals['oracle_exit_steps']:.2f} steps, have"
        f" accuracy {totals['oracle_exit_accuracy']:.4g}"
    )


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def collected(
    evaluator: Evaluator, model: Any, sets: Iterable[EvaluationSet], name: str
) -> Positions:
    """The judged positions of the sets, with those of an example together; of a set at most 1000
    examples are judged.

    Args:
      evaluator: that has the sets' methods.
      model: whose answers are judged after each step.
      sets: of examples.
      name: of the problem.

    Raises:
      UserError: the problem's depth is not known.
    """
    parts: list[Positions] = []
    example = 0
    for part in sets:
        method, seen = evaluator.method(part.method), 0
        if not isinstance(method, Aligned):
            raise UserError(f"steps by difficulty need {_NEEDED}, and {name} is judged otherwise.")
        for batch in method.batches(part):
            if DIFFICULTY not in batch:
                raise UserError(f"steps by difficulty need {_NEEDED}, and {name} does not say it.")
            parts.append(_of_batch(model, batch, example))
            example, seen = example + len(batch["inputs"]), seen + len(batch["inputs"])
            if seen >= _MOST_EXAMPLES:
                break
    if not sum(len(one.oracle) for one in parts):
        raise UserError(f"no position of {name} has a known difficulty above 0.")
    width = max(one.right.shape[1] for one in parts)
    columns = {
        name: np.concatenate([getattr(one, name) for one in parts])
        for name in ("example", "oracle", "steps", "final")
    }
    right = [np.pad(one.right, [(0, 0), (0, width - one.right.shape[1])], "edge") for one in parts]
    return Positions(right=np.concatenate(right), **columns)


_NEEDED = "a problem whose depth is known at each position, such as sudoku_4x4 or p_hop"


def _of_batch(model: Any, batch: Mapping[str, Any], first: int) -> Positions:
    answers: list[Numbers] = []
    length = batch["inputs"].shape[1]

    def observe(view: Any) -> None:
        logits = model.position_logits(view.output[:, -length:])
        answers.append(np.argmax(logits.numpy(), -1))

    _, details = model(dict(batch), return_details=True, observer=observe)
    steps = details.encoder.ponder_times.numpy()[:, -length:]
    # Zeros at the end of all rows are left out of a batch.
    targets, oracle = (
        np.pad(batch[name].numpy(), [(0, 0), (0, length - batch[name].shape[1])])
        for name in ("targets", DIFFICULTY)
    )
    judged = (targets > 0) & (oracle > 0) & (batch["weight"].numpy()[:, None] > 0)
    every = np.stack(answers)
    taken = every.shape[0]
    differs = every != every[-1]
    # The last step whose answer differs, from 1; 0 where none does.
    last = np.where(differs.any(0), taken - np.argmax(differs[::-1], 0), 0)
    rows = np.argwhere(judged)
    return Positions(
        example=first + rows[:, 0],
        oracle=oracle[judged].astype(float),
        steps=steps[judged].astype(float),
        right=(every == targets)[:, judged].T,
        final=last[judged] + 1.0,
    )
