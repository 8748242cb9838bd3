"""What an update says of its examples' answers, and what holds relaxed parameter sets together.

How it is used, by the training step::

    judge = Judge(model, hparams, workers)
    # on each replica; the sums get SIZE more entries
    loss, sums = judge.add(loss, sums, logits, features)
    judge.settle(judged_above=8, pull=0.001)                      # by the trainer, between updates

How it works: an example is right where every symbol of its answer is, given the right ones before
it where the model sees them. The counts steer the curriculum (``curriculum.py``) and the noise on
the gradient (``gradient_noise.py``).

Relaxed tying (arXiv 1511.08228, section 3): a model whose steps take `relaxed_sets` sets of
parameters in turn pays for their distance, with w_i a parameter of set i and its mean over the
sets::

    penalty = pull * Σ_w Σ_i (w_i - mean(w))²

The pull grows with every stage of the curriculum; when that has ended, the model computes with the
means alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ut_tf.config.hparams import HParams
from ut_tf.metrics import per_example as metrics
from ut_tf.training.distribution import Workers

# Entries of the sums: examples of the newest bucket that are right, and all of these; all that are
# right, and all; the penalty.
SIZE = 5


class Judge:
    """Counts of right answers, and the penalty on relaxed sets, inside the training step; made anew
    with it.

    Args:
      model: with ``relaxed_weights()``, variables [sets, ...], where relaxed_sets is above 1.
      hparams: resolved.
      workers: whose replicas each pay a share of the penalty.
    """

    def __init__(self, model: Any, hparams: HParams, workers: Workers) -> None:
        self._relaxed = tuple(model.relaxed_weights()) if hparams.network.relaxed_sets > 1 else ()
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

    def add(self, loss: Any, sums: Any, logits: Any, features: dict[str, Any]) -> tuple[Any, Any]:
        """Returns the loss with this replica's share of the penalty, and the sums with SIZE more
        entries behind their first two.
        """
        share = (
            self._pull.read_value() * relaxation(self._relaxed) / self._shares
            if self._relaxed
            else tf.constant(0.0)
        )
        entries = tf.concat([self._counts(logits, features), tf.stop_gradient(share)[None]], 0)
        return loss + share, tf.concat([sums[:2], entries, sums[2:]], 0)

    def _counts(self, logits: Any, features: dict[str, Any]) -> Any:
        targets, weight = features["targets"], tf.cast(features["weight"], tf.float32)
        if targets.shape.rank == 1:
            right = metrics.classification(logits, targets)["correct"]
        else:
            right = metrics.sequence_matches(
                tf.argmax(logits, -1, output_type=targets.dtype), targets
            )["all_correct"]
        newest = tf.cast(_lengths(features) > self._above.read_value(), tf.float32) * weight
        return tf.stop_gradient(
            tf.stack(
                [tf.reduce_sum(one) for one in (right * newest, newest, right * weight, weight)]
            )
        )


def relaxation(weights: Sequence[Any]) -> Any:
    """Returns float32 []: the sum over `weights`, each [sets, ...], of the sets' squared distances
    from their mean.
    """
    tensors = [tf.convert_to_tensor(weight) for weight in weights]
    return tf.add_n(
        [tf.reduce_sum(tf.square(one - tf.reduce_mean(one, 0, keepdims=True))) for one in tensors]
    )


def _lengths(features: dict[str, Any]) -> Any:
    """Returns int32 [batch]: the longer of each example's inputs (facts: rows) and targets; a class
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
