"""The objective of an update: terms that are counted, lost and reported.

::

    objective = make_objective(model, hparams, workers)
    counts = objective.counts(features)              # of a replica; added up over all of them
    sums = objective.sums(features, counts)          # the replica's share, to be added up as well
    loss = sums.loss

A term divides by the counts of all replicas and accumulated batches, so that its shares need only
be added up. The step of training (``step.py``) knows no term: another objective is another list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from ut_tf.config.hparams import HParams
from ut_tf.layers.added_losses import added_losses
from ut_tf.metrics import losses
from ut_tf.training.step_report import ADDED

CROSS_ENTROPY = "cross_entropy"
TARGETS = "targets"


class Call(NamedTuple):
    """A call of the model on a replica's part of a batch.

    Fields:
      features: tensors by name.
      logits: float32 [batch, ..., classes].
      details: ModelDetails, or None where no term asks for them.
    """

    features: Mapping[str, Any]
    logits: Any
    details: Any


class Sums(NamedTuple):
    """What terms have added up.

    Fields:
      losses: parts of the loss by name, float32 [], in the order in which they are added.
      reported: what is reported besides, tensors by name.
    """

    losses: dict[str, Any]
    reported: dict[str, Any]

    @property
    def loss(self) -> Any:
        """The loss, float32 []."""
        first, *others = self.losses.values()
        return sum(others, first)


class Term(Protocol):
    """A part of the loss.

    Attributes:
      needs_details: whether it reads the details of the call.
    """

    needs_details: bool

    def counts(self, features: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what the sums are divided by, float32 tensors by name, without computing the
        model.
        """

    def sums(self, call: Call, counts: Mapping[str, Any]) -> Sums:
        """Returns the share of a replica's call, given the counts of all, at least 1."""


class CrossEntropy:
    """The mean cross entropy over targets: tokens, or examples where each has one answer.

    Args:
      label_smoothing: share of the probability that the other symbols get.
      of_scores: whether the model returns expected log-probabilities instead of logits.
    """

    needs_details = False

    def __init__(self, label_smoothing: float, of_scores: bool) -> None:
        self._label_smoothing = label_smoothing
        self._entropy = (
            losses.expected_cross_entropy if of_scores else losses.smoothed_cross_entropy
        )

    def counts(self, features: Mapping[str, Any]) -> dict[str, Any]:
        return {TARGETS: tf.reduce_sum(losses.target_weights(features))}

    def sums(self, call: Call, counts: Mapping[str, Any]) -> Sums:
        each = self._entropy(call.logits, call.features["targets"], self._label_smoothing)
        total = tf.reduce_sum(each * losses.target_weights(call.features))
        return Sums({CROSS_ENTROPY: total / counts[TARGETS]}, {})


class PonderCost:
    """The weighted mean ponder cost over the positions of each part that ponders.

    Args:
      model: ``TrainableModel`` with a ``ponder_weight``.
    """

    needs_details = True

    def __init__(self, model: Any) -> None:
        self._model = model
        self._max_steps = model.max_steps(training=True)

    def counts(self, features: Mapping[str, Any]) -> dict[str, Any]:
        weights = features["weight"][:, tf.newaxis]
        masks = self._model.counted_positions(features)
        return {"positions": tf.stack([tf.reduce_sum(mask * weights) for mask in masks])}

    def sums(self, call: Call, counts: Mapping[str, Any]) -> Sums:
        weight = call.features["weight"]
        costs, _, histogram = losses.ponder_sums(call.details, weight, self._max_steps)
        cost = self._model.ponder_weight * tf.reduce_sum(costs / counts["positions"])
        return Sums({"ponder_cost": cost}, {"ponder_histogram": histogram})


class LayerLosses:
    """The losses that layers have added in the call, averaged over replicas and batches.

    Args:
      model: that was called.
      shares: replicas times accumulated batches.
    """

    needs_details = False

    def __init__(self, model: Any, shares: int) -> None:
        self._model = model
        self._shares = shares

    def counts(self, features: Mapping[str, Any]) -> dict[str, Any]:
        del features
        return {}

    def sums(self, call: Call, counts: Mapping[str, Any]) -> Sums:
        del call, counts
        # PonderCost pays for pondering, as a mean over the global batch.
        ponders = self._model.ponder_weight is not None
        added = added_losses(self._model, without_ponder_cost=ponders)
        return Sums({f"{ADDED}{path}": loss / self._shares for path, loss in added.items()}, {})


class Objective:
    """The sum of terms of one call of a model in training.

    Args:
      model: ``TrainableModel``.
      terms: the cross entropy first.
    """

    def __init__(self, model: Any, terms: Sequence[Term]) -> None:
        self._model = model
        self._terms = tuple(terms)
        self._needs_details = any(term.needs_details for term in terms)

    def counts(self, features: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the counts of all terms, of a replica's features."""
        return {
            name: value for term in self._terms for name, value in term.counts(features).items()
        }

    def sums(self, features: Mapping[str, Any], counts: Mapping[str, Any]) -> Sums:
        """Returns a replica's share of all terms, given the counts of all replicas."""
        counts = {name: tf.maximum(count, 1.0) for name, count in counts.items()}
        details = None
        if self._needs_details:
            logits, details = self._model(features, training=True, return_details=True)
        else:
            logits = self._model(features, training=True)
        call = Call(features, logits, details)
        every = [term.sums(call, counts) for term in self._terms]
        return Sums(
            {name: loss for sums in every for name, loss in sums.losses.items()},
            {name: value for sums in every for name, value in sums.reported.items()},
        )


def make_objective(model: Any, hparams: HParams, replicas: int, *further: Term | None) -> Objective:
    """Makes the objective of a model.

    Args:
      model: ``TrainableModel``.
      hparams: resolved.
      replicas: on all workers.
      *further: terms besides the model's own; None stands for one that is left out.
    """
    training = hparams.training
    terms: list[Term] = [CrossEntropy(training.label_smoothing, model.expects_scores)]
    if model.ponder_weight is not None:
        terms.append(PonderCost(model))
    terms.append(LayerLosses(model, replicas * training.accumulate_steps))
    terms += [term for term in further if term is not None]
    return Objective(model, terms)
