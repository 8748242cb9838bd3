"""Dynamic halting: how a position's halting probabilities become a number of steps and a weight for
each.

Every position adds up its halting probabilities; it halts at the step at which the sum exceeds 1 -
act_epsilon, and what is left to 1 is its remainder (Graves, arXiv 1603.08983; the listing in arXiv
1807.03819, appendix). The forms:

- basic (the paper): output' = state'·weight + output·(1 - weight).
- accumulated (Graves): output' = output + state'·weight.
- global: the mean over the sequence's positions, in a decoder over those so far; states as in
  basic.
- random: probabilities drawn uniformly from [0, 1).
- pondernet: p_n of ``pondernet.py``. An output stops at the first step by which Σ p_n reaches
  ponder_threshold, and is that step's state; an encoder that a decoder reads returns Σ p_n s_n, cut
  off where all but act_epsilon is summed.

All sums are float32. What padding does, and what happens to halted states, is decided in
``recurrence.py``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ut_tf.config.network import NetworkConfig
from ut_tf.layers.dropout import replica_seed
from ut_tf.layers.linear import Linear, affine


def ponder_weight(network: NetworkConfig) -> float:
    """Returns the weight of the ponder cost in the loss."""
    return network.ponder_kl_weight if network.halting == "pondernet" else network.act_loss_weight


class HaltingState(NamedTuple):
    """Where each position stands in its halting; float32 [batch, length] each."""

    halting_sum: Any
    remainders: Any
    ponder_times: Any


def start_halting(mask: Any) -> HaltingState:
    """Returns the state before the first step: zeros, but positions outside `mask` [batch, length]
    have halted.
    """
    zeros = tf.zeros_like(mask)
    return HaltingState(1.0 - mask, zeros, zeros)


def halting_step(
    state: HaltingState, probability: Any, threshold: float
) -> tuple[HaltingState, Any, Any]:
    """Advances every position by one step.

    Args:
      state: HaltingState.
      probability: float32 [batch, length], each position's halting probability at this step.
      threshold: 1 - act_epsilon.

    Returns:
      (new HaltingState; weight of this step's state, float32 [batch, length]; bool [batch, length],
      positions that the step updates).
    """
    running = state.halting_sum < threshold
    candidate = state.halting_sum + probability
    halts = tf.logical_and(running, candidate > threshold)
    goes_on = tf.logical_and(running, candidate <= threshold)
    remainder = 1.0 - state.halting_sum
    weight = tf.where(goes_on, probability, tf.where(halts, remainder, 0.0))
    # A halted sum is set to exactly 1: 1 - x + x may round below the threshold of "still running"
    # (and did, in tensor2tensor).
    halting_sum = tf.where(goes_on, candidate, tf.where(halts, 1.0, state.halting_sum))
    remainders = state.remainders + tf.where(halts, remainder, 0.0)
    return (
        HaltingState(halting_sum, remainders, state.ponder_times + tf.cast(running, tf.float32)),
        weight,
        running,
    )


def combine_states(form: str, state: Any, output: Any, weight: Any) -> Any:
    """Returns the output after this step, float32 [batch, length, hidden_size], from the step's
    state and the output so far.
    """
    weight = weight[..., None]
    state = tf.cast(state, tf.float32)
    return (
        output + state * weight
        if form == "accumulated"
        else state * weight + output * (1.0 - weight)
    )


class HaltingRule(NamedTuple):
    """What a step's halting probabilities do to states and output.

    Fields:
      network: its halting, halted_states, act_epsilon and ponder_threshold are used.
      with_step_outputs: whether, of pondernet, the output is the state of the step at which a
        position stops (else the expectation).
    """

    network: NetworkConfig
    with_step_outputs: bool = False

    @property
    def is_pondernet(self) -> bool:
        return self.network.halting == "pondernet"

    @property
    def threshold(self) -> float:
        """The halting sum above which a position halts."""
        chosen = self.is_pondernet and self.with_step_outputs
        return self.network.ponder_threshold if chosen else 1.0 - self.network.act_epsilon

    @property
    def copies(self) -> bool:
        """Whether a halted position's state is copied; in pondernet's training none halts, so all
        states are always transformed.
        """
        return self.network.halted_states == "copy" and not self.is_pondernet

    def looks_at(self, prepared: Any, new_state: Any) -> Any:
        """Returns the states from which the halting unit computes a step's probabilities: before
        the step, or of pondernet after it.
        """
        return new_state if self.is_pondernet else prepared

    def apply(
        self,
        probability: Any,
        last: Any,
        new_state: Any,
        state: Any,
        output: Any,
        halting: HaltingState,
    ) -> tuple[Any, Any, HaltingState, Any]:
        """Returns (the state that the next step reads, the output so far, HaltingState, bool
        [batch, length], positions updated).

        Args:
          probability: float32 [batch, length], from the halting unit.
          last: bool, whether this is the last step of all.
          new_state, state: [batch, length, hidden_size], after and before the step.
          output: float32 [batch, length, hidden_size], before the step.
          halting: HaltingState, before the step.
        """
        form = self.network.halting
        if self.is_pondernet:
            probability = tf.where(last, 1.0, probability) * (1.0 - halting.halting_sum)
        halting, weight, running = halting_step(halting, probability, self.threshold)
        if self.is_pondernet:
            form = "basic" if self.with_step_outputs else "accumulated"
            weight = tf.cast(running, tf.float32) if self.with_step_outputs else weight
        output = combine_states(form, new_state, output, weight)
        if self.copies:
            new_state = tf.where(running[..., None], new_state, tf.cast(state, new_state.dtype))
        return new_state, output, halting, running


@keras.saving.register_keras_serializable("ut_tf")
class HaltingUnit(keras.layers.Layer):  # type: ignore[misc]
    """The halting probability of each position: sigmoid(w · state + b), in float32.

    Args:
      network: its halting and act_halting_bias_init are used.
      per_sequence: whether, of pondernet, all positions of a sequence stop together: the mean of
        their log-odds decides.
      causal: whether, of global with global_mean="past", the mean is taken over each position and
        those before it.

    Call arguments:
      state: [batch, length, hidden_size], with its coordinates added (pondernet: after the step).
      counted: float32 [batch, length], the positions over which the mean is taken, where one is.
      step: int32 [], the recurrent step, of random.

    Returns:
      float32 [batch, length].
    """

    def __init__(
        self,
        network: NetworkConfig,
        per_sequence: bool = False,
        causal: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **{**kwargs, "dtype": "float32"})
        self.network = network
        self.per_sequence = per_sequence
        self.causal = causal
        self.linear = Linear(
            1,
            True,
            network.kernel_init,
            network.act_halting_bias_init,
            name="linear",
            dtype="float32",
        )
        self.seed_generator = keras.random.SeedGenerator() if network.halting == "random" else None

    def build(self, input_shape: Any) -> None:
        if self.network.halting != "random":
            self.linear.build(input_shape)

    def call(self, state: Any, counted: Any, step: Any = 0) -> Any:
        if self.seed_generator is not None:
            # A saved model reads one seed per call: only the step's number makes its steps differ.
            seed = tf.random.experimental.stateless_fold_in(
                replica_seed(self.seed_generator.next()), step
            )
            return tf.random.stateless_uniform(tf.shape(state)[:2], seed)
        probability = tf.sigmoid(self.log_odds(state, counted))
        if self.network.halting != "global":
            return probability
        mean = _mean_so_far if self.causal and self.network.global_mean == "past" else _mean
        return mean(probability, counted)

    def log_odds(self, state: Any, counted: Any) -> Any:
        """Returns what the probabilities are the sigmoid of, float32 [batch, length]; arguments as
        of the call.
        """
        odds = self.linear(state)[..., 0]
        return _mean(odds, counted) if self.per_sequence else odds

    def prepare(self) -> dict[str, Any]:
        """Returns the weights for ``step``."""
        return self.linear.prepare()

    def step(self, state: Any, weights: dict[str, Any]) -> Any:
        """Returns the probabilities of one new position, [rows, hidden_size] -> float32 [rows], in
        the forms that look at it alone.
        """
        return tf.sigmoid(affine(state, weights)[:, 0])

    def get_config(self) -> dict[str, Any]:
        own = {"per_sequence": self.per_sequence, "causal": self.causal}
        return {**super().get_config(), "network": self.network.to_dict(), **own}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> HaltingUnit:
        return cls(**{**config, "network": NetworkConfig.from_dict(config["network"])})


def _mean(values: Any, counted: Any) -> Any:
    """Returns at every position the mean of `values` [batch, length] over the counted positions of
    its sequence.
    """
    total = tf.reduce_sum(values * counted, 1, keepdims=True)
    mean = total / tf.maximum(tf.reduce_sum(counted, 1, keepdims=True), 1.0)
    return mean * tf.ones_like(values)


def _mean_so_far(values: Any, counted: Any) -> Any:
    """Returns at every position the mean of `values` [batch, length] over the counted ones among
    itself and those before it.
    """
    return tf.cumsum(values * counted, 1) / tf.maximum(tf.cumsum(counted, 1), 1.0)
