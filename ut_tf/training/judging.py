"""Right and wrong answers of an update, and the penalty that pulls relaxed parameter sets together.

An example is right where every symbol of its answer is, given the right ones before it where the
model sees them. The counts steer the curriculum and the noise on the gradient.

Relaxed tying (arXiv 1511.08228, section 3): `relaxed_sets` parameter sets take turns over the steps
and pay for their distance, with w_i a parameter of set i and its mean over the sets::

    penalty = pull * Σ_w Σ_i (w_i - mean(w))²

The pull grows with every stage of the curriculum. When that has ended, only the means are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from ut_tf.config.hparams import HParams
from ut_tf.metrics import per_example as metrics
from ut_tf.training.distribution import Workers


class Judged(NamedTuple):
    """Counts of answers, and the penalty on relaxed sets; float32 scalars.

    Args:
      newest_right: examples of the curriculum's newest bucket without a fault.
      newest: all examples of that bucket.
      right: examples without a fault.
      examples: all examples.
      penalty: part of the loss.
    """

    newest_right: Any
    newest: Any
    right: Any
    examples: Any
    penalty: Any

    @property
    def faults(self) -> Any:
        """The share of the examples with a fault."""
        return 1.0 - self.right / tf.maximum(self.examples, 1.0)


class Judge:
    """Counts of right answers, and the penalty on relaxed sets, inside the training step.

    Args:
      model: a ``TrainableModel``.
      hparams: resolved.
      workers: whose replicas each pay a share of the penalty.
    """

    def __init__(self, model: Any, hparams: HParams, workers: Workers) -> None:
        self._relaxed = tuple(model.relaxed_weights())
        self._shares = workers.replicas * hparams.training.accumulate_steps
        with workers.strategy.scope():
            self._above = tf.Variable(0, trainable=False, name="judged_above")
            self._pull = tf.Variable(0.0, trainable=False, name="pull")

    def settle(self, judged_above: int, pull: float) -> None:
        """Sets the length above which an example belongs to the newest bucket, and the weight of
        the penalty.
        """
        self._above.assign(judged_above)
        self._pull.assign(pull)

    def judge(self, logits: Any, features: dict[str, Any]) -> Judged:
        """Judges a replica's answers, and gives its share of the penalty."""
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

        return Judged(
            newest_right=count(right * newest),
            newest=count(newest),
            right=count(right * weight),
            examples=count(weight),
            penalty=self._penalty(),
        )

    def _penalty(self) -> Any:
        if not self._relaxed:
            return tf.constant(0.0)
        return self._pull.read_value() * relaxation(self._relaxed) / self._shares


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


def _lengths(features: dict[str, Any]) -> Any:
    """int32 [batch]: the longer of each example's inputs (facts: rows) and targets; a class
    counts as nothing.
    """
    lengths = []
    for name in ("inputs", "targets"):
        if name in features and features[name].shape.rank > 1:
            filled = tf.not_equal(features[name], 0)
            filled = (
                tf.reduce_any(filled, list(range(2, filled.shape.rank)))
                if filled.shape.rank > 2
                else filled
            )
            lengths.append(tf.reduce_sum(tf.cast(filled, tf.int32), 1))
    return tf.reduce_max(tf.stack(lengths), 0)
