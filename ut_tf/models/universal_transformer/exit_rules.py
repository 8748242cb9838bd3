"""Exit rules: when a position of a trained model stops by itself, at inference, without training.

A rule compares a position's state, or the logits made of it, with those of the step before, and
looks at no other position. A rule of your own is registered and named by ``eval_exit``::

    @registry.register_exit_rule("close")
    class Close(ExitRule):
        default_threshold = 0.1

        def start(self, states, vocab_size): return states
        def check(self, step, states, carried, logits):
            return tf.norm(states - carried, axis=-1) < self.threshold, states
"""

import math
from collections.abc import Callable
from typing import Any, ClassVar, Self

import keras
import tensorflow as tf

from ut_tf.errors import UserError

MakeLogits = Callable[[], Any]
"""Makes float32 [..., vocab_size] of what each position would answer now."""


class ExitRule:
    """Base class of the exit rules.

    Args:
      eval_exit_threshold: what a position falls below to exit; None: ``default_threshold``.

    Attributes:
      reads_logits: whether the rule asks for logits.
      reads_q_values: whether it asks for Q values, float32 [batch, 2], in their place.
      default_threshold: see above.
      sweep_thresholds: those that ``ut-eval --exit_sweep`` tries, of a rule of your own.
    """

    reads_logits: ClassVar[bool] = False
    reads_q_values: ClassVar[bool] = False
    default_threshold: ClassVar[float] = 0.0
    sweep_thresholds: ClassVar[tuple[float | None, ...]] = (None,)

    def __init__(self, eval_exit_threshold: float | None = None) -> None:
        self.threshold = (
            self.default_threshold if eval_exit_threshold is None else eval_exit_threshold
        )

    def start(self, states: Any, vocab_size: int | None) -> Any:
        """Returns the values that the rule carries from step to step, before the first one.

        Args:
          states: [..., hidden_size], before the first step.
          vocab_size: width of the logits; None for rules that read none.

        Returns:
          A structure of tensors [..., width] or [...]; by default nothing.
        """
        return ()

    def check(self, step: Any, states: Any, carried: Any, logits: MakeLogits) -> tuple[Any, Any]:
        """Returns the positions that exit after a step.

        Args:
          step: int32 [] or a number, the recurrent step, from 0.
          states: [..., hidden_size], after the step.
          carried: from ``start`` or the step before.
          logits: makes float32 [..., vocab_size] of what each position would answer now.

        Returns:
          (bool [...], what the rule carries to the next step).
        """
        raise NotImplementedError

    def asked(self, head: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
        """The head, for a rule that asks for logits.

        Raises:
          UserError: the rule does not say that it reads any, and gets none.
        """
        if head is None:
            raise UserError(
                f"the exit rule {type(self).__name__} calls `logits()`: set reads_logits = True in"
                " its class."
            )
        return head

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return {"eval_exit_threshold": self.threshold}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The rule of ``get_config``."""
        return cls(**config)


def no_rule() -> None:
    """``eval_exit="none"``: nothing but the halting form ends a position's steps."""


def _size(states: Any) -> Any:
    """The Euclidean norm over the channels: [..., hidden_size] -> float32 [...]."""
    return tf.norm(tf.cast(states, tf.float32), axis=-1)


def _change(states: Any, previous: Any) -> Any:
    """The difference, float32 [..., hidden_size]."""
    return tf.cast(states, tf.float32) - tf.cast(previous, tf.float32)


class AfterSteps(ExitRule):
    """Each position exits after steps that the call is given: the exits of an oracle.

    Args:
      steps: int32 [batch, symbols], from 1; positions in front of the symbols never exit.
    """

    def __init__(self, steps: Any) -> None:
        super().__init__()
        self.steps = steps

    def start(self, states: Any, vocab_size: int | None) -> Any:
        before = tf.shape(states)[1] - tf.shape(self.steps)[1]
        return tf.pad(self.steps, [[0, 0], [before, 0]], constant_values=tf.int32.max)

    def check(self, step: Any, states: Any, carried: Any, logits: MakeLogits) -> tuple[Any, Any]:
        return step + 1 >= carried, carried


@keras.saving.register_keras_serializable("ut_tf")
class StateDifference(ExitRule):
    """``eval_exit="state_difference"``: ‖s_t - s_(t-1)‖ < threshold · ‖s_t‖."""

    default_threshold = 0.03

    def start(self, states: Any, vocab_size: int | None) -> Any:
        return states

    def check(self, step: Any, states: Any, carried: Any, logits: MakeLogits) -> tuple[Any, Any]:
        return _size(_change(states, carried)) < self.threshold * _size(states), states


@keras.saving.register_keras_serializable("ut_tf")
class Acceleration(ExitRule):
    """``eval_exit="acceleration"``: ‖Δ_t - Δ_(t-1)‖ < threshold · ‖s_t‖ at two steps in a row, with
    Δ_t = s_t - s_(t-1). The third step is the first that can be the last.
    """

    default_threshold = 0.03

    def start(self, states: Any, vocab_size: int | None) -> Any:
        return (states, tf.zeros_like(states, tf.float32), tf.zeros_like(states[..., 0], tf.bool))

    def check(self, step: Any, states: Any, carried: Any, logits: MakeLogits) -> tuple[Any, Any]:
        previous, earlier_change, was_small = carried
        change = _change(states, previous)
        small = _size(change - earlier_change) < self.threshold * _size(states)
        # The first step has no change before it.
        small = tf.logical_and(small, step > 0)
        return tf.logical_and(small, was_small), (states, change, small)


@keras.saving.register_keras_serializable("ut_tf")
class Entropy(ExitRule):
    """``eval_exit="entropy"``: |H(p_t) - H(p_(t-1))| < threshold, in nats, with p = softmax of the
    logits. The second step is the first that can be the last.
    """

    reads_logits = True
    default_threshold = 1e-3

    def start(self, states: Any, vocab_size: int | None) -> Any:
        return tf.zeros_like(states[..., 0], tf.float32)

    def check(self, step: Any, states: Any, carried: Any, logits: MakeLogits) -> tuple[Any, Any]:
        scores = tf.nn.log_softmax(logits())
        entropy = -tf.reduce_sum(tf.exp(scores) * scores, -1)
        return tf.logical_and(tf.abs(entropy - carried) < self.threshold, step > 0), entropy


@keras.saving.register_keras_serializable("ut_tf")
class Confidence(ExitRule):
    """``eval_exit="confidence"``: 1 - (p₁ - p₂) < threshold, with the two highest probabilities of
    the answer (CALM's softmax response, arXiv 2207.07061). Answers after few steps mean something
    where training has a loss at each step.
    """

    reads_logits = True
    default_threshold = 0.1

    def start(self, states: Any, vocab_size: int | None) -> Any:
        return tf.zeros_like(states[..., 0], tf.bool)

    def check(self, step: Any, states: Any, carried: Any, logits: MakeLogits) -> tuple[Any, Any]:
        likely = tf.math.top_k(tf.nn.softmax(logits()), 2).values
        return 1.0 - (likely[..., 0] - likely[..., 1]) < self.threshold, carried


@keras.saving.register_keras_serializable("ut_tf")
class Divergence(ExitRule):
    """``eval_exit="kl"``: KL(p_t ‖ p_(t-1)) < threshold, in nats, with p = softmax of the logits.
    The second step is the first that can be the last.
    """

    reads_logits = True
    default_threshold = 1e-3

    def start(self, states: Any, vocab_size: int | None) -> Any:
        return tf.zeros_like(states[..., :1], tf.float32) + tf.zeros([vocab_size])

    def check(self, step: Any, states: Any, carried: Any, logits: MakeLogits) -> tuple[Any, Any]:
        scores = tf.nn.log_softmax(logits())
        divergence = tf.reduce_sum(tf.exp(scores) * (scores - carried), -1)
        # Rounding may put it below 0.
        small = tf.maximum(divergence, 0.0) < self.threshold
        return tf.logical_and(small, step > 0), scores


@keras.saving.register_keras_serializable("ut_tf")
class StableArgmax(ExitRule):
    """``eval_exit="argmax_stable"``: the same symbol has the highest logit at `threshold` steps in
    a row.
    """

    reads_logits = True
    default_threshold = 5.0

    def start(self, states: Any, vocab_size: int | None) -> Any:
        zeros = tf.zeros_like(states[..., 0], tf.int32)
        return zeros - 1, zeros

    def check(self, step: Any, states: Any, carried: Any, logits: MakeLogits) -> tuple[Any, Any]:
        previous, count = carried
        best = tf.argmax(logits(), -1, output_type=tf.int32)
        count = tf.where(best == previous, count, 0) + 1
        return tf.cast(count, tf.float32) >= self.threshold, (best, count)


# Huginn's (arXiv 2502.05171), where they differ from those above.


@keras.saving.register_keras_serializable("ut_tf")
class Cosine(ExitRule):
    """``eval_exit="cosine"``: 1 - cos(s_t, s_(t-1)) < threshold."""

    default_threshold = 1e-3

    def start(self, states: Any, vocab_size: int | None) -> Any:
        return states

    def check(self, step: Any, states: Any, carried: Any, logits: MakeLogits) -> tuple[Any, Any]:
        product = tf.cast(states, tf.float32) * tf.cast(carried, tf.float32)
        similarity = tf.math.divide_no_nan(
            tf.reduce_sum(product, -1), _size(states) * _size(carried)
        )
        return 1.0 - similarity < self.threshold, states


@keras.saving.register_keras_serializable("ut_tf")
class ReverseDivergence(ExitRule):
    """``eval_exit="kl_reverse"``: KL(p_(t-1) ‖ p_t) < threshold, in nats, with p = softmax of the
    logits and p_0 uniform.
    """

    reads_logits = True
    default_threshold = 1e-3

    def start(self, states: Any, vocab_size: int | None) -> Any:
        assert vocab_size is not None
        uniform = tf.fill([vocab_size], -math.log(vocab_size))
        return tf.zeros_like(states[..., :1], tf.float32) + uniform

    def check(self, step: Any, states: Any, carried: Any, logits: MakeLogits) -> tuple[Any, Any]:
        scores = self.scores(logits())
        divergence = tf.reduce_sum(tf.exp(carried) * (carried - scores), -1)
        return tf.maximum(divergence, 0.0) < self.threshold, scores

    def scores(self, logits: Any) -> Any:
        """Returns log p, float32 [..., vocab_size]."""
        return tf.nn.log_softmax(logits)


@keras.saving.register_keras_serializable("ut_tf")
class LikelyDivergence(ReverseDivergence):
    """``eval_exit="minp_kl"``: as ``kl_reverse``, where symbols of less than a tenth of the highest
    probability count as 1 / vocab_size each, before all are divided by their sum.
    """

    default_threshold = 1e-5

    def scores(self, logits: Any) -> Any:
        p = tf.nn.softmax(logits)
        unlikely = p < 0.1 * tf.reduce_max(p, -1, keepdims=True)
        p = tf.where(unlikely, 1.0 / tf.cast(tf.shape(p)[-1], p.dtype), p)
        return tf.math.log(p / tf.reduce_sum(p, -1, keepdims=True))


@keras.saving.register_keras_serializable("ut_tf")
class EqualArgmax(StableArgmax):
    """``eval_exit="argmax_equal"``: the symbol of the highest logit equals that of the step before
    `threshold` times in a row: one step later than ``argmax_stable``.
    """

    def check(self, step: Any, states: Any, carried: Any, logits: MakeLogits) -> tuple[Any, Any]:
        _, (best, count) = super().check(step, states, carried, logits)
        return tf.cast(count - 1, tf.float32) >= self.threshold, (best, count)


@keras.saving.register_keras_serializable("ut_tf")
class QHalts(ExitRule):
    """``eval_exit="q"``: 1 - σ(q) < threshold, with q the example's Q value of halting (HRM, TRM).
    All positions of an example exit together.
    """

    reads_q_values = True
    default_threshold = 0.5

    def start(self, states: Any, vocab_size: int | None) -> Any:
        return tf.zeros_like(states[..., 0], tf.bool)

    def check(self, step: Any, states: Any, carried: Any, logits: MakeLogits) -> tuple[Any, Any]:
        halts = tf.sigmoid(-logits()[:, :1]) < self.threshold
        return tf.logical_or(halts, tf.zeros_like(carried)), carried
