"""Supervisions of more than the final answer of a recurrence of fixed depth.

With f^n(z) the state after n steps and L the loss of an answer::

    each           mean over t = 1..m of L(f^t(z))
    progressive    (1 - α) L(f^m(z)) + α L(f^k(sg f^n(z)))

where sg stops the gradient and, anew for each update, n is uniform in 0..m-1 and k in 1..m-n (deep
thinking, arXiv 2202.05826); α is ``progressive_alpha``. At α = 1 only the second part is computed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from ut_tf.config.hparams import HParams
from ut_tf.errors import UserError
from ut_tf.metrics import losses
from ut_tf.training.objective import (
    CROSS_ENTROPY,
    TARGETS,
    Answer,
    Call,
    CrossEntropy,
    LayerLosses,
    Sums,
    Supervision,
)
from ut_tf.training.step_report import STEP_LOSSES


def each(model: Any, hparams: HParams, shares: int) -> Supervision:
    """The supervision of the answer after every step; arguments as of ``objective.final``.

    Raises:
      UserError: the model has no recurrence of fixed depth that it answers from.
    """
    _check(model, "each")
    entropy = EveryStepCrossEntropy(hparams.training.label_smoothing, of_scores=True)
    return Supervision((entropy, LayerLosses(model, shares)), answers=_every_step)


def progressive(model: Any, hparams: HParams, shares: int) -> Supervision:
    """The supervision of the final answer and of one from a drawn part of the steps; arguments and
    error as of ``each``.
    """
    _check(model, "progressive")
    steps, alpha = hparams.network.num_steps, hparams.training.progressive_alpha
    entropy = PartCrossEntropy(hparams.training.label_smoothing, steps)

    def answers(features: Mapping[str, Any]) -> Sequence[Answer]:
        both = (
            Answer(1.0 - alpha),
            Answer(alpha, {"drawn_steps": drawn_part(features["update"], steps)}),
        )
        return [answer for answer in both if answer.weight]

    return Supervision((entropy, LayerLosses(model, shares)), answers=answers)


class EveryStepCrossEntropy(CrossEntropy):
    """The mean cross entropy over targets and steps, which reports that of each step."""

    needs_details = True

    def sums(self, call: Call, counts: Mapping[str, Any]) -> Sums:
        weights = losses.target_weights(call.features)
        each = tf.stack(
            [
                tf.reduce_sum(self.of_targets(scores, call.features["targets"]) * weights)
                for scores in call.details.answered.step_scores
            ]
        )
        numbers = tf.reduce_sum(weights) + tf.zeros_like(each)
        return super().sums(call, counts)._replace(reported=reported_steps(each, numbers))


class PartCrossEntropy(CrossEntropy):
    """The mean cross entropy over targets after a drawn part of the steps, or all of them, which
    reports it as that of the last step.

    Args:
      label_smoothing: as of ``CrossEntropy``.
      steps: of the whole depth.
    """

    def __init__(self, label_smoothing: float, steps: int) -> None:
        super().__init__(label_smoothing, of_scores=False)
        self._steps = steps

    def sums(self, call: Call, counts: Mapping[str, Any]) -> Sums:
        own = super().sums(call, counts)
        depth = tf.reduce_sum(call.features.get("drawn_steps", tf.constant([self._steps])))
        is_last = tf.one_hot(depth - 1, self._steps)
        total = own.losses[CROSS_ENTROPY] * counts[TARGETS]
        number = tf.reduce_sum(losses.target_weights(call.features))
        return own._replace(reported=reported_steps(is_last * total, is_last * number))


def reported_steps(sums: Any, counts: Any) -> dict[str, Any]:
    """Returns what a term reports of the steps: sums of losses and their counts, each [steps]."""
    return {STEP_LOSSES: tf.stop_gradient(tf.stack([sums, counts]))}


def drawn_part(seed: Any, steps: int) -> Any:
    """Draws (n, k), int32 [2]: n uniform in 0..steps-1, k uniform in 1..steps-n.

    Args:
      seed: int64 [2], of the run and the update.
      steps: of the whole depth.
    """
    first = tf.random.stateless_uniform([], seed, 0, steps, tf.int32)
    seed = tf.random.fold_in(seed, 1)
    return tf.stack([first, tf.random.stateless_uniform([], seed, 1, steps - first + 1, tf.int32)])


def _every_step(features: Mapping[str, Any]) -> Sequence[Answer]:
    del features
    return [Answer(1.0, {"every_step": tf.constant(True)})]


def _check(model: Any, name: str) -> None:
    if not getattr(model, "has_step_answers", False):
        raise UserError(
            f"supervision={name} needs a Universal Transformer that answers from any of its steps:"
            " halting=none, train_depth=fixed, backprop_steps=0, steps_per_position=0,"
            " mix_layers_after=0, and a recurrence other than dwa."
        )
