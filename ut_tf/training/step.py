"""One update of the weights as a TensorFlow function, on one device or on many replicas.

::

    step = TrainingStep(model, optimizer, run, workers, batches.element_spec)
    report, carry = step.update([batch])         # on the device; nothing waits for them
    report, carry = step.update([batch], carry)
    (values,) = step.read([report])              # StepReports

The objective (``objective.py``) counts, loses and carries. Each replica counts its
share of the global batch. The counts are added up over replicas and the batches of
``accumulate_steps`` before any gradient is taken: every replica divides its sums by the global
count, and gradients need only be added up. So k accumulated batches give the update of one large
batch. The model finds the run's seed and the number of the update in its features as "update": what
it draws from them is the same on all replicas and in all accumulated batches.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ut_tf import registry
from ut_tf.config.hparams import HParams
from ut_tf.data.pipeline import WEIGHT
from ut_tf.errors import UserError, marked
from ut_tf.symbols import PADDING_ID
from ut_tf.training.answer_counter import AnswerCounter
from ut_tf.training.distribution import Workers
from ut_tf.training.objective import CROSS_ENTROPY, TARGETS, Sums, make_objective
from ut_tf.training.optimizer import Optimizer
from ut_tf.training.parallel_parts import in_parts
from ut_tf.training.step_report import ADDED, StepReport

Tensors = dict[str, Any]


class TrainingStep:
    """Builds and calls the TensorFlow functions of one update.

    Args:
      model: ``TrainableModel``, made under the strategy's scope.
      optimizer: made under the same scope.
      hparams: resolved.
      workers: whose strategy runs the replicas.
      batch_spec: element_spec of ``Workers.share_of`` the data set.
      seed: of the run.
    """

    def __init__(
        self,
        model: Any,
        optimizer: Optimizer,
        hparams: HParams,
        workers: Workers,
        batch_spec: Any,
        seed: int = 0,
    ) -> None:
        training = hparams.training
        self._seed = seed
        self._optimizer = optimizer
        self._training = training
        self._workers = workers
        self._strategy = strategy = workers.strategy
        transition = getattr(hparams.network, "transition", "")
        self._needs_boards = training.jit_compile and registry.transitions.attribute(
            transition, "needs_board", False
        )
        self._weights = tuple(model.trainable_variables)
        self._accumulates = training.accumulate_steps > 1
        judges = training.curriculum != "none" or training.gradient_noise > 0
        self.judge = AnswerCounter(model, hparams, workers) if judges else None
        self.objective = make_objective(model, hparams, workers.replicas, self.judge)
        parts = training.parallel_parts
        if parts > 1 and (self.objective.carries or training.jit_compile):
            raise UserError(
                f"parallel_parts={parts}: neither XLA (jit_compile) nor a supervision that carries"
                " states from one update to the next takes a batch in parts; set it to 1."
            )
        self._gradients_in_parts = self._compiled(in_parts(self._gradients, parts))
        if self._accumulates:
            with strategy.scope():
                self._sums = [
                    tf.Variable(tf.zeros(weight.shape), trainable=False, name="gradient_sum")
                    for weight in self._weights
                ]
        # Unknown lengths in the signature: a new bucket's shape must not trace the function again.
        self._start = _graph(self._run_start, batch_spec)
        carry_spec = self._carry_spec()
        self._count = _graph(self._run_count, batch_spec, carry_spec)
        self._whole = _graph(self._run_whole, batch_spec, carry_spec)
        if self.objective.demand is not None:
            self._wants = _graph(self._run_wants, carry_spec)
        if self._accumulates:
            counts = self._count.get_concrete_function().structured_outputs
            spec = tf.nest.map_structure(tf.TensorSpec.from_tensor, counts)
            self._part = _graph(self._run_part, batch_spec, spec, carry_spec)
        self._apply = _graph(self._run_apply)

    def start(self, batches: Sequence[Any]) -> list[Any]:
        """Returns the carry into the first update, given its global batches: for each of them a
        structure of each replica's tensors; () where the objective carries nothing.
        """
        if not self.objective.carries:
            return [()] * len(batches)
        return [self._start(batch) for batch in batches]

    def wants(self, carry: Sequence[Any] | None) -> list[bool]:
        """Returns, for each of the next update's global batches, whether one of the data is to be
        given, or else one without rows (``TrainingBatches.blank``). Waits for the update before
        where that decides.

        Args:
          carry: as of ``update``.
        """
        if carry is None or self.objective.demand is None:
            return [True] * self._training.accumulate_steps
        return [bool(self._wants(carried)) for carried in carry]

    def update(
        self, batches: Sequence[Any], carry: Sequence[Any] | None = None
    ) -> tuple[Any, list[Any]]:
        """Updates the weights once from ``accumulate_steps`` global batches.

        Args:
          batches: global batches.
          carry: from the update before or ``start``, one for each batch; None: from ``start``.

        Returns:
          (the report, tensors by name, for ``read``; what is carried into the next update).
        """
        carry = self.start(batches) if carry is None else carry
        if not self._accumulates:
            report, after = self._whole(batches[0], carry[0])
            return report, [after]
        pairs = list(zip(batches, carry, strict=True))
        counts = _added([self._count(*pair) for pair in pairs])
        parts = [self._part(batch, counts, carried) for batch, carried in pairs]
        sums = _added([part for part, _ in parts])
        return self._apply(counts, sums), [after for _, after in parts]

    def read(self, reports: Sequence[Mapping[str, Any]]) -> list[StepReport]:
        """Fetches the reports of updates, each value of all of them in one transfer."""
        if not reports:
            return []
        columns = tf.nest.map_structure(lambda *values: tf.stack(values).numpy(), *reports)
        return [
            StepReport.from_arrays({name: column[row] for name, column in columns.items()})
            for row in range(len(reports))
        ]

    def _carry_spec(self) -> Any:
        if not self.objective.carries:
            return ()
        carry = self._start.get_concrete_function().structured_outputs
        return tf.nest.map_structure(tf.type_spec_from_value, carry)

    # What runs in a graph, on all replicas.

    def _run_start(self, batch: Any) -> Any:
        features = self._strategy.run(self._features, args=(batch,))
        return self._strategy.run(self.objective.start, args=(features,))

    def _run_wants(self, carry: Any) -> Any:
        totals = self._first_replica(self._strategy.run(self._demand, args=(carry,)))
        needed, full = tf.unstack(totals)
        return tf.logical_and(needed > 0.0, full == 0.0)

    def _run_count(self, batch: Any, carry: Any) -> Any:
        features = self._strategy.run(self._features, args=(batch,))
        return self._first_replica(self._strategy.run(self._counts, args=(features, carry)))

    def _run_whole(self, batch: Any, carry: Any) -> Any:
        run = self._strategy.run
        features = run(self._features, args=(batch,))
        counts = run(self._counts, args=(features, carry))
        given = (features, counts, carry)
        gradients, sums, after = run(self._gradients_in_parts, args=given)
        return self._first_replica(run(self._apply_summed, args=(gradients, counts, sums))), after

    def _run_part(self, batch: Any, counts: Any, carry: Any) -> Any:
        run = self._strategy.run
        features = run(self._features, args=(batch,))
        given = (features, counts, carry)
        gradients, sums, after = run(self._gradients_in_parts, args=given)
        return self._first_replica(run(self._accumulate, args=(gradients, sums))), after

    def _run_apply(self, counts: Any, sums: Any) -> Any:
        return self._first_replica(self._strategy.run(self._apply_accumulated, args=(counts, sums)))

    # What one replica computes.

    def _features(self, batch: Any) -> dict[str, Any]:
        """The replica's part of a batch, with the seed and number of the update, int64 [2]."""
        number = tf.cast(self._optimizer.iterations, tf.int64) + 1
        update = tf.stack([tf.constant(self._seed, tf.int64), number])
        features = self._workers.part_of_replica(batch)
        if self._needs_boards:
            # XLA leaves out what the layer checks itself.
            features = _whole_boards(features)
        return {**features, "update": update}

    def _demand(self, carry: Any) -> Any:
        """Returns how many replicas need a batch, and how many have no room for one."""
        return self._sum_over_replicas(self.objective.demand(carry))  # type: ignore[misc]

    def _counts(self, features: Any, carry: Any) -> Any:
        """Returns the counts of the objective, added up over all replicas."""
        return self._sum_over_replicas(self.objective.counts(features, carry))

    def _gradients(self, features: Any, counts: Tensors, carry: Any) -> Any:
        """Returns the gradients of the replica's share of the loss, times the loss scale, its sums,
        and its carry.
        """
        with tf.GradientTape() as tape:
            sums, after = self.objective.sums(features, counts, carry)
            scaled = sums.loss * self._optimizer.loss_scale
        weights = [weight.value for weight in self._weights]
        gradients = tape.gradient(scaled, weights, unconnected_gradients="zero")
        dense = [tf.cast(tf.convert_to_tensor(gradient), tf.float32) for gradient in gradients]
        return dense, tf.nest.map_structure(tf.stop_gradient, sums), after

    def _compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the function, compiled by XLA if jit_compile is set."""
        if not self._training.jit_compile:
            return function

        def compiled(*arguments: Any) -> Any:
            # Made again for each replica's trace, since XLA cannot take in the sums over replicas
            # around it.
            return tf.function(function, autograph=False, jit_compile=True)(*arguments)

        return compiled

    def _accumulate(self, gradients: Sequence[Any], sums: Sums) -> Any:
        """Adds the gradients to those before; returns the sums over all replicas."""
        for total, gradient in zip(self._sums, gradients, strict=True):
            tf.raw_ops.AssignAddVariableOp(resource=total.handle, value=gradient)
        return self._sum_over_replicas(sums)

    def _apply_summed(self, gradients: Sequence[Any], counts: Tensors, sums: Sums) -> Tensors:
        gradients, sums = self._sum_over_replicas((gradients, sums))
        return self._finish(gradients, counts, sums)

    def _apply_accumulated(self, counts: Tensors, sums: Sums) -> Tensors:
        gradients = self._sum_over_replicas([total.read_value() for total in self._sums])
        for total, gradient in zip(self._sums, gradients, strict=True):
            with tf.control_dependencies([gradient]):
                tf.raw_ops.AssignVariableOp(resource=total.handle, value=tf.zeros_like(gradient))
        return self._finish(gradients, counts, sums)

    def _finish(self, gradients: Sequence[Any], counts: Tensors, sums: Sums) -> Tensors:
        """Updates the weights; returns the report's tensors, named as in ``StepReport``."""
        reported = dict(sums.reported)
        faults = None if self.judge is None else self.judge.take_faults(reported)
        norm, rate = self._optimizer.apply(gradients, faults)
        return {
            "loss": sums.loss,
            "cross_entropy": sums.losses[CROSS_ENTROPY],
            "tokens": counts[TARGETS],
            "gradient_norm": norm,
            "learning_rate": rate,
            "loss_scale": self._optimizer.loss_scale,
            **{name: loss for name, loss in sums.losses.items() if name.startswith(ADDED)},
            **reported,
        }

    def _sum_over_replicas(self, values: Any) -> Any:
        if self._strategy.num_replicas_in_sync == 1:
            return values
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, values)

    def _first_replica(self, values: Any) -> Any:
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


def _whole_boards(features: dict[str, Any]) -> dict[str, Any]:
    """The features, once their inputs [batch, length] are found to have no padding but rows that
    fill the batch up.
    """
    sentence = (
        "transition=sepconv2d sees boards without padding, and jit_compile=true has padded batches"
        " to the longest length of their bucket; set max_length to the number of cells, or leave"
        " jit_compile out."
    )
    is_example = features[WEIGHT][:, None] > 0.0
    is_padded = tf.reduce_any(is_example & (features["inputs"] == PADDING_ID))
    check = tf.debugging.Assert(~is_padded, [marked(sentence)])
    with tf.control_dependencies([] if check is None else [check]):
        return {**features, "inputs": tf.identity(features["inputs"])}
