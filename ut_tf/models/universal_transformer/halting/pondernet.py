"""PonderNet (arXiv 2107.05407): a distribution over the steps at which to stop, trained by the loss
of every step's answer.

A position stops after step n with the probability λ_n = sigmoid(w · s_n + b) if it has not stopped
before, so that it stops at step n with p_n = λ_n ∏_{j<n} (1 - λ_j), and p_N = ∏_{j<N} (1 - λ_j) at
the last step N = act_max_steps. Training runs all steps. Its loss is Σ_n p_n L(y_n) + β KL(p ‖ g),
with y_n answered from the states s_n, β = ponder_kl_weight, and g the geometric distribution with
rate ponder_prior cut off at N. Cross entropy is linear in log-probabilities: the model returns the
scores Σ_n p_n log softmax(y_n) in the place of logits.

All of it is float32 and computed from logarithms: no share underflows to a logarithm of 0.
"""

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ut_tf.layers.linear import affine
from ut_tf.layers.start_symbol import without_start
from ut_tf.models.universal_transformer.halting.adaptive_computation_time import Basic
from ut_tf.models.universal_transformer.halting.base import (
    HaltingState,
    accumulated,
    halting_step,
    interpolated,
    sequence_mean,
)


def log_distribution(log_odds: Any) -> Any:
    """Returns log p, float32 [steps, ...], of the log-odds of stopping after each step; those of
    the last step are without effect.
    """
    log_odds = tf.cast(log_odds, tf.float32)
    goes_on = tf.cumsum(tf.math.log_sigmoid(-log_odds), 0, exclusive=True)
    stops = tf.concat([tf.math.log_sigmoid(log_odds[:-1]), tf.zeros_like(log_odds[-1:])], 0)
    return goes_on + stops


def log_prior(steps: int, rate: float) -> np.ndarray:
    """Returns the logarithms of the geometric distribution cut off after `steps` steps: float32
    [steps].
    """
    whole = -math.expm1(steps * math.log1p(-rate))
    shares = math.log(rate) + np.arange(steps) * math.log1p(-rate) - math.log(whole)
    return shares.astype(np.float32)


def divergence(log_shares: Any, rate: float) -> Any:
    """Returns KL(p ‖ g) in nats, float32 [...], of log p [steps, ...] from the prior g with this
    rate; `steps` is known.
    """
    steps = log_shares.shape[0]
    prior = tf.reshape(
        tf.constant(log_prior(steps, rate)), [steps] + [1] * (log_shares.shape.rank - 1)
    )
    return tf.reduce_sum(tf.exp(log_shares) * (log_shares - prior), 0)


def stopping_step(log_shares: Any, threshold: float) -> Any:
    """Returns the first step, float32 [...] from 1, by which the position stops with the
    probability `threshold`.
    """
    reached = tf.cumsum(tf.exp(log_shares), 0)[:-1]
    return 1.0 + tf.reduce_sum(tf.cast(reached < threshold, tf.float32), 0)


def expected_states(log_shares: Any, step_states: Any) -> Any:
    """Returns Σ_n p_n s_n, float32 [batch, length, hidden_size], of states [steps, batch, length,
    hidden_size].
    """
    return tf.einsum("nbl,nbld->bld", tf.exp(log_shares), tf.cast(step_states, tf.float32))


def expected_scores(
    log_shares: Any, step_states: Any, head: Callable[[Any], Any]
) -> tuple[Any, tuple[Any, ...]]:
    """Returns Σ_n p_n log softmax(head(s_n)): [batch, length, vocab], or [batch, classes] where a
    sequence has one answer; and the log softmax of each step, of the same shape.

    Its gradient needs the logits of all steps at once: as many times those of a model of fixed
    depth.

    Args:
      log_shares: float32 [steps, batch, length]; the same at all positions where a sequence has one
        answer, and with a start symbol's position in front where the model has one.
      step_states: [steps, batch, length, hidden_size]; the number of steps is known.
      head: makes logits of one step's states.
    """
    total: Any = 0.0
    each = []
    for log_share, states in zip(tf.unstack(log_shares), tf.unstack(step_states), strict=True):
        scores = tf.nn.log_softmax(head(states))
        share = log_share[:, 0] if scores.shape.rank == 2 else without_start(log_share, scores)
        share = tf.exp(share)
        total += tf.expand_dims(share, -1) * scores
        each.append(scores)
    return total, tuple(each)


@keras.saving.register_keras_serializable("ut_tf")
class PonderNet(Basic):
    """``halting="pondernet"``: a position stops after step n with the probability p_n.

    In use, an output stops at the first step by which Σ p_n reaches ponder_threshold, and is that
    step's state; what another stack reads is Σ p_n s_n, cut off where all but act_epsilon is
    summed. The cost, the divergence from the prior, is known in training only.

    Args:
      causal: whether positions see only earlier ones.
      with_step_outputs: whether something is answered from each step's states (a model's last
        stack).
      with_position_outputs: whether each position has an answer, as where it is causal. Otherwise
        all positions of a sequence with step outputs halt together, as it has one answer: the mean
        of their log-odds decides.
      ponder_prior: the prior's probability of stopping after a step that has been reached.
      ponder_kl_weight: weight of the divergence in the loss.
      ponder_threshold: see above.
      As of ``Basic`` otherwise; halted_states and act_loss_weight are without effect.
    """

    trains_all_steps = True

    def __init__(
        self,
        causal: bool = False,
        with_step_outputs: bool = False,
        with_position_outputs: bool = False,
        ponder_prior: float = 0.2,
        ponder_kl_weight: float = 0.01,
        ponder_threshold: float = 0.5,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.with_step_outputs = with_step_outputs
        self.per_sequence = with_step_outputs and not (causal or with_position_outputs)
        self.ponder_prior = ponder_prior
        self.ponder_threshold = ponder_threshold
        self.loss_weight = ponder_kl_weight
        self.copies_halted_states = False

    @property
    def threshold(self) -> float:
        return self.ponder_threshold if self.with_step_outputs else 1.0 - self.act_epsilon

    def has_cost(self, training: bool) -> bool:
        return training

    def remedy(self, few: bool) -> str | None:
        way, bias = "lower" if few else "higher", self.linear.bias_init
        return (
            f"a {way} act_halting_bias_init (now {bias:g}) or a higher ponder_kl_weight (now"
            f" {self.loss_weight:g})"
        )

    def probabilities(self, before: Any, after: Any, counted: Any, step: Any = 0) -> Any:
        return tf.sigmoid(self.log_odds(after, counted))

    def log_odds(self, after: Any, counted: Any) -> Any:
        odds = self.linear(after)[..., 0]
        return sequence_mean(odds, counted) if self.per_sequence else odds

    def step(self, before: Any, after: Any, weights: dict[str, Any], step: int = 0) -> Any:
        return tf.sigmoid(affine(after, weights)[:, 0])

    def advance(
        self,
        probability: Any,
        last: Any,
        new_state: Any,
        state: Any,
        output: Any,
        halting: HaltingState,
    ) -> tuple[Any, Any, HaltingState, Any]:
        share = tf.where(last, 1.0, probability) * (1.0 - halting.halting_sum)
        halting, weight, running = halting_step(halting, share, self.threshold)
        if self.with_step_outputs:
            output = interpolated(new_state, output, tf.cast(running, tf.float32))
        else:
            output = accumulated(new_state, output, weight)
        return new_state, output, halting, running

    def over_all_steps(
        self, log_odds: Any, step_states: Any, counted: Any
    ) -> tuple[Any, dict[str, Any]]:
        log_shares = log_distribution(log_odds)
        times = stopping_step(log_shares, self.threshold) * counted
        fields = {
            "ponder_times": times,
            "remainders": tf.zeros_like(times),
            "halting_probabilities": tf.sigmoid(log_odds),
            "costs": divergence(log_shares, self.ponder_prior),
            "log_shares": log_shares,
            "step_states": step_states if self.with_step_outputs else None,
        }
        return expected_states(log_shares, step_states), fields
