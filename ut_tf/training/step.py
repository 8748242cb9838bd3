"""One update of the weights as a TensorFlow function, on one device or on many replicas.

::

    step = TrainingStep(model, optimizer, hparams, workers, batches.element_spec)
    report = step.update([batch])  # tensors by name, on the device; nothing waits for them
    (values,) = step.read([report])  # StepReports

Each replica counts its share of the global batch's tokens (or examples) and of the positions that
pay for pondering. The counts are added up over replicas and the batches of ``accumulate_steps``
before any gradient is taken: every replica divides its sums by the global count, and gradients need
only be added up. So k accumulated batches give the update of one large batch. Losses that layers
add, which are means or sums of what a replica sees, are divided by the number of replicas and
accumulated batches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from ut_tf.config.hparams import HParams
from ut_tf.layers.added_losses import added_losses
from ut_tf.metrics import losses
from ut_tf.training.distribution import Workers
from ut_tf.training.judging import Judge, Judged
from ut_tf.training.optimizer import Optimizer
from ut_tf.training.step_report import ADDED, StepReport


class Counts(NamedTuple):
    """The divisors of the losses, of a replica or of all of them.

    Args:
      targets: [], tokens or examples.
      positions: [parts], those that pay for pondering, of each part that ponders; () where none
        does.
    """

    targets: Any
    positions: Any


class LossSums(NamedTuple):
    """The parts of the loss, and what is counted beside it; added up over replicas and batches.

    Args:
      cross_entropy: [].
      ponder_cost: [], without its weight.
      ponder_histogram: [times], positions per ponder time; () without dynamic halting.
      added: the losses that layers add, by the path of the layer.
      judged: answers and the penalty of relaxed sets; () where nobody asks for them.
    """

    cross_entropy: Any
    ponder_cost: Any
    ponder_histogram: Any
    added: dict[str, Any]
    judged: Judged | tuple[()]


class TrainingStep:
    """Builds and calls the TensorFlow functions of one update.

    Args:
      model: ``TrainableModel``, made under the strategy's scope.
      optimizer: made under the same scope.
      hparams: resolved.
      workers: whose strategy runs the replicas.
      batch_spec: element_spec of ``Workers.share_of`` the data set.
    """

    def __init__(
        self, model: Any, optimizer: Optimizer, hparams: HParams, workers: Workers, batch_spec: Any
    ) -> None:
        training = hparams.training
        self._model = model
        self._optimizer = optimizer
        self._training = training
        self._workers = workers
        self._strategy = strategy = workers.strategy
        self._ponders = model.ponder_weight is not None
        self._ponder_weight = model.ponder_weight or 0.0
        self._max_steps = model.max_steps(training=True) if self._ponders else 0
        self._entropy = (
            losses.expected_cross_entropy if model.expects_scores else losses.smoothed_cross_entropy
        )
        self._weights = tuple(model.trainable_variables)
        self._accumulates = training.accumulate_steps > 1
        self._shares = workers.replicas * training.accumulate_steps
        judges = training.curriculum != "none" or training.gradient_noise > 0
        self.judge = Judge(model, hparams, workers) if judges else None
        if self._accumulates:
            with strategy.scope():
                self._sums = [
                    tf.Variable(tf.zeros(weight.shape), trainable=False, name="gradient_sum")
                    for weight in self._weights
                ]
        positions = tf.TensorSpec([None], tf.float32) if self._ponders else ()
        counts = Counts(tf.TensorSpec([], tf.float32), positions)
        # Unknown lengths in the signature: a new bucket's shape must not trace the function again.
        self._count = _graph(self._run_count, batch_spec)
        self._whole = _graph(self._run_whole, batch_spec)
        self._part = _graph(self._run_part, batch_spec, counts)
        self._apply = _graph(self._run_apply)

    def update(self, batches: Sequence[Any]) -> Any:
        """Updates the weights once from ``accumulate_steps`` global batches.

        Returns:
          The report, tensors by name, for ``read``.
        """
        if not self._accumulates:
            return self._whole(batches[0])
        counts = _added([self._count(batch) for batch in batches])
        sums = _added([self._part(batch, counts) for batch in batches])
        return self._apply(counts, sums)

    @property
    def graph(self) -> Any:
        """The tf.Graph of an update (of one batch of several), once there was one."""
        function = self._part if self._accumulates else self._whole
        return function.get_concrete_function().graph

    def read(self, reports: Sequence[Mapping[str, Any]]) -> list[StepReport]:
        """Fetches the reports of updates, each value of all of them in one transfer."""
        if not reports:
            return []
        columns = tf.nest.map_structure(lambda *values: tf.stack(values).numpy(), *reports)
        return [
            StepReport.from_arrays({name: column[row] for name, column in columns.items()})
            for row in range(len(reports))
        ]

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

    def _counts(self, features: Any) -> Counts:
        """The replica's counts."""
        targets = tf.reduce_sum(losses.target_weights(features))
        if not self._ponders:
            return Counts(targets, ())
        weights = features["weight"][:, tf.newaxis]
        masks = self._model.counted_positions(features)
        return Counts(targets, tf.stack([tf.reduce_sum(mask * weights) for mask in masks]))

    def _gradients(self, features: Any, counts: Counts) -> tuple[list[Any], LossSums]:
        """Gradients of the replica's share of the loss, times the loss scale, and its sums."""

        def compute(features: Any, counts: Counts, scale: Any) -> tuple[list[Any], LossSums]:
            with tf.GradientTape() as tape:
                logits, sums = self._loss_sums(features, counts)
                if self.judge is not None:
                    sums = sums._replace(judged=self.judge.judge(logits, features))
                scaled = self._loss(sums) * scale
            gradients = tape.gradient(
                scaled, [weight.value for weight in self._weights], unconnected_gradients="zero"
            )
            return [
                tf.cast(tf.convert_to_tensor(gradient), tf.float32) for gradient in gradients
            ], tf.nest.map_structure(tf.stop_gradient, sums)

        if self._training.jit_compile:
            # Made again for each replica's trace, since XLA cannot take in the sums over replicas
            # around it.
            compute = tf.function(compute, autograph=False, jit_compile=True)
        return compute(features, counts, self._optimizer.loss_scale)

    def _loss_sums(self, features: Any, counts: Counts) -> tuple[Any, LossSums]:
        """The logits, and the replica's share of the parts of the loss."""
        counts = tf.nest.map_structure(lambda count: tf.maximum(count, 1.0), counts)
        if not self._ponders:
            logits = self._model(features, training=True)
            cross_entropy = self._cross_entropy(logits, features) / counts.targets
            return logits, LossSums(cross_entropy, tf.constant(0.0), (), self._added(), ())
        logits, details = self._model(features, training=True, return_details=True)
        cross_entropy = self._cross_entropy(logits, features) / counts.targets
        costs, _, histogram = losses.ponder_sums(details, features["weight"], self._max_steps)
        ponder_cost = tf.reduce_sum(costs / counts.positions)
        return logits, LossSums(cross_entropy, ponder_cost, histogram, self._added(), ())

    def _added(self) -> dict[str, Any]:
        """The replica's share of the losses that the layers have added in the call."""
        losses = added_losses(self._model, without_ponder_cost=self._ponders)
        return {path: loss / self._shares for path, loss in losses.items()}

    def _cross_entropy(self, logits: Any, features: Any) -> Any:
        each = self._entropy(logits, features["targets"], self._training.label_smoothing)
        return tf.reduce_sum(each * losses.target_weights(features))

    def _loss(self, sums: LossSums) -> Any:
        loss = sums.cross_entropy
        if self._ponders:
            loss += self._ponder_weight * sums.ponder_cost
        for added in sums.added.values():
            loss += added
        return loss + sums.judged.penalty if isinstance(sums.judged, Judged) else loss

    def _finish(self, gradients: Sequence[Any], counts: Counts, sums: LossSums) -> dict[str, Any]:
        """Updates the weights; returns the report's tensors, named as in ``StepReport``."""
        judged = sums.judged if isinstance(sums.judged, Judged) else None
        faults = None if judged is None else judged.faults
        norm, rate = self._optimizer.apply(gradients, faults)
        optional = {} if judged is None else {"right": judged.newest_right, "judged": judged.newest}
        if self._ponders:
            optional["ponder_histogram"] = sums.ponder_histogram
        return {
            "loss": self._loss(sums),
            "cross_entropy": sums.cross_entropy,
            "tokens": counts.targets,
            "gradient_norm": norm,
            "learning_rate": rate,
            "loss_scale": self._optimizer.loss_scale,
            **{f"{ADDED}{path}": loss for path, loss in sums.added.items()},
            **optional,
        }

    def _sum_over_replicas(self, values: Any) -> Any:
        if self._strategy.num_replicas_in_sync == 1:
            return values
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, values)

    def _anywhere(self, values: Any) -> Any:
        """One replica's copy of values that all replicas have alike."""
        return tf.nest.map_structure(
            lambda value: self._strategy.experimental_local_results(value)[0], values
        )


def _graph(function: Callable[..., Any], *signature: Any) -> Any:
    """The TensorFlow function of `signature`; () leaves it to the arguments."""
    # AutoGraph would rewrite the source of all that is called, which takes longer than the trace.
    return tf.function(function, input_signature=signature or None, autograph=False)


def _added(structures: Sequence[Any]) -> Any:
    return tf.nest.map_structure(lambda *values: tf.add_n(values), *structures)
