"""The objective of an update: its counts, its losses, and its carry to the next one.

::

    objective = make_objective(model, hparams, workers)
    carry = objective.start(features)                # before the first update; () carries nothing
    counts = objective.counts(features, carry)       # of a replica; added up over all of them
    sums, carry = objective.sums(features, counts, carry)  # the replica's share, to be added up
    loss = sums.loss

A term divides by the counts of all replicas and accumulated batches, so that its shares need only
be added up. The step of training (``step.py``) knows no term: another objective is another
supervision, chosen by ``supervision`` and registered with ``registry.register_supervision``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from ut_tf import registry
from ut_tf.config.hparams import HParams
from ut_tf.errors import UserError
from ut_tf.layers.added_losses import added_losses
from ut_tf.metrics import losses
from ut_tf.training.step_report import ADDED, STEP_LOSSES

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
    """The sums of all terms.

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
        """Returns the counts that divide the sums, float32 tensors by name, without computing the
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
        each = self.of_targets(call.logits, call.features["targets"])
        total = tf.reduce_sum(each * losses.target_weights(call.features))
        return Sums({CROSS_ENTROPY: total / counts[TARGETS]}, {})

    def of_targets(self, logits: Any, targets: Any) -> Any:
        """Returns the cross entropy of each target, float32 of their shape."""
        return self._entropy(logits, targets, self._label_smoothing)


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
      shares: replicas times accumulated batches and their parts.
    """

    needs_details = False

    def __init__(self, model: Any, shares: int) -> None:
        self._model = model
        self._shares = shares

    def counts(self, features: Mapping[str, Any]) -> dict[str, Any]:
        return {}

    def sums(self, call: Call, counts: Mapping[str, Any]) -> Sums:
        # PonderCost pays for pondering, as a mean over the global batch.
        ponders = self._model.ponder_weight is not None
        added = added_losses(self._model, without_ponder_cost=ponders)
        return Sums({f"{ADDED}{path}": loss / self._shares for path, loss in added.items()}, {})


class Carried(Protocol):
    """A value that goes into an update and comes out of it, for each replica.

    Checkpoints hold it: a training that was killed and resumed goes on with the same value.
    """

    def start(self, features: Mapping[str, Any]) -> Any:
        """Returns the value before the first update: a structure of tensors, each with a first
        dimension.
        """

    def inputs(self, features: Mapping[str, Any], carry: Any) -> Mapping[str, Any]:
        """Returns the features for the model and the terms, of a replica's features and the carried
        value.
        """

    def after(self, call: Call) -> Any:
        """Returns the value for the next update, of the dtypes and known sizes of ``start``."""


class Answer(NamedTuple):
    """One of the calls of the model whose losses an update adds up.

    Fields:
      weight: of its losses; those of an update's calls add up to 1.
      features: of the call besides those of the batch, such as "drawn_steps".
    """

    weight: float = 1.0
    features: Mapping[str, Any] = {}


class Supervision(NamedTuple):
    """The supervision of answers.

    Fields:
      terms: of the loss, the cross entropy first.
      carried: from one update to the next, or None.
      answers: makes the answers that are supervised of the features of a call; None: the final one.
      demand: makes of a replica's carry, whether its next update needs a batch and whether it has
        no room for one, as numbers, float32 [2]; None: every update takes a batch.
    """

    terms: tuple[Term, ...]
    carried: Carried | None = None
    answers: Callable[[Mapping[str, Any]], Sequence[Answer]] | None = None
    demand: Callable[[Any], Any] | None = None


class Objective:
    """The sum of terms of one call of a model in training.

    Args:
      model: ``TrainableModel``.
      terms: the cross entropy first.
      carried, answers, demand: as of ``Supervision``.
    """

    def __init__(
        self,
        model: Any,
        terms: Sequence[Term],
        carried: Carried | None = None,
        answers: Callable[[Mapping[str, Any]], Sequence[Answer]] | None = None,
        demand: Callable[[Any], Any] | None = None,
    ) -> None:
        self.demand = demand
        self._model = model
        self._terms = tuple(terms)
        self._carried = carried
        self._answers = answers
        self._needs_details = carried is not None or any(term.needs_details for term in terms)

    @property
    def carries(self) -> bool:
        """Whether anything is carried from one update to the next."""
        return self._carried is not None

    def answers_of(self, features: Mapping[str, Any]) -> Sequence[Answer]:
        """Returns the answers of an update that are supervised."""
        return [Answer()] if self._answers is None else self._answers(features)

    def start(self, features: Mapping[str, Any]) -> Any:
        """Returns a replica's carry into the first update, given its features."""
        return () if self._carried is None else self._carried.start(features)

    def counts(self, features: Mapping[str, Any], carry: Any = ()) -> dict[str, Any]:
        """Returns the counts of all terms, of a replica's features."""
        features = self._inputs(features, carry)
        return {
            name: value for term in self._terms for name, value in term.counts(features).items()
        }

    def sums(
        self, features: Mapping[str, Any], counts: Mapping[str, Any], carry: Any = ()
    ) -> tuple[Sums, Any]:
        """Returns a replica's share of all terms, given the counts of all replicas, and its carry
        into the next update.
        """
        features = self._inputs(features, carry)
        counts = {name: tf.maximum(count, 1.0) for name, count in counts.items()}
        losses: dict[str, Any] = {}
        reported: dict[str, Any] = {}
        for weight, further in self.answers_of(features):
            # A frame less stands between the command and the products.
            given = {**features, **further}
            if self._needs_details:
                call = Call(given, *self._model(given, training=True, return_details=True))
            else:
                call = Call(given, self._model(given, training=True), None)
            for term in self._terms:
                sums = term.sums(call, counts)
                for name, loss in sums.losses.items():
                    loss = loss if weight == 1.0 else weight * loss
                    losses[name] = losses[name] + loss if name in losses else loss
                before = reported.get(STEP_LOSSES)
                reported |= sums.reported
                if before is not None and STEP_LOSSES in sums.reported:
                    # Each answer is of other steps.
                    reported[STEP_LOSSES] = before + sums.reported[STEP_LOSSES]
        return Sums(losses, reported), self._after(call, carry)

    def _inputs(self, features: Mapping[str, Any], carry: Any) -> Mapping[str, Any]:
        return features if self._carried is None else self._carried.inputs(features, carry)

    def _after(self, call: Call, before: Any) -> Any:
        if self._carried is None:
            return ()
        after = self._carried.after(call)
        if not _fits(after, before):
            raise UserError(
                f"{type(self._carried).__name__}.after returns {_described(after)}, and start"
                f" {_described(before)}: return the same structure, dtypes and sizes."
            )
        return after


def _fits(after: Any, before: Any) -> bool:
    try:
        tf.nest.assert_same_structure(before, after)
    except (ValueError, TypeError):
        return False
    pairs = zip(tf.nest.flatten(before), tf.nest.flatten(after), strict=True)
    return all(
        old.dtype == tf.convert_to_tensor(new).dtype and old.shape.is_compatible_with(new.shape)
        for old, new in pairs
    )


def _described(carry: Any) -> str:
    leaves = map(tf.convert_to_tensor, tf.nest.flatten(carry))
    return ", ".join(f"{leaf.dtype.name} {leaf.shape}" for leaf in leaves) or "nothing"


def final(model: Any, hparams: HParams, shares: int) -> Supervision:
    """The supervision of the final answer: cross entropy, ponder cost, losses that layers add.

    Args:
      model: ``TrainableModel``.
      hparams: resolved.
      shares: replicas times accumulated batches and their parts.
    """
    terms: list[Term] = [CrossEntropy(hparams.training.label_smoothing, model.expects_scores)]
    if model.ponder_weight is not None:
        terms.append(PonderCost(model))
    terms.append(LayerLosses(model, shares))
    return Supervision(tuple(terms))


def make_objective(model: Any, hparams: HParams, replicas: int, *further: Term | None) -> Objective:
    """Makes the objective of a model.

    Args:
      model: ``TrainableModel``.
      hparams: resolved.
      replicas: on all workers.
      *further: terms besides the supervision's; None stands for one that is left out.

    Raises:
      UserError: the supervision is unknown.
    """
    training = hparams.training
    make = registry.supervisions.get(training.supervision)
    shares = replicas * training.accumulate_steps * training.parallel_parts
    terms, *others = make(model, hparams, shares)
    every = [*terms, *(term for term in further if term is not None)]
    return Objective(model, every, *others)
