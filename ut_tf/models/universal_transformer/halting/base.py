"""The base class of the halting forms, and the mathematics that they share.

A form of your own is registered with ``registry.register_halting`` and named by ``halting``::

    @registry.register_halting("patient")
    class PatientHalting(Basic):
        def probabilities(self, before, after, counted, step=0):
            return 0.5 * super().probabilities(before, after, counted, step)
"""

from typing import Any, ClassVar, NamedTuple

import keras
import tensorflow as tf


class HaltingState(NamedTuple):
    """The progress of each position in its halting; float32 [batch, length] each."""

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
      threshold: the halting sum at which a position halts (Graves, arXiv 1603.08983, equation 6).

    Returns:
      (new HaltingState; weight of this step's state, float32 [batch, length]; bool [batch, length],
      positions that the step updates).
    """
    running = state.halting_sum < threshold
    candidate = state.halting_sum + probability
    halts = tf.logical_and(running, candidate >= threshold)
    goes_on = tf.logical_and(running, candidate < threshold)
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


def interpolated(state: Any, output: Any, weight: Any) -> Any:
    """Returns state·weight + output·(1 - weight), float32 [..., hidden_size]; weight [...]."""
    weight = tf.expand_dims(weight, -1)
    return tf.cast(state, tf.float32) * weight + output * (1.0 - weight)


def accumulated(state: Any, output: Any, weight: Any) -> Any:
    """Returns output + state·weight, float32 [..., hidden_size]; weight [...]."""
    return output + tf.cast(state, tf.float32) * tf.expand_dims(weight, -1)


def sequence_mean(values: Any, counted: Any) -> Any:
    """Returns at every position the mean of `values` [batch, length] over the counted positions of
    its sequence.
    """
    total = tf.reduce_sum(values * counted, 1, keepdims=True)
    mean = total / tf.maximum(tf.reduce_sum(counted, 1, keepdims=True), 1.0)
    return mean * tf.ones_like(values)


class Halting(keras.layers.Layer):  # type: ignore[misc]
    """Base class of the halting forms: the number of steps, and the output of halted positions.

    The recurrence calls ``probabilities`` and then ``advance`` at every step, in a loop that ends
    when no position's halting sum is below ``threshold``, at the latest after ``max_steps``.

    Attributes:
      dynamic: whether depth depends on the states; otherwise all positions take ``max_steps``.
      works_incrementally: whether a position's halting depends on itself alone, so that it can be
        decoded after the others.
      sees_later_positions: whether a position's halting depends on those behind it.
      trains_all_steps: whether training runs all steps, and ``log_odds`` and ``over_all_steps``
        take the place of ``probabilities`` and ``advance``.
      with_step_outputs: whether each step's states are answered from, so that no layers can follow
        the recurrence.
      copies_halted_states: whether the state of a halted position is copied to the next step.
      padding_ponders: whether padding takes part in halting and pays for it.
      loss_weight: weight of the ponder cost in the loss; None: there is none.
      seed_generator: of a form that draws random numbers at inference, not in training alone; or
        None.
    """

    dynamic: ClassVar[bool] = True
    works_incrementally: bool = True
    sees_later_positions: bool = False
    trains_all_steps: ClassVar[bool] = False
    with_step_outputs: bool = False
    copies_halted_states: bool = False
    padding_ponders: bool = False
    loss_weight: float | None = None
    seed_generator: Any = None

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(autocast=False, **{**kwargs, "dtype": "float32"})

    def max_steps(self, training: bool) -> int:
        """Returns the number of steps at fixed depth, or their upper bound."""
        raise NotImplementedError

    @property
    def threshold(self) -> float:
        """The halting sum at which a position halts."""
        raise NotImplementedError

    def has_cost(self, training: bool) -> bool:
        """Whether the ponder cost is known and part of the loss."""
        return self.loss_weight is not None

    def remedy(self, few: bool) -> str | None:
        """The hyperparameters to change where ponder times do not move, in words; None: there are
        none.

        Args:
          few: whether they stand at few steps; otherwise at ``max_steps``.
        """
        return None

    def counted(self, mask: Any) -> Any:
        """Returns the positions that ponder, float32 [batch, length], of the symbols' `mask`."""
        return tf.ones_like(mask) if self.padding_ponders else mask

    def call(self, before: Any, after: Any, counted: Any, step: Any = 0) -> Any:
        return self.probabilities(before, after, counted, step)

    def probabilities(self, before: Any, after: Any, counted: Any, step: Any = 0) -> Any:
        """Returns the halting probability of each position, float32 [batch, length].

        Args:
          before: [batch, length, hidden_size], the states that the step's block reads, with their
            coordinates added.
          after: [batch, length, hidden_size], the step's new states.
          counted: float32 [batch, length], 1 for positions that ponder.
          step: int32 [], the recurrent step, from 0.
        """
        raise NotImplementedError

    def prepare(self) -> dict[str, Any]:
        """Returns the weights for ``step``, read, joined and cast once."""
        return {}

    def step(self, before: Any, after: Any, weights: dict[str, Any], step: int = 0) -> Any:
        """Returns the probabilities of one new position, [rows, hidden_size] -> float32 [rows];
        default: by ``probabilities``.
        """
        counted = tf.ones_like(before[:, :1], tf.float32)
        return self.probabilities(before[:, None], after[:, None], counted, step)[:, 0]

    def advance(
        self,
        probability: Any,
        last: Any,
        new_state: Any,
        state: Any,
        output: Any,
        halting: HaltingState,
    ) -> tuple[Any, Any, HaltingState, Any]:
        """Takes the step's probabilities into account.

        Args:
          probability: float32 [batch, length], from ``probabilities``.
          last: bool, whether this is the last step of all.
          new_state, state: [batch, length, hidden_size], after and before the step.
          output: float32 [batch, length, hidden_size], before the step.
          halting: HaltingState, before the step.

        Returns:
          (the state that the next step reads, the output so far, HaltingState, bool [batch,
          length], positions that the step updated). In decoding all have [rows] in the place of
          [batch, length].
        """
        raise NotImplementedError

    def costs(self, halting: HaltingState) -> Any:
        """Returns the ponder cost of each position, float32 [batch, length]: ponder time +
        remainder (Graves, arXiv 1603.08983, equation 14).
        """
        return halting.ponder_times + halting.remainders

    def log_odds(self, after: Any, counted: Any) -> Any:
        """Returns the log-odds of stopping after a step, float32 [batch, length]."""
        raise NotImplementedError

    def over_all_steps(
        self, log_odds: Any, step_states: Any, counted: Any
    ) -> tuple[Any, dict[str, Any]]:
        """Returns (the output, float32 [batch, length, hidden_size], of training over all steps;
        fields of ``RecurrenceDetails``).

        Args:
          log_odds: float32 [steps, batch, length].
          step_states: [steps, batch, length, hidden_size].
          counted: float32 [batch, length].
        """
        raise NotImplementedError
