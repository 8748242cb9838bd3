"""What accuracy costs: a trained model's metrics against FLOP and time, at fixed depths, under its
halting, exit rules and an oracle, and with restarts; or under exit rules alone, against steps.

::

    sweep = sweep_compute(run)                          # exits_only=True: under exit rules
    print(sweep.table())
    sweep.write(run.output_dir)

All points are judged in one way, so that their times can be compared: each is a model of its own,
of which the faster of two evaluations counts.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ut_tf import registry
from ut_tf.data.problem import Problem
from ut_tf.errors import UserError
from ut_tf.evaluation.by_difficulty import collected
from ut_tf.evaluation.depth_sweep import depth_field
from ut_tf.evaluation.evaluator import about_checkpoint, chosen_sets
from ut_tf.evaluation.exit_thresholds import NO_RULE, rules_at_thresholds, use_of_rule
from ut_tf.evaluation.measurement import CheckpointMeasurement
from ut_tf.evaluation.methods.batches import PredictionMethod
from ut_tf.evaluation.methods.predictions import Aligned
from ut_tf.evaluation.oracle import DIFFICULTY, ORACLE, AtOracle, can_exit
from ut_tf.evaluation.sweep_files import Sweep, plain_table
from ut_tf.evaluation.uses import Uses
from ut_tf.run import Run
from ut_tf.storage.layout import COMPUTE

_Place = tuple[str, float | None, str]
"""The first fields of a ``ComputePoint``."""
AS_TRAINED = "as trained"
RESTARTS = (2, 4, 8)
_RESTARTS = "eval_restarts"
ORACLE_SCALES = (0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True)
class ComputePoint:
    """A model in one use.

    Args:
      curve: what is changed along the curve: a hyperparameter of depth, an exit rule, "oracle",
        "eval_restarts", "none" (no rule), or "as trained".
      value: of the point on it: depth, threshold, scale, restarts; None: the rule's own, or none.
      use: as ``Run.in_use`` reads it; of the oracle only a name.
      usual: whether it is the run as it is.
      measured: metrics and their intervals.
      mean_steps, milliseconds: as of ``Judged``.
      flop: per example, of the positions that are computed at each step; None: not counted.
    """

    curve: str
    value: float | None
    use: str
    usual: bool
    measured: CheckpointMeasurement
    mean_steps: float
    flop: float | None
    milliseconds: float

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics by name."""
        return self.measured.metrics


@dataclass(frozen=True)
class ComputeSweep(Sweep):
    """A model in several uses.

    Args:
      step: of the checkpoint.
      headlines: names of the metrics that say most.
      points: curve by curve.
    """

    stem = COMPUTE
    columns = ("curve", "value", "usual", "mean_steps", "flop", "milliseconds")

    step: int
    headlines: tuple[str, ...]
    points: tuple[ComputePoint, ...]

    def table(self) -> str:
        """A line for each point, with the metrics that say most and their intervals."""
        rows = [
            [
                " ".join(filter(None, [AS_TRAINED * point.usual, point.use])),
                *map(point.measured.text, self.headlines),
                f"{point.mean_steps:.2f}",
                *([] if point.flop is None else [f"{point.flop / 1e6:.4g}"]),
                f"{point.milliseconds:.3g}",
            ]
            for point in self.points
        ]
        flop = [] if self.points[0].flop is None else ["MFLOP/example"]
        header = ["use", *self.headlines, "mean steps", *flop, "ms/example"]
        return plain_table(header, rows, left=1)


def sweep_compute(
    run: Run,
    depths: Sequence[int] = (),
    rules: Sequence[str] = (),
    checkpoint: str = "best",
    lengths: Iterable[int] = (),
    split: str | None = None,
    problem: Problem | None = None,
    on_point: Callable[[str, int, int], None] | None = None,
    exits_only: bool = False,
) -> ComputeSweep:
    """Judges a run's checkpoint as it is, at depths, under exit rules, with restarts where its
    initial state is drawn, and with the exits of an oracle where the problem's depth is known.

    Args:
      run: with prepared data.
      depths: empty: doubled ones up to that of training, and that one.
      rules: names; none: all that the model can take.
      checkpoint, lengths, split, problem: as of ``measure_checkpoint``.
      on_point: called with each use, its number from 1, and how many there are.
      exits_only: whether it is judged without a rule and under exit rules alone, without FLOP, so
        that a search may write the answers.

    Raises:
      UserError: as ``measure_checkpoint``, the model has no recurrent depth, or a search writes its
        answers.
    """
    without: _Place = (NO_RULE, None, use_of_rule(NO_RULE, None))
    places = [without, *_rules(run, rules)] if exits_only else _places(run, depths, rules)
    # A use that cannot be is told before anything is computed.
    runs = {use: run.in_use(use) for _, _, use in places}
    if not exits_only and all(used.hparams != run.hparams for used in runs.values()):
        places.insert(0, (AS_TRAINED, None, ""))
    problem = run.make_problem() if problem is None else problem
    uses = Uses(run, problem, chosen_sets(run, problem, tuple(lengths), split), checkpoint)
    if not exits_only:
        places += _oracle(uses)
    return _judged(uses, places, runs, on_point, counts_flop=not exits_only)


def _judged(
    uses: Uses,
    places: Sequence[_Place],
    runs: Mapping[str, Run],
    on_point: Callable[[str, int, int], None] | None,
    counts_flop: bool,
) -> ComputeSweep:
    """The sweep of all places; `runs`: by use."""
    run, sets = uses.run, uses.sets
    about = about_checkpoint(run, uses.problem, sets, uses.loaded)
    about["headlines"] = uses.evaluator.headlines(sets)
    points: list[ComputePoint] = []
    for curve, value, use in places:
        is_oracle = curve == ORACLE
        used = runs.get(use, run)
        same = used.hparams == run.hparams
        model = uses.model_of(run if same else used)
        found = uses.judge(AtOracle(model, value or 0.0) if is_oracle else model)
        measured = CheckpointMeasurement(**vars(found.measured), **about)
        flop = found.flop() if counts_flop else None
        costs = (found.mean_steps, flop, found.milliseconds)
        points.append(ComputePoint(curve, value, use, same and not is_oracle, measured, *costs))
        if on_point is not None:
            on_point(use or curve, len(points), len(places))
    headlines = uses.evaluator.headline_metrics(sets, points[0].metrics)
    return ComputeSweep(uses.loaded.step, headlines, tuple(points))


def _places(run: Run, depths: Sequence[int], rules: Sequence[str]) -> list[_Place]:
    """The points of all curves but the oracle's."""
    network = run.hparams.network
    field, trained = depth_field(run)
    depths = depths or [1 << power for power in range(trained.bit_length())]
    full = "" if network.eval_exit == NO_RULE else f"eval_exit={NO_RULE},"
    places: list[_Place] = [(field, at, f"{full}{field}={at}") for at in sorted({*depths, trained})]
    places += _rules(run, rules)
    draws = registry.initial_states.attribute(network.initial_state, "draws", False)
    if draws and network.halting == "none" and run.spec and run.spec.targets != "tokens":
        places += [(_RESTARTS, n, f"{full}{_RESTARTS}={n}") for n in RESTARTS]
    return places


def _rules(run: Run, rules: Sequence[str]) -> list[_Place]:
    """The points of exit rules."""
    pairs = rules_at_thresholds(run, rules)
    return [(rule, threshold, use_of_rule(rule, threshold)) for rule, threshold in pairs]


def _oracle(uses: Uses) -> list[_Place]:
    """The points of the oracle's curve, if the depth of all sets is known.

    Raises:
      UserError: a search writes the answers.
    """
    name = uses.problem.name
    for part in uses.sets:
        method = uses.evaluator.method(part.method)
        if not isinstance(method, PredictionMethod):
            raise UserError(
                f"FLOP are those of one call of the model, and a search writes the answers of"
                f" {name}: sweep its depths or its exit rules alone."
            )
        if not isinstance(method, Aligned) or DIFFICULTY not in method.batches(part).element_spec:
            return []
    if not can_exit(uses.run):
        return []
    validation = chosen_sets(uses.run, uses.problem, (), "validation")
    model = uses.loaded.model
    chosen = collected(uses.evaluator, model, validation, name).scale()
    scales = sorted({*ORACLE_SCALES, chosen})
    return [(ORACLE, scale, f"eval_exit={ORACLE},scale={scale:g}") for scale in scales]
