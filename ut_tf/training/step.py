"""One update of the weights as a TensorFlow function, on one device or on many replicas.

How it is used::

    step = TrainingStep(model, optimizer, hparams, workers, batches.element_spec)
    report = step.update([batch])           # a float32 vector on the device; nothing waits for it
    # list of StepReport: fetched in one go, when somebody wants to see them
    values = step.read([report, ...])

How it works: each replica counts its share of the global batch's tokens (or examples) and of the
positions that pay for pondering; the counts are added up over the replicas before any gradient is
taken, so that every replica divides its sums by the global count and the gradients need only be
added up. With ``accumulate_steps`` = k the counts of all k batches are known first and the
gradients are added up over them: k small batches give the update of one large batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from ut_tf.config.hparams import HParams
from ut_tf.metrics import losses
from ut_tf.models.universal_transformer.halting.halting import ponder_weight
from ut_tf.training.distribution import Workers
from ut_tf.training.judging import SIZE, Judge
from ut_tf.training.optimizer import Optimizer


@dataclass(frozen=True)
class StepReport:
    """What one update says of itself.

    Args:
      loss: what was minimised: cross entropy in nats per token (or example) and the weighted ponder
        cost.
      cross_entropy: the former part alone.
      ponder_time: mean steps per position; 0 without dynamic halting.
      tokens: tokens (examples, for classes) of the global batch, all accumulated batches together.
      gradient_norm: global norm before clipping; not finite where the update was skipped under a
        dynamic loss scale.
      learning_rate: of this update.
      loss_scale: factor on the loss after this update; 1 without scaling.
      ponder_histogram: positions per ponder time 0, 1, … on all replicas; empty without dynamic
        halting.
      right, judged: examples of the curriculum's newest bucket without a fault, and all of these; 0
        without a curriculum.
    """

    loss: float
    cross_entropy: float
    ponder_time: float
    tokens: float
    gradient_norm: float
    learning_rate: float
    loss_scale: float
    ponder_histogram: tuple[float, ...]
    right: float = 0.0
    judged: float = 0.0


class TrainingStep:
    """Builds and calls the TensorFlow functions of one update.

    Args:
      model: keras.Model called with (features, training, return_details), which says by
        ``counted_positions(features)``, without computing all else, which positions pay for
        pondering; made under the strategy's scope.
      optimizer: made under the same scope.
      hparams: resolved.
      workers: whose strategy runs the replicas.
      batch_spec: element_spec of ``Workers.share_of`` the data set.
    """

    def __init__(
        self, model: Any, optimizer: Optimizer, hparams: HParams, workers: Workers, batch_spec: Any
    ) -> None:
        network, training = hparams.network, hparams.training
        self._model = model
        self._optimizer = optimizer
        self._training = training
        self._workers = workers
        self._strategy = strategy = workers.strategy
        self._ponders = network.halting != "none"
        self._ponder_weight = ponder_weight(network)
        self._entropy = (
            losses.expected_cross_entropy
            if network.halting == "pondernet"
            else losses.smoothed_cross_entropy
        )
        self._max_steps = max(network.act_max_steps or 2 * network.num_steps, network.num_steps)
        self._weights = tuple(model.trainable_variables)
        self._accumulates = training.accumulate_steps > 1
        judges = training.curriculum != "none" or training.gradient_noise > 0
        self.judge = Judge(model, hparams, workers) if judges else None
        if self._accumulates:
            with strategy.scope():
                self._sums = [
                    tf.Variable(tf.zeros(weight.shape), trainable=False, name="gradient_sum")
                    for weight in self._weights
                ]
        # Unknown lengths in the signature: a new bucket's shape must not trace the function again.
        self._count = tf.function(self._run_count, input_signature=[batch_spec])
        self._whole = tf.function(self._run_whole, input_signature=[batch_spec])
        counts, report = tf.TensorSpec([None], tf.float32), tf.TensorSpec([None], tf.float32)
        self._part = tf.function(self._run_part, input_signature=[batch_spec, counts])
        self._apply = tf.function(self._run_apply, input_signature=[counts, report])

    def update(self, batches: Sequence[Any]) -> Any:
        """Updates the weights once from ``accumulate_steps`` global batches; returns the report's
        vector, for ``read``.
        """
        if not self._accumulates:
            return self._whole(batches[0])
        counts = tf.add_n([self._count(batch) for batch in batches])
        sums = tf.add_n([self._part(batch, counts) for batch in batches])
        return self._apply(counts, sums)

    def read(self, vectors: Sequence[Any]) -> list[StepReport]:
        """Fetches the reports of updates, in one transfer."""
        if not vectors:
            return []
        return [_report(row, self.judge is not None) for row in tf.stack(list(vectors)).numpy()]

    def _run_count(self, batch: Any) -> Any:
        def replica(batch: Any) -> Any:
            return self._sum_over_replicas(self._counts(self._workers.part_of_replica(batch)))

        return self._anywhere(self._strategy.run(replica, args=(batch,)))

    def _run_whole(self, batch: Any) -> Any:
        def replica(batch: Any) -> Any:
            features = self._workers.part_of_replica(batch)
            counts = self._sum_over_replicas(self._counts(features))
            gradients, sums = self._gradients(features, counts)
            gradients, sums = self._sum_over_replicas((gradients, sums))
            return self._finish(gradients, counts, sums)

        return self._anywhere(self._strategy.run(replica, args=(batch,)))

    def _run_part(self, batch: Any, counts: Any) -> Any:
        def replica(batch: Any) -> Any:
            gradients, sums = self._gradients(self._workers.part_of_replica(batch), counts)
            for total, gradient in zip(self._sums, gradients, strict=True):
                tf.raw_ops.AssignAddVariableOp(resource=total.handle, value=gradient)
            return self._sum_over_replicas(sums)

        return self._anywhere(self._strategy.run(replica, args=(batch,)))

    def _run_apply(self, counts: Any, sums: Any) -> Any:
        def replica() -> Any:
            gradients = self._sum_over_replicas([total.read_value() for total in self._sums])
            for total, gradient in zip(self._sums, gradients, strict=True):
                with tf.control_dependencies([gradient]):
                    tf.raw_ops.AssignVariableOp(
                        resource=total.handle, value=tf.zeros_like(gradient)
                    )
            return self._finish(gradients, counts, sums)

        return self._anywhere(self._strategy.run(replica))

    def _counts(self, features: Any) -> Any:
        """The replica's counts: targets, then the positions of each part that ponders; float32 [1 +
        parts].
        """
        targets = tf.reduce_sum(losses.target_weights(features))[tf.newaxis]
        if not self._ponders:
            return targets
        weights = features["weight"][:, tf.newaxis]
        positions = [
            tf.reduce_sum(mask * weights) for mask in self._model.counted_positions(features)
        ]
        return tf.concat([targets, tf.stack(positions)], axis=0)

    def _gradients(self, features: Any, counts: Any) -> tuple[list[Any], Any]:
        """Gradients of the replica's share of the loss (scaled), and its sums: [cross entropy,
        ponder cost, judged…, histogram…].
        """

        def compute(features: Any, counts: Any, scale: Any) -> tuple[list[Any], Any]:
            with tf.GradientTape() as tape:
                logits, loss, sums = self._loss(features, counts)
                if self.judge is not None:
                    loss, sums = self.judge.add(loss, sums, logits, features)
                scaled = loss * scale
            gradients = tape.gradient(
                scaled, [weight.value for weight in self._weights], unconnected_gradients="zero"
            )
            return [
                tf.cast(tf.convert_to_tensor(gradient), tf.float32) for gradient in gradients
            ], sums

        if self._training.jit_compile:
            # Made anew for each replica's trace, since XLA cannot take in the sums over replicas
            # around it.
            compute = tf.function(compute, jit_compile=True)
        return compute(features, counts, self._optimizer.loss_scale)

    def _loss(self, features: Any, counts: Any) -> tuple[Any, Any, Any]:
        counts = tf.maximum(counts, 1.0)
        if not self._ponders:
            logits = self._model(features, training=True)
            cross_entropy = self._cross_entropy(logits, features) / counts[0]
            return logits, cross_entropy, tf.stack([cross_entropy, 0.0])
        logits, details = self._model(features, training=True, return_details=True)
        cross_entropy = self._cross_entropy(logits, features) / counts[0]
        costs, positions, histogram = losses.ponder_sums(
            details, features["weight"], self._max_steps
        )
        del positions
        ponder_cost = tf.reduce_sum(costs / counts[1:])
        sums = tf.concat([tf.stack([cross_entropy, ponder_cost]), histogram], axis=0)
        return logits, cross_entropy + self._ponder_weight * ponder_cost, sums

    def _cross_entropy(self, logits: Any, features: Any) -> Any:
        each = self._entropy(logits, features["targets"], self._training.label_smoothing)
        return tf.reduce_sum(each * losses.target_weights(features))

    def _finish(self, gradients: Sequence[Any], counts: Any, sums: Any) -> Any:
        judged = sums[2 : 2 + SIZE] if self.judge is not None else None
        faults = None if judged is None else 1.0 - judged[2] / tf.maximum(judged[3], 1.0)
        norm, rate = self._optimizer.apply(gradients, faults)
        loss = sums[0] + (self._ponder_weight if self._ponders else 0.0) * sums[1]
        loss = loss if judged is None else loss + judged[4]
        scalars = tf.stack([loss, sums[0], counts[0], norm, rate, self._optimizer.loss_scale])
        return tf.concat(
            [scalars, sums[2:]] if judged is None else [scalars, judged[:2], sums[2 + SIZE :]],
            axis=0,
        )

    def _sum_over_replicas(self, values: Any) -> Any:
        if self._strategy.num_replicas_in_sync == 1:
            return values
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, values)

    def _anywhere(self, values: Any) -> Any:
        """One replica's copy of a value that all replicas have alike."""
        return self._strategy.experimental_local_results(values)[0]


def _report(row: Any, judges: bool) -> StepReport:
    loss, cross_entropy, tokens, norm, rate, scale = (float(value) for value in row[:6])
    right, judged = (float(value) for value in row[6:8]) if judges else (0.0, 0.0)
    histogram = np.asarray(row[8 if judges else 6 :], np.float64)
    positions = histogram.sum()
    mean = float((histogram * np.arange(len(histogram))).sum() / positions) if positions else 0.0
    return StepReport(
        loss,
        cross_entropy,
        mean,
        tokens,
        norm,
        rate,
        scale,
        tuple(histogram.tolist()),
        right,
        judged,
    )
