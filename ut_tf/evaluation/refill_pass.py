"""An evaluation set in batches that refill: each example leaves its slot when it has halted."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from ut_tf.data.problem import EvaluationSet
from ut_tf.errors import UserError
from ut_tf.evaluation.measurement import Measurement
from ut_tf.evaluation.method import EvaluationMethod
from ut_tf.evaluation.methods.batches import PredictionMethod
from ut_tf.inference.refill import Refill
from ut_tf.metrics.sums import COMPUTING


def measure_in_slots(
    method: EvaluationMethod, evaluation_set: EvaluationSet, with_intervals: bool
) -> Measurement:
    """Measures a set as ``method.measure`` does, in as many slots as its context says, but for the
    share of full depth that was computed: it is that of whole batches.

    Raises:
      UserError: the model cannot refill, or the method judges something else than one call of it.
    """
    slots, model = method.context.refill, method.context.model
    own_judge = getattr(type(method), "judge", None) is not PredictionMethod.judge
    if not isinstance(method, PredictionMethod) or own_judge:
        raise UserError(
            f"`refill`={slots}: batches refill where one call of the model is judged, and the"
            f" evaluation method {evaluation_set.method} judges what it writes: leave `refill` out."
        )
    batches = list(method.batches(evaluation_set))
    length = max(batch["inputs"].shape[1] for batch in batches)
    refill = Refill(model, slots, outputs=method.judged, length=length)
    done = sorted(refill(_examples(batches)), key=lambda one: one.number)
    left_out = COMPUTING["compute_share"].sums
    names = [name for name in done[0].outputs if name not in left_out]
    judged = {name: np.stack([one.outputs[name] for one in done]) for name in names}
    alone = [name for name, value in batches[0].items() if value.shape.rank == 1]
    features = {name: tf.concat([batch[name] for batch in batches], 0) for name in alone}
    real = features["weight"] > 0
    features = {name: tf.boolean_mask(values, real) for name, values in features.items()}
    sums = method.new_sums(evaluation_set)
    method.add(sums, judged, features, evaluation_set)
    return method.measurement(sums, evaluation_set, with_intervals)


def _examples(batches: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The features that are numbers of each example, without those that fill up a batch."""
    for batch in batches:
        numbers = {name: values for name, values in batch.items() if values.dtype != tf.string}
        arrays = {name: values.numpy() for name, values in numbers.items()}
        for row in np.flatnonzero(arrays["weight"] > 0):
            yield {name: values[row] for name, values in arrays.items()}
