"""Supervisions of more than the final answer of a recurrence of fixed depth.

With f^n(z) the state after n steps and L the loss of an answer::

    each           mean over t = 1..m of L(f^t(z))
    progressive    (1 - α) L(f^m(z)) + α L(f^k(sg f^n(z)))

where sg stops the gradient and, anew for each update, n is uniform in 0..m-1 and k in 1..m-n (deep
thinking, arXiv 2202.05826); α is ``progressive_alpha``. At α = 1 only the second part is computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from ut_tf.config.hparams import HParams
from ut_tf.errors import UserError
from ut_tf.training.objective import Answer, CrossEntropy, LayerLosses, Supervision


def each(model: Any, hparams: HParams, shares: int) -> Supervision:
    """The supervision of the answer after every step; arguments as of ``objective.final``.

    Raises:
      UserError: the model has no recurrence of fixed depth that it answers from.
    """
    _check(model, "each")
    terms = (CrossEntropy(hparams.training.label_smoothing, True), LayerLosses(model, shares))
    return Supervision(terms, answers=_every_step)


def progressive(model: Any, hparams: HParams, shares: int) -> Supervision:
    """The supervision of the final answer and of one from a drawn part of the steps; arguments and
    error as of ``each``.
    """
    _check(model, "progressive")
    terms = (CrossEntropy(hparams.training.label_smoothing, False), LayerLosses(model, shares))
    steps, alpha = hparams.network.num_steps, hparams.training.progressive_alpha

    def answers(features: Mapping[str, Any]) -> Sequence[Answer]:
        both = (
            Answer(1.0 - alpha),
            Answer(alpha, {"drawn_steps": drawn_part(features["update"], steps)}),
        )
        return [answer for answer in both if answer.weight]

    return Supervision(terms, answers=answers)


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
