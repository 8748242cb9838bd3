"""Right and wrong answers of an update, and the penalty that pulls relaxed parameter sets together.

An example is right where every symbol of its answer is, given the right ones before it where the
model sees them. The counts steer the curriculum and the noise on the gradient.

Relaxed tying (arXiv 1511.08228, section 3): `relaxed_sets` parameter sets take turns over the steps
and pay for their distance, with w_i a parameter of set i and its mean over the sets::

    penalty = pull * Σ_w Σ_i (w_i - mean(w))²

The pull grows with every stage of the curriculum. When that has ended, only the means are used.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from ut_tf.config.hparams import HParams
from ut_tf.metrics import per_example as metrics
from ut_tf.training.distribution import Workers
from ut_tf.training.objective import Call, Sums


class AnswerCounter:
    """A term of the objective: counts of right answers, and the penalty on relaxed sets.

    It reports "right" and "judged", the examples of the curriculum's newest bucket without a fault
    and all of these, and "all_right" and "examples", the same of all buckets.

    Args:
      model: a ``TrainableModel``.
      hparams: resolved.
      workers: whose replicas each pay a share of the penalty.
    """

    needs_details = False

    def __init__(self, model: Any, hparams: HParams, workers: Workers) -> None:
        self._relaxed = tuple(model.relaxed_weights())
        training = hparams.training
        self._shares = workers.replicas * training.accumulate_steps * training.parallel_parts
        with workers.strategy.scope():
            self._above = tf.Variable(0, trainable=False, name="newest_above")
            self._pull = tf.Variable(0.0, trainable=False, name="pull")

    def configure(self, newest_above: int, pull: float) -> None:
        """Sets the length above which an example belongs to the newest bucket, and the weight of
        the penalty.
        """
        self._above.assign(newest_above)
        self._pull.assign(pull)

    def counts(self, features: Mapping[str, Any]) -> dict[str, Any]:
        return {}

    def sums(self, call: Call, counts: Mapping[str, Any]) -> Sums:
        features, logits = call.features, call.logits
        targets, weight = features["targets"], tf.cast(features["weight"], tf.float32)
        if targets.shape.rank == 1:
            right = metrics.classification(logits, targets)["correct"]
        else:
            right = metrics.sequence_matches(
                tf.argmax(logits, -1, output_type=targets.dtype), targets
            )["all_correct"]
        newest = tf.cast(_lengths(features) > self._above.read_value(), tf.float32) * weight

        def count(values: Any) -> Any:
            return tf.stop_gradient(tf.reduce_sum(values))

        return Sums(
            self._penalty(),
            {
                "right": count(right * newest),
                "judged": count(newest),
                "all_right": count(right * weight),
                "examples": count(weight),
            },
        )

    def take_faults(self, reported: dict[str, Any]) -> Any:
        """Returns the share of all examples with a fault, float32 [], and removes their counts from
        `reported`.
        """
        return 1.0 - reported.pop("all_right") / tf.maximum(reported.pop("examples"), 1.0)

    def _penalty(self) -> dict[str, Any]:
        if not self._relaxed:
            return {}
        return {"penalty": self._pull.read_value() * relaxation(self._relaxed) / self._shares}


def relaxation(weights: Sequence[Any]) -> Any:
    """The sum over `weights`, each [sets, ...], of the sets' squared distances
    from their mean.
    """
    tensors = [tf.convert_to_tensor(weight) for weight in weights]
    return tf.add_n(
        [
            tf.reduce_sum(tf.square(sets - tf.reduce_mean(sets, 0, keepdims=True)))
            for sets in tensors
        ]
    )


def _lengths(features: Mapping[str, Any]) -> Any:
    """int32 [batch]: the longer of each example's inputs (facts: rows) and targets; a class
    counts as nothing.
    """
    lengths = []
    for name in ("inputs", "targets"):
        if name in features and features[name].shape.rank > 1:
            filled = tf.not_equal(features[name], 0)
            if filled.shape.rank > 2:
                filled = tf.reduce_any(filled, list(range(2, filled.shape.rank)))
            lengths.append(tf.reduce_sum(tf.cast(filled, tf.int32), 1))
    return tf.reduce_max(tf.stack(lengths), 0)
