"""What is measured on one batch: sums per example, to be added up and divided only at the end.

Every function here is pure and works on whole batches; a position counts where its target is not padding (id 0), so the symbol
that ends a sequence counts.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ut_tf.data.problem import PADDING_ID
from ut_tf.training.losses import smoothed_cross_entropy


def target_mask(targets: Any) -> Any:
    """Returns float32 [batch, target_length]: 1 where `targets` (int32, same shape) hold a symbol, 0 on padding."""
    return tf.cast(tf.not_equal(targets, PADDING_ID), tf.float32)


def classification(logits: Any, targets: Any, label_smoothing: float = 0.0) -> dict[str, Any]:
    """Returns per example, float32 [batch]: `loss`, and `correct` (1 where the most probable class is the target).

    Args:
      logits: [batch, classes].
      targets: int32 [batch].
      label_smoothing: as in ``smoothed_cross_entropy``.
    """
    chosen = tf.argmax(logits, -1, output_type=targets.dtype)
    return {"loss": smoothed_cross_entropy(logits, targets, label_smoothing), "correct": tf.cast(tf.equal(chosen, targets), tf.float32)}


def sequence_matches(symbols: Any, targets: Any) -> dict[str, Any]:
    """Compares sequences with their targets, position by position.

    Args:
      symbols: int32 [batch, at least target_length]; what is beyond the targets' last position is not looked at.
      targets: int32 [batch, target_length].

    Returns:
      float32 [batch] each: `positions` (that count), `correct` (of them), `all_correct` (1 where every one is right; 0 for a row
      of padding only, which has nothing to get right).
    """
    mask = target_mask(targets)
    equal = tf.cast(tf.equal(symbols[:, : tf.shape(targets)[1]], targets), tf.float32) * mask
    positions, correct = tf.reduce_sum(mask, 1), tf.reduce_sum(equal, 1)
    complete = tf.logical_and(tf.equal(positions, correct), positions > 0)
    return {"positions": positions, "correct": correct, "all_correct": tf.cast(complete, tf.float32)}


def teacher_forced(logits: Any, targets: Any, label_smoothing: float = 0.0) -> dict[str, Any]:
    """Judges predictions of each symbol given the right ones before it.

    Args:
      logits: [batch, target_length, vocab].
      targets: int32 [batch, target_length].
      label_smoothing: as in ``smoothed_cross_entropy``.

    Returns:
      what ``sequence_matches`` returns, and `loss`: float32 [batch], summed over the positions that count.
    """
    losses = smoothed_cross_entropy(logits, targets, label_smoothing) * target_mask(targets)
    matches = sequence_matches(tf.argmax(logits, -1, output_type=targets.dtype), targets)
    return {**matches, "loss": tf.reduce_sum(losses, 1)}


def pondering(ponder_times: Any, mask: Any) -> dict[str, Any]:
    """Returns per example, float32 [batch]: `ponder_time` summed over the positions where `mask` is 1, and `ponder_positions`.

    Args:
      ponder_times: float32 [batch, length], recurrent steps that each position took.
      mask: float32 [batch, length].
    """
    return {"ponder_time": tf.reduce_sum(ponder_times * mask, 1), "ponder_positions": tf.reduce_sum(mask, 1)}
