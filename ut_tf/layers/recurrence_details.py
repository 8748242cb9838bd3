"""Records of a stack of layers: ponder times, halting probabilities, attention weights; and the
view of a step that an observer gets.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf


class RecurrenceDetails(NamedTuple):
    """The record of a recurrence.

    Fields:
      ponder_times: float32 [batch, length], steps that updated the position (0 on padding that does
        not ponder).
      remainders: float32 [batch, length], 0 at fixed depth and where act_max_steps stopped the
        position.
      mask: float32 [batch, length], 1 for positions that count in the ponder cost.
      halting_probabilities: float32 [steps, batch, length], 0 for steps not taken; None at fixed
        depth. Of pondernet λ_n.
      attention_weights: float32 [steps, batch, num_heads, length, length], where asked for.
      memory_attention_weights: float32 [steps, batch, num_heads, length, memory_length], where
        asked for, in decoders.
      costs: float32 [batch, length], ponder cost of each position; None: ponder time + remainder.
        In pondernet's training KL(p ‖ prior) in nats.
      log_shares: float32 [steps, batch, length], log p_n, in pondernet's training.
      step_states: [steps, batch, length, hidden_size], the output after each step, in pondernet's
        training, of what has an answer.
      computed_steps: float32 [batch, length], steps at which the position was computed: at least
        its ponder time; None: all.
      carry: Carry after the last step, where the call was given one.
      progress: from which a call with a greater depth goes on, where the call was given a depth;
        halting probabilities are not kept then, and are 0.
      residuals: float32 [batch, length], ||z_t - z_(t-1)|| / ||z_(t-1)|| of the states z after the
        last step and before it, where the call was given a depth.
      q_values: float32 [batch, 2], of halting and of going on, of a recurrence with a ``q_head``.
      step_scores: log-probabilities of the answer after each step, a tuple of float32 [batch, ...,
        classes], where ``step_states`` are known and answered from.
    """

    ponder_times: Any
    remainders: Any
    mask: Any
    halting_probabilities: Any = None
    attention_weights: Any = None
    memory_attention_weights: Any = None
    costs: Any = None
    log_shares: Any = None
    step_states: Any = None
    computed_steps: Any = None
    carry: Any = None
    progress: Any = None
    residuals: Any = None
    q_values: Any = None
    step_scores: Any = None

    def from_position(self, first: int) -> "RecurrenceDetails":
        """Returns the record of the positions from `first` on; attention weights and carry remain
        those of all.
        """
        axes = {
            "ponder_times": 1,
            "remainders": 1,
            "mask": 1,
            "halting_probabilities": 2,
            "costs": 1,
            "log_shares": 2,
            "step_states": 2,
            "computed_steps": 1,
            "residuals": 1,
        }
        record = self._asdict()
        return self._replace(
            **{
                name: record[name][(slice(None),) * axis + (slice(first, None),)]
                for name, axis in axes.items()
                if record[name] is not None
            }
        )

    def position_costs(self) -> Any:
        """Returns float32 [batch, length]: the costs, by default ponder time + remainder, at most
        steps + 1.
        """
        return self.ponder_times + self.remainders if self.costs is None else self.costs

    def ponder_cost(self) -> Any:
        """Returns float32 []: the mean over counted positions of their costs."""
        total = tf.reduce_sum(self.position_costs() * self.mask)
        return total / tf.maximum(tf.reduce_sum(self.mask), 1.0)


def details_of_layers(
    count: int, symbol_mask: Any, attention: Sequence[Sequence[Any]]
) -> RecurrenceDetails:
    """The record of layers with weights of their own: each position takes all of them.

    Args:
      count: number of layers.
      symbol_mask: [batch, length], 0 on padding.
      attention: the attention weights of each layer, [batch, num_heads, length, length] and, in a
        decoder, [batch, num_heads, length, memory_length]; empty where they are not asked for.
    """
    mask = tf.cast(symbol_mask, tf.float32)
    weights = [tf.stack(of_layers) for of_layers in zip(*attention, strict=True)]
    return RecurrenceDetails(float(count) * mask, tf.zeros_like(mask), mask, None, *weights)


class GivenDepth(NamedTuple):
    """The depth of one call, in the place of the evaluation's.

    Fields:
      steps: int32 [], the number of steps, or its bound under dynamic halting, from 1; where each
        example has its own, how many more each takes, at most the evaluation's.
      progress: ``RecurrenceDetails.progress`` of a call with fewer steps on the same features;
        None: the recurrence begins.
      fresh: bool [batch], the examples that begin in the place of their progress, each of which
        has its own steps from then on; or None.
    """

    steps: Any
    progress: Any = None
    fresh: Any = None

    @property
    def by_example(self) -> bool:
        """Whether each example has taken its own number of steps."""
        return self.fresh is not None or (
            self.progress is not None and self.progress.steps.shape.rank == 2
        )


class StepView(NamedTuple):
    """The observer's view of a recurrent step, inside the loop: first of the encoder, then of the
    decoder.

    Fields:
      step: int32 [], from 0, where pages, tables and hyperparameters count from 1.
      state: [batch, length, hidden_size] after the step.
      halting: HaltingState after the step, or None at fixed depth.
      halting_probability: float32 [batch, length], or None at fixed depth.
      attention_weights: float32 [batch, num_heads, length, length], or [recurrence_layers, batch,
        ...] where a step has several layers.
      memory_attention_weights: float32 [batch, num_heads, length, memory_length] likewise in a
        decoder, else None.
      previous_state: [batch, length, hidden_size] before the step.
      output: [batch, length, hidden_size], what the stack would return if every position stopped
        after this step; after the last step what it returns. None in pondernet's training.
      memory_states: [batch, memory size, hidden_size] after the step, of learned vectors in front
        of the sequence, or None.
      low_state, previous_low_state: as state and previous_state of the low level of a step of two,
        or None.
      q_values: float32 [batch, 2] after the step, of a recurrence with a ``q_head``, or None.
    """

    step: Any
    state: Any
    halting: Any
    halting_probability: Any
    attention_weights: Any
    memory_attention_weights: Any
    previous_state: Any = None
    output: Any = None
    memory_states: Any = None
    low_state: Any = None
    previous_low_state: Any = None
    q_values: Any = None


Observer = Callable[[StepView], None]
