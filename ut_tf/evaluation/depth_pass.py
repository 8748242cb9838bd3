"""One pass over an evaluation set at many depths: each batch goes on from depth to depth."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import tensorflow as tf

from ut_tf.data.problem import EvaluationSet
from ut_tf.evaluation.measurement import Measurement
from ut_tf.evaluation.method import EvaluationMethod
from ut_tf.evaluation.methods.batches import PredictionMethod, any_lengths
from ut_tf.layers.recurrence_details import GivenDepth
from ut_tf.metrics.per_example import target_mask

_Call = Callable[..., tuple[dict[str, Any], Any]]


@dataclass
class Seen:
    """Sums over the examples of a set at one depth; addable.

    Args:
      residuals, moved: sum and number of the residuals of counted positions; a state of zeros, such
        as a decoder's first, has none.
      steps, positions: sum and number of the ponder times of counted positions.
      answers, changed: answers, and those that differ from the depth before.
      found, lost: examples that became right, and that became wrong.
      seconds: up to this depth.
    """

    residuals: float = 0.0
    moved: float = 0.0
    steps: float = 0.0
    positions: float = 0.0
    answers: int = 0
    changed: int = 0
    found: int = 0
    lost: int = 0
    seconds: float = 0.0

    def __add__(self, other: "Seen") -> Self:
        names = [field.name for field in fields(self)]
        return type(self)(*(getattr(self, name) + getattr(other, name) for name in names))


def measure_in_one_pass(
    method: EvaluationMethod, evaluation_set: EvaluationSet, depths: Sequence[int]
) -> list[tuple[Measurement, Seen]] | None:
    """Measures a set at depths in ascending order.

    Returns:
      a pair for each depth; None: the model does not take a depth, or the method judges something
      else than one call of the model.
    """
    if not isinstance(method, PredictionMethod):
        return None
    if type(method).judge is not PredictionMethod.judge:
        return None
    if not getattr(method.context.model, "goes_deeper", False):
        return None
    sums = [method.new_sums(evaluation_set) for _ in depths]
    seen = [Seen() for _ in depths]
    batches = method.batches(evaluation_set)
    begin, go_on = _calls(method, batches.element_spec)
    for number, batch in enumerate(batches):
        if number == 0:
            # What a first run takes longer is not timed.
            _run_batch(begin, go_on, batch, depths[:2], [Seen(), Seen()])
        judged = _run_batch(begin, go_on, batch, depths, seen)
        for of_depth, values in zip(sums, judged, strict=True):
            method.add(of_depth, values, batch, evaluation_set)
    return [
        (method.measurement(of_depth, evaluation_set, with_intervals=True), at)
        for of_depth, at in zip(sums, seen, strict=True)
    ]


def _calls(method: PredictionMethod, element_spec: Mapping[str, Any]) -> tuple[_Call, _Call | None]:
    """Functions of (features, steps) and (features, steps, progress) that return (values of the
    examples, progress); the second None where each depth begins anew.
    """
    model = method.context.model
    begins_anew = model.has_encoder and model.has_decoder

    def call(features: dict[str, Any], steps: Any, progress: Any = None) -> Any:
        depth = GivenDepth(steps, progress)
        given = {**features, "to_depth": depth}
        logits, details = model(given, training=False, return_details=True)
        part = details.encoder if details.decoder is None else details.decoder
        values = method.judged(logits, details, features)
        own = _seen(logits, part, features)
        return {"judged": values, **own}, () if begins_anew else part.progress

    if tf.config.functions_run_eagerly():
        return call, None if begins_anew else call
    specs = [any_lengths(element_spec), tf.TensorSpec([], tf.int32)]
    begin = tf.function(call, input_signature=specs, autograph=False)
    _, progress = begin.get_concrete_function().structured_outputs
    if begins_anew:
        return begin, None
    progress_spec = tf.nest.map_structure(tf.type_spec_from_value, progress)
    go_on = tf.function(call, input_signature=[*specs, progress_spec], autograph=False)
    go_on.get_concrete_function()
    return begin, go_on


def _seen(logits: Any, part: Any, features: Mapping[str, Any]) -> dict[str, Any]:
    """Answers of a batch: "answers" and "counted" [batch, ...], "right" [batch]; and sums [batch]
    of the counted positions.
    """
    targets = features["targets"]
    answers = tf.argmax(logits, -1, output_type=tf.int32)
    counted = (
        target_mask(targets) > 0.0 if targets.shape.rank == 2 else tf.ones_like(targets, tf.bool)
    )
    wrong = tf.logical_and(answers != tf.cast(targets, tf.int32), counted)
    wrong = tf.reduce_any(wrong, 1) if targets.shape.rank == 2 else wrong
    mask = part.mask
    moved = tf.logical_and(mask > 0.0, tf.math.is_finite(part.residuals))
    return {
        "answers": answers,
        "counted": counted,
        "right": tf.logical_not(wrong),
        "residuals": tf.reduce_sum(tf.where(moved, part.residuals, 0.0), 1),
        "moved": tf.reduce_sum(tf.cast(moved, tf.float32), 1),
        "steps": tf.reduce_sum(part.ponder_times * mask, 1),
        "positions": tf.reduce_sum(mask, 1),
    }


def _run_batch(
    begin: _Call, go_on: _Call | None, batch: Any, depths: Sequence[int], seen: Sequence[Seen]
) -> list[dict[str, Any]]:
    """Calls the model at all depths, adds to `seen`, and returns the values of the examples."""
    real = batch["weight"].numpy() > 0
    judged: list[dict[str, Any]] = []
    before: dict[str, Any] | None = None
    progress: Any = None
    seconds = 0.0
    for depth, at in zip(depths, seen, strict=True):
        began = time.perf_counter()
        steps = tf.constant(depth, tf.int32)
        if progress is None or go_on is None:
            values, progress = begin(batch, steps)
        else:
            values, progress = go_on(batch, steps, progress)
        judged.append({name: value.numpy() for name, value in values.pop("judged").items()})
        now = {name: value.numpy()[real] for name, value in values.items()}
        spent = time.perf_counter() - began
        seconds = spent if go_on is None else seconds + spent
        add_seen(at, now, before, seconds)
        before = now
    return judged


def add_seen(
    seen: Seen, now: Mapping[str, Any], before: Mapping[str, Any] | None, seconds: float
) -> None:
    """Adds a batch at one depth to the sums.

    Args:
      seen: changed in place.
      now: of ``_seen``, of the examples that count.
      before: the same at the depth before, or None.
      seconds: up to this depth.
    """
    for name in ("residuals", "moved", "steps", "positions"):
        setattr(seen, name, getattr(seen, name) + float(now[name].sum(dtype=np.float64)))
    seen.answers += int(now["counted"].sum())
    seen.seconds += seconds
    if before is None:
        return
    seen.changed += int(((now["answers"] != before["answers"]) & now["counted"]).sum())
    seen.found += int((now["right"] & ~before["right"]).sum())
    seen.lost += int((before["right"] & ~now["right"]).sum())
