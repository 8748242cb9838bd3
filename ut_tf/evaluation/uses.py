"""One checkpoint judged in several uses: at other depths, under exit rules, with restarts.

::

    uses = Uses(run, problem, sets)
    for use in ("eval_num_steps=4", "eval_exit=kl"):
        found = uses.judge(uses.model_of(run.in_use(use)))
        found.measured.metrics, found.mean_steps, found.milliseconds, found.flop()
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import tensorflow as tf

from ut_tf.data.problem import EvaluationSet, Problem
from ut_tf.evaluation.evaluator import Evaluator
from ut_tf.evaluation.measurement import Measurement
from ut_tf.evaluation.method import EvaluationContext
from ut_tf.evaluation.methods.batches import BatchMethod
from ut_tf.metrics.sums import Metric, ratio
from ut_tf.models.graph_flop import call_flop
from ut_tf.run import Run
from ut_tf.run_weights import copy_weights, load_checkpoint

_PARTS = ("encoder", "decoder")


class GivenTargets(BatchMethod):
    """Steps of encoder and decoder, where the targets are given: mean_steps, the mean ponder time
    of counted positions; encoder and decoder, the mean of the steps at which a position, padding
    included, was computed.
    """

    metrics: ClassVar[Mapping[str, Metric]] = {
        "mean_steps": Metric(("steps", "positions"), ratio),
        **{part: Metric((f"{part}_computed", f"{part}_places"), ratio) for part in _PARTS},
    }
    headline = "mean_steps"

    def judge(self, features: dict[str, Any]) -> dict[str, Any]:
        details = self.context.model(features, training=False, return_details=True)[1]
        parts = [part for part in details if part is not None]
        sums = {
            "steps": tf.add_n([tf.reduce_sum(part.ponder_times * part.mask, 1) for part in parts]),
            "positions": tf.add_n([tf.reduce_sum(part.mask, 1) for part in parts]),
        }
        for name, part in zip(_PARTS, details, strict=True):
            computed = tf.zeros_like(parts[0].mask) if part is None else _computed(part)
            sums[f"{name}_computed"] = tf.reduce_sum(computed, 1)
            sums[f"{name}_places"] = tf.reduce_sum(tf.ones_like(computed), 1)
        return sums


class Judged(NamedTuple):
    """A checkpoint in one use.

    Fields:
      measured: metrics with their intervals, of all sets.
      mean_steps: mean ponder time of the counted positions of encoder and decoder, where the
        targets are given; of several sets their mean, weighted by examples.
      milliseconds: per example, of the faster of two evaluations whose graphs are traced.
      flop: counts FLOP per example, of one call of the model.
    """

    measured: Measurement
    mean_steps: float
    milliseconds: float
    flop: Callable[[], float]


class Uses:
    """Judges a checkpoint, which is read once: a training may remove it meanwhile.

    Args:
      run: with prepared data.
      problem: the run's.
      sets: that are judged.
      checkpoint: as of ``measure_checkpoint``.

    Raises:
      UserError: there is no such checkpoint.
    """

    def __init__(
        self, run: Run, problem: Problem, sets: Sequence[EvaluationSet], checkpoint: str = "best"
    ) -> None:
        self.run = run
        self.problem = problem
        self.sets = sets
        self.loaded = load_checkpoint(run, checkpoint)
        self.evaluator = Evaluator(
            self.loaded.model, problem, run.data_dir, vocab_dir=run.vocab_dir
        )

    def model_of(self, used: Run) -> Any:
        """Returns the keras.Model of a run of the same weights."""
        if used is self.run:
            return self.loaded.model
        model = used.make_model()
        copy_weights(self.loaded.model, model)
        return model

    def judge(self, model: Any) -> Judged:
        """Judges a model of ``model_of``, or what calls one."""
        run, evaluator = self.run, self.evaluator
        if model is not self.loaded.model:
            evaluator = Evaluator(model, self.problem, run.data_dir, vocab_dir=run.vocab_dir)
        measured = evaluator.measure(self.sets)
        # The graphs are traced now.
        seconds = min(_seconds(evaluator, self.sets) for _ in range(2))
        examples = sum(measured.examples.values())
        targets = GivenTargets(EvaluationContext(model, self.problem, run.data_dir))
        steps = {part.name: targets.measure(part, False).metrics for part in self.sets}
        of_sets = {name: count / examples for name, count in measured.examples.items()}

        def flop() -> float:
            counted = (
                of_sets[part.name] * _set_flop(model, targets.batches(part), steps[part.name])
                for part in self.sets
            )
            return sum(counted)

        mean = sum(of_sets[name] * metrics["mean_steps"] for name, metrics in steps.items())
        return Judged(measured, mean, 1000.0 * seconds / examples, flop)


def _computed(part: Any) -> Any:
    """Float32 [batch, length], the steps at which each position was computed."""
    if part.computed_steps is not None:
        return part.computed_steps
    return tf.reduce_max(part.ponder_times) * tf.ones_like(part.mask)


def _set_flop(model: Any, batches: Any, steps: Mapping[str, float]) -> float:
    """FLOP per example of a set, in proportion to the positions from the batch whose length is next
    to the mean.
    """
    shapes: Counter[tuple[Any, ...]] = Counter()
    for batch in batches:
        shape = tuple((name, *value.shape[1:], value.dtype) for name, value in batch.items())
        shapes[shape] += int(np.sum(batch["weight"].numpy() > 0))
    positions = {
        shape: max(size for _, *sizes, _ in shape for size in sizes[:1]) for shape in shapes
    }
    mean = sum(positions[shape] * count for shape, count in shapes.items()) / sum(shapes.values())
    typical = min(shapes, key=lambda shape: abs(positions[shape] - mean))
    features = {name: tf.TensorSpec([1, *sizes], dtype) for name, *sizes, dtype in typical}
    return float(call_flop(model, features, steps) * mean / positions[typical])


def _seconds(evaluator: Evaluator, sets: Sequence[EvaluationSet]) -> float:
    began = time.perf_counter()
    evaluator.evaluate(sets)
    return time.perf_counter() - began
