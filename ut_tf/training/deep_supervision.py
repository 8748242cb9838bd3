"""Deep supervision: an example stays for several updates, each of which goes on from the states of
the one before (HRM, TRM; arXiv 2506.21734, 2510.04871).

In every update, for each row of the batch::

    if the row has halted: its example is replaced, its states begin anew, its steps are 0
    states = steps of the recurrence from them;  steps += 1
    loss   = cross entropy + q_loss_weight * BCE(q_halt, whether every answer of the row is right)
    halted = steps = supervision_steps, or as ``replace_by`` decides

HRM adds q_continue_weight * BCE(q_continue, σ(max(q_halt, q_continue) after one more step)).

An example that has not halted keeps its row. With ``replacement=slot`` the row of the batch that
has come is left out; with ``queue`` it waits until some row halts, and no batch comes while enough
wait (``row_queue.py``). The states are carried without their gradient.

``replace_by=q``: a row halts where its Q value of halting is positive; of ``halt_exploration`` of
the rows after a number of steps drawn from 2 to supervision_steps at the earliest. ``random``: each
row halts with the probability 1 / replace_after. ``end``: after supervision_steps.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from ut_tf.config.hparams import HParams
from ut_tf.config.training import TrainingConfig
from ut_tf.errors import UserError, marked
from ut_tf.metrics import losses
from ut_tf.models.universal_transformer.step import of_rows
from ut_tf.symbols import PADDING_ID
from ut_tf.training import row_queue
from ut_tf.training.objective import CROSS_ENTROPY, TARGETS, Call, LayerLosses, Sums, Supervision
from ut_tf.training.step_supervision import reported_steps

_ROWS = "rows"
_CARRIED = ("inputs", "targets", "weight", "puzzles")


def deep(model: Any, hparams: HParams, shares: int) -> Supervision:
    """The supervision over several updates; arguments as of ``objective.final``.

    Raises:
      UserError: the model has no recurrence of fixed depth that it answers from at each position,
        or its steps do not read the inputs, or no Q values are to decide, or stablemax is to be
        smoothed, or a curriculum takes examples back that wait.
    """
    training, network = hparams.training, model.network
    if not getattr(model, "has_step_answers", False) or model.spec.targets != "aligned":
        raise UserError(
            "supervision=deep needs a Universal Transformer of fixed depth (halting=none,"
            " train_depth=fixed) and a problem with an answer at each position, such as Sudoku."
        )
    if network.input_injection == "none" and not network.H_cycles:
        raise UserError(
            "supervision=deep goes on from states, and input_injection=none shows the later updates"
            " no inputs: choose an input_injection, or H_cycles."
        )
    if (training.replace_by == "q" or training.q_continue_weight) and not network.q_head:
        raise UserError(
            "replace_by=q and q_continue_weight read Q values: set q_head=True, or"
            " replace_by=random or end and q_continue_weight=0."
        )
    if network.prediction_feedback and network.num_steps == 1:
        raise UserError(
            "prediction_feedback=True feeds back between the steps of an update, and with"
            " supervision=deep num_steps=1 there is one: set num_steps to 2 or more."
        )
    if training.loss == "stablemax" and training.label_smoothing:
        raise UserError(
            f"loss=stablemax has no label_smoothing, not {training.label_smoothing:g}: set"
            " label_smoothing=0."
        )
    queues = training.replacement == "queue"
    if queues and training.curriculum != "none":
        raise UserError(
            f"replacement=queue serves every example once in each pass, and"
            f" curriculum={training.curriculum} begins passes anew: set curriculum=none, or"
            " replacement=slot."
        )
    terms: list[Any] = [
        RowCrossEntropy(training.loss, training.label_smoothing, training.supervision_steps)
    ]
    # Before the model is called once more.
    terms.append(LayerLosses(model, shares))
    if network.q_head:
        terms.append(QLoss(training.q_loss_weight))
    if training.q_continue_weight:
        terms.append(QContinueLoss(model, training))
    held = HeldExamples(model, training)
    return Supervision(tuple(terms), held, demand=held.demand if queues else None)


class RowCrossEntropy:
    """The mean over rows of the mean cross entropy of their targets.

    Args:
      loss: "softmax" or "stablemax".
      label_smoothing: as of ``losses.smoothed_cross_entropy``; with stablemax 0.
      steps: the most updates that a row stays for, of each of which the loss is reported.
    """

    needs_details = False

    def __init__(self, loss: str, label_smoothing: float, steps: int) -> None:
        self._loss = loss
        self._steps = steps
        self._label_smoothing = label_smoothing

    def counts(self, features: Mapping[str, Any]) -> dict[str, Any]:
        weights = losses.target_weights(features)
        return {TARGETS: tf.reduce_sum(weights), _ROWS: tf.reduce_sum(features["weight"])}

    def sums(self, call: Call, counts: Mapping[str, Any]) -> Sums:
        targets = call.features["targets"]
        if self._loss == "stablemax":
            # Padding, which is never a target, has no probability.
            others = call.logits[..., PADDING_ID + 1 :]
            each = losses.stablemax_cross_entropy(others, tf.maximum(targets - PADDING_ID - 1, 0))
        else:
            each = losses.smoothed_cross_entropy(call.logits, targets, self._label_smoothing)
        weights = losses.target_weights(call.features)
        rows = tf.reduce_sum(each * weights, 1) / tf.maximum(_answers(call.features), 1.0)
        by_step = [
            tf.math.unsorted_segment_sum(values, call.features["steps"], self._steps)
            for values in (rows, call.features["weight"])
        ]
        return Sums({CROSS_ENTROPY: tf.reduce_sum(rows) / counts[_ROWS]}, reported_steps(*by_step))


class QLoss:
    """The weighted mean over rows of the binary cross entropy of the Q value of halting: a row
    should halt where every answer is right.

    Args:
      weight: of the loss.
    """

    needs_details = True

    def __init__(self, weight: float) -> None:
        self._weight = weight

    def counts(self, features: Mapping[str, Any]) -> dict[str, Any]:
        return {_ROWS: tf.reduce_sum(features["weight"])}

    def sums(self, call: Call, counts: Mapping[str, Any]) -> Sums:
        right = tf.cast(rows_are_right(call), tf.float32)
        halt = call.details.encoder.q_values[:, 0]
        each = tf.nn.sigmoid_cross_entropy_with_logits(labels=right, logits=halt)
        total = tf.reduce_sum(each * call.features["weight"]) / counts[_ROWS]
        return Sums({"q_loss": self._weight * total}, {})


class QContinueLoss:
    """The weighted mean over rows of the binary cross entropy of the Q value of going on (HRM). Its
    target is σ of the higher Q value after one more step, of the last step that of halting.

    Args:
      model: Universal Transformer.
      training: TrainingConfig with the fields of deep supervision.
    """

    needs_details = True

    def __init__(self, model: Any, training: TrainingConfig) -> None:
        self._model = model
        self._weight = training.q_continue_weight
        self._most = training.supervision_steps

    def counts(self, features: Mapping[str, Any]) -> dict[str, Any]:
        return {_ROWS: tf.reduce_sum(features["weight"])}

    def sums(self, call: Call, counts: Mapping[str, Any]) -> Sums:
        fields, details = call.features, call.details.encoder
        carry = tf.nest.map_structure(tf.stop_gradient, tuple(details.carry))
        further = {"carry": carry, "fresh": tf.zeros_like(fields["fresh"])}
        _, after = self._model({**fields, **further}, training=True, return_details=True)
        halt, go_on = tf.unstack(tf.stop_gradient(after.encoder.q_values), axis=1)
        is_last = fields["steps"] + 1 >= self._most
        target = tf.sigmoid(tf.where(is_last, halt, tf.maximum(halt, go_on)))
        each = tf.nn.sigmoid_cross_entropy_with_logits(target, details.q_values[:, 1])
        total = tf.reduce_sum(each * fields["weight"]) / counts[_ROWS]
        return Sums({"q_continue_loss": self._weight * total}, {})


class HeldExamples:
    """The examples that rows keep, with their states: a ``Carried``.

    Args:
      model: Universal Transformer.
      training: TrainingConfig with the fields of deep supervision.
    """

    def __init__(self, model: Any, training: TrainingConfig) -> None:
        self._model = model
        self._most = training.supervision_steps
        self._by = training.replace_by
        self._queues = training.replacement == "queue"
        self._after = training.replace_after
        self._exploration = training.halt_exploration
        self._compares = training.q_continue_weight > 0

    def start(self, features: Mapping[str, Any]) -> Any:
        """Rows that have all halted, so that the first update replaces every one."""
        batch = tf.shape(features["inputs"])[0]
        rows = {name: features[name] for name in _CARRIED if name in features}
        return {
            **rows,
            **({"queue": row_queue.empty(rows)} if self._queues else {}),
            "carry": self._model.carry_like(features["inputs"]),
            "steps": tf.zeros([batch], tf.int32),
            "halted": tf.ones([batch], tf.bool),
        }

    def inputs(self, features: Mapping[str, Any], carry: Any) -> Mapping[str, Any]:
        """The rows that stay, and new ones in the place of those that have halted."""
        halted = carry["halted"]
        _check_shape(features["inputs"], carry["inputs"])
        steps = tf.where(halted, 0, carry["steps"])
        state = {"carry": carry["carry"], "fresh": halted, "steps": steps}
        new = {name: features[name] for name in _CARRIED if name in features}
        if self._queues:
            new, state["queue"] = row_queue.serve(carry["queue"], new, halted)
        rows = of_rows(halted, new, {name: carry[name] for name in new})
        return {**features, **rows, **state}

    def after(self, call: Call) -> Any:
        """The rows with their states, and whether they have halted."""
        steps = call.features["steps"] + 1
        halted = tf.logical_or(steps >= self._most, self._halts(call, steps))
        rows = {name: call.features[name] for name in _CARRIED if name in call.features}
        carry = tf.nest.map_structure(tf.stop_gradient, tuple(call.details.encoder.carry))
        after = {**rows, "carry": carry, "steps": steps, "halted": halted}
        if self._queues:
            # A place for which no row waited is free again.
            after["halted"] = tf.logical_or(halted, rows["weight"] <= 0.0)
            after["queue"] = call.features["queue"]
        return after

    def demand(self, carry: Any) -> Any:
        """Whether rows halted for which none waits, as ``Supervision.demand``."""
        return row_queue.demand(carry["queue"], carry["halted"])

    def _halts(self, call: Call, steps: Any) -> Any:
        """Whether rows halt before they have taken all steps, bool [batch]."""
        if self._by == "end":
            return tf.zeros_like(steps, tf.bool)
        draws = _draws(call.features["update"], tf.shape(steps)[0])
        if self._by == "random":
            return draws[:, 0] * self._after < 1.0
        least = 2 + tf.cast(draws[:, 1] * (self._most - 1), tf.int32)
        explores = draws[:, 0] < self._exploration
        allowed = tf.logical_or(tf.logical_not(explores), steps >= least)
        halt, go_on = tf.unstack(call.details.encoder.q_values, axis=1)
        return tf.logical_and(halt > (go_on if self._compares else 0.0), allowed)


def rows_are_right(call: Call) -> Any:
    """Returns bool [batch], the rows whose every target has the highest logit beside padding's."""
    targets = call.features["targets"]
    others = call.logits[..., PADDING_ID + 1 :]
    found = tf.cast(tf.argmax(others, -1), targets.dtype) + (PADDING_ID + 1)
    return tf.reduce_all((found == targets) | (targets == PADDING_ID), 1)


def _answers(features: Mapping[str, Any]) -> Any:
    """The number of targets of each row, float32 [batch]."""
    return tf.reduce_sum(tf.cast(features["targets"] != PADDING_ID, tf.float32), 1)


def _draws(update: Any, rows: Any) -> Any:
    """Two uniform numbers for each of a replica's rows, float32 [rows, 2]: those of the same rows
    of the global batch, however many replicas share it.
    """
    context = tf.distribute.get_replica_context()
    replicas = 1 if context is None else context.num_replicas_in_sync
    drawn = tf.random.stateless_uniform([replicas * rows, 2], update)
    if replicas == 1:
        return drawn
    first = tf.cast(context.replica_id_in_sync_group, tf.int32) * rows
    return drawn[first : first + rows]


def _check_shape(new: Any, held: Any) -> None:
    sentence = (
        "supervision=deep keeps examples from batch to batch, and this batch has another shape than"
        " the one before: expected boards of one size."
    )
    tf.debugging.assert_equal(tf.shape(new), tf.shape(held), marked(sentence))
