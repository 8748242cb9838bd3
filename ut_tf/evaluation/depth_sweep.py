"""A trained model at many recurrent depths: its metrics, and how its states and answers change.

How it is used::

    sweep = sweep_depths(run, (1, 2, 4, 8))
    print(sweep.table())
    sweep.write(run.output_dir)

A model that takes a depth (``GivenDepth``) is called with each depth in turn and goes on from the
one before, so that all take as many steps as the last. Others, and sets whose outputs are written
by a search, are evaluated once for each depth.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ut_tf import registry
from ut_tf.data.problem import EvaluationSet, Problem
from ut_tf.evaluation.depth_pass import Seen, measure_in_one_pass
from ut_tf.evaluation.evaluator import Evaluator, about_checkpoint, chosen_sets, combined
from ut_tf.evaluation.measurement import CheckpointMeasurement, Measurement
from ut_tf.evaluation.sweep_files import Sweep, plain_table
from ut_tf.run import Run
from ut_tf.run_weights import LoadedCheckpoint, copy_weights, load_checkpoint
from ut_tf.storage.layout import DEPTH_SWEEP

_SEEN = ("residual", "changed", "found", "lost", "mean_steps")
_EXAMPLES, _SYMBOLS = "seq_accuracy", "accuracy"


@dataclass(frozen=True)
class DepthPoint:
    """A model at one depth. What is None is not known: there is no depth before, or a search wrote
    the outputs.

    Args:
      depth: steps, or under dynamic halting their bound.
      trained: whether it is the depth of training.
      measured: metrics and their intervals.
      residual: mean over the counted positions of ||z_t - z_(t-1)|| / ||z_(t-1)||, float32, of the
        states of the recurrence that is answered from, after its last step and before it.
      changed: share of the answers (of each position, or of an example that has one answer) that
        differ from those at the depth before in the list.
      found, lost: examples with a wrong answer at the depth before and none here; the reverse.
      mean_steps: mean ponder time of the counted positions.
      milliseconds: per example, of all steps up to this depth and the answers on the way.
    """

    depth: int
    trained: bool
    measured: CheckpointMeasurement
    residual: float | None
    changed: float | None
    found: int | None
    lost: int | None
    mean_steps: float | None
    milliseconds: float

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics by name."""
        return self.measured.metrics


@dataclass(frozen=True)
class DepthSweep(Sweep):
    """A model at several depths.

    Args:
      step: of the checkpoint.
      field: the hyperparameter that sets the depth at inference.
      headlines: names of the metrics that say most.
      points: in ascending order.
    """

    stem = DEPTH_SWEEP
    about = ("step", "field", "headlines")
    columns = ("depth", "trained", *_SEEN, "milliseconds")

    step: int
    field: str
    headlines: tuple[str, ...]
    points: tuple[DepthPoint, ...]

    def table(self) -> str:
        """A line for each depth, with the metrics that say most and their intervals."""
        header = [self.field, *self._columns, "residual", "changed", "found", "lost"]
        header += ["mean steps", "ms/example"]
        steady = all(point.mean_steps in (None, point.depth) for point in self.points)
        rows = [self._row(point, steady) for point in self.points]
        kept = [at for at in range(len(header)) if any(row[at] for row in rows)]
        return plain_table([header[at] for at in kept], [[row[at] for at in kept] for row in rows])

    @property
    def _columns(self) -> list[str]:
        """The metrics that say most; beside the share of examples that of symbols, which moves
        sooner.
        """
        names = []
        for name in self.headlines:
            symbols = name.removesuffix(_EXAMPLES) + _SYMBOLS
            is_beside = name.endswith(_EXAMPLES) and symbols in self.points[0].metrics
            names += [name, symbols] if is_beside else [name]
        return list(dict.fromkeys(names))

    def _row(self, point: DepthPoint, steady: bool) -> list[str]:
        return [
            f"trained {point.depth}" if point.trained else str(point.depth),
            *map(point.measured.text, self._columns),
            _number(point.residual, ".3g"),
            _number(point.changed, ".2%"),
            _number(point.found, "d"),
            _number(point.lost, "d"),
            "" if steady else _number(point.mean_steps, ".2f"),
            _number(point.milliseconds, ".3g"),
        ]


def sweep_depths(
    run: Run,
    depths: Sequence[int],
    checkpoint: str = "best",
    lengths: Iterable[int] = (),
    split: str | None = None,
    problem: Problem | None = None,
    on_depth: Callable[[int], None] | None = None,
) -> DepthSweep:
    """Judges a run's checkpoint at recurrent depths, the one of training among them.

    Args:
      run: with prepared data.
      depths: in ascending order.
      checkpoint, lengths, split, problem: as of ``measure_checkpoint``.
      on_depth: called with each depth that takes an evaluation of its own.

    Raises:
      UserError: as ``measure_checkpoint``, or the model has no such depth.
    """
    problem = run.make_problem() if problem is None else problem
    name, trained = depth_field(run)
    depths = sorted({*depths, trained})
    # What has no such depth is told before anything is computed.
    runs = {depth: run.in_use(f"{name}={depth}") for depth in depths}
    sets = chosen_sets(run, problem, tuple(lengths), split)
    loaded = load_checkpoint(run, checkpoint)
    evaluator = Evaluator(loaded.model, problem, run.data_dir, vocab_dir=run.vocab_dir)
    in_one_pass: list[tuple[EvaluationSet, list[tuple[Measurement, Seen]]]] = []
    others: list[EvaluationSet] = []
    for part in sets:
        found = measure_in_one_pass(evaluator.method(part.method), part, depths)
        if found is None:
            others.append(part)
        else:
            in_one_pass.append((part, found))
    about = about_checkpoint(run, problem, sets, loaded)
    about["headlines"] = evaluator.headlines(sets)
    points = []
    for number, depth in enumerate(depths):
        pairs = [(part, found[number][0]) for part, found in in_one_pass]
        seen = sum((found[number][1] for _, found in in_one_pass), Seen())
        if others:
            more, seconds = _by_itself(runs[depth], loaded, problem, others)
            pairs += more
            seen.seconds += seconds
            if on_depth is not None:
                on_depth(depth)
        measured = CheckpointMeasurement(**vars(combined(problem, pairs)), **about)
        points.append(_point(depth, depth == trained, measured, seen, bool(number)))
    return DepthSweep(
        loaded.step, name, evaluator.headline_metrics(sets, points[0].metrics), tuple(points)
    )


def depth_field(run: Run) -> tuple[str, int]:
    """Returns the hyperparameter that sets a run's depth at inference, and its value in training:
    of deep supervision the most steps that an example goes through, in all of its updates.

    Raises:
      UserError: the model has no recurrent depth.
    """
    network = run.hparams.network
    halts = getattr(network, "halting", "none")
    if registry.halting_forms.attribute(halts, "dynamic", True):
        most = network.act_max_steps
        return "eval_act_max_steps", 2 * network.num_steps if most is None else most
    # Another model than a Universal Transformer has no such field.
    run.in_use("eval_num_steps=1")
    training = run.hparams.training
    updates = training.supervision_steps if training.supervision == "deep" else 1
    return "eval_num_steps", updates * network.num_steps


def _by_itself(
    run: Run, loaded: LoadedCheckpoint, problem: Problem, sets: Sequence[EvaluationSet]
) -> tuple[list[tuple[EvaluationSet, Measurement]], float]:
    """Measures sets with a model of the run's depth; returns the measurements, and the seconds of a
    second evaluation, whose graphs are traced.
    """
    model = run.make_model()
    copy_weights(loaded.model, model)
    evaluator = Evaluator(model, problem, run.data_dir, vocab_dir=run.vocab_dir)
    methods = [(part, evaluator.method(part.method)) for part in sets]
    measured = [(part, method.measure(part, with_intervals=True)) for part, method in methods]
    began = time.perf_counter()
    for part, method in methods:
        method.measure(part, with_intervals=False)
    return measured, time.perf_counter() - began


def _point(
    depth: int, trained: bool, measured: CheckpointMeasurement, seen: Seen, has_before: bool
) -> DepthPoint:
    compared = has_before and seen.answers > 0
    return DepthPoint(
        depth,
        trained,
        measured,
        residual=seen.residuals / seen.moved if seen.moved else None,
        changed=seen.changed / seen.answers if compared else None,
        found=seen.found if compared else None,
        lost=seen.lost if compared else None,
        mean_steps=seen.steps / seen.positions if seen.positions else None,
        milliseconds=1000.0 * seen.seconds / max(sum(measured.examples.values()), 1),
    )


def _number(value: float | None, form: str) -> str:
    return "" if value is None else f"{value:{form}}"
