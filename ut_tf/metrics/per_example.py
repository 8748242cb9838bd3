"""Measurements of one batch: sums per example, to be added up and divided only at the end.

Every function here is pure and works on whole batches; a position counts where its target is not
padding (id 0), so the symbol that ends a sequence counts.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from ut_tf.ids import checked_ids
from ut_tf.metrics.losses import smoothed_cross_entropy
from ut_tf.symbols import END_ID, PADDING_ID


def target_mask(targets: Any) -> Any:
    """float32 [batch, target_length]: 1 where `targets` (int32, same shape) hold a symbol,
    0 on padding.
    """
    return tf.cast(tf.not_equal(targets, PADDING_ID), tf.float32)


def classification(logits: Any, targets: Any, label_smoothing: float = 0.0) -> dict[str, Any]:
    """Per example, float32 [batch]: `loss`, and `correct` (1 where the most probable class
    is the target).

    Args:
      logits: [batch, classes].
      targets: int32 [batch].
      label_smoothing: as in ``smoothed_cross_entropy``.
    """
    chosen = tf.argmax(logits, -1, output_type=targets.dtype)
    return {
        "loss": smoothed_cross_entropy(logits, targets, label_smoothing),
        "correct": tf.cast(tf.equal(chosen, targets), tf.float32),
    }


def sequence_matches(symbols: Any, targets: Any) -> dict[str, Any]:
    """Compares sequences with their targets, position by position.

    Args:
      symbols: int32 [batch, at least target_length]; what is beyond the targets' last position is
        not looked at.
      targets: int32 [batch, target_length].

    Returns:
      float32 [batch] each: `positions` (that count), `correct` (of them), `all_correct` (1 where
      every one is right; 0 for a row of padding only, which has nothing to get right).
    """
    mask = target_mask(targets)
    equal = tf.cast(tf.equal(symbols[:, : tf.shape(targets)[1]], targets), tf.float32) * mask
    positions, correct = tf.reduce_sum(mask, 1), tf.reduce_sum(equal, 1)
    complete = tf.logical_and(tf.equal(positions, correct), positions > 0)
    return {
        "positions": positions,
        "correct": correct,
        "all_correct": tf.cast(complete, tf.float32),
    }


def teacher_forced(logits: Any, targets: Any, label_smoothing: float = 0.0) -> dict[str, Any]:
    """Judges predictions of each symbol given the right ones before it.

    Args:
      logits: [batch, target_length, vocab].
      targets: int32 [batch, target_length].
      label_smoothing: as in ``smoothed_cross_entropy``.

    Returns:
      what ``sequence_matches`` returns, and `loss`: float32 [batch], summed over the positions that
      count.
    """
    losses = smoothed_cross_entropy(logits, targets, label_smoothing) * target_mask(targets)
    matches = sequence_matches(tf.argmax(logits, -1, output_type=targets.dtype), targets)
    return {**matches, "loss": tf.reduce_sum(losses, 1)}


def last_word(logits: Any, targets: Any, label_smoothing: float = 0.0) -> dict[str, Any]:
    """Judges predictions of each symbol given the right ones before it, and those of the last
    symbol for themselves.

    Args:
      logits: [batch, target_length, vocab].
      targets: int32 [batch, target_length]; the last symbol is the last that is not padding.
      label_smoothing: as in ``smoothed_cross_entropy``.

    Returns:
      what ``teacher_forced`` returns, and float32 [batch] each: `target_loss`, `target_correct` (1
      where the most probable symbol is the last one), `in_context` (1 where the last symbol stands
      before, too), `context_loss` and `context_correct` (the former two there, 0 elsewhere).
    """
    last, symbols = _last_symbol(logits, targets)
    judged = classification(last, symbols, label_smoothing)
    correct = judged["correct"] * target_mask(symbols)
    same = tf.cast(tf.equal(targets, symbols[:, tf.newaxis]), tf.float32) * target_mask(targets)
    in_context = tf.cast(tf.reduce_sum(same, 1) > 1, tf.float32)
    return {
        **teacher_forced(logits, targets, label_smoothing),
        "target_loss": judged["loss"],
        "target_correct": correct,
        "in_context": in_context,
        "context_loss": judged["loss"] * in_context,
        "context_correct": correct * in_context,
    }


def ranking(
    logits: Any, targets: Any, alternative: Any, label_smoothing: float = 0.0
) -> dict[str, Any]:
    """Judges whether the last symbol of each sequence is more probable than another in its place.

    Args:
      logits: [batch, target_length, vocab].
      targets: int32 [batch, target_length]; the last symbol is the last that is not padding.
      alternative: int32 [batch], the other symbol.
      label_smoothing: as in ``smoothed_cross_entropy``.

    Returns:
      what ``teacher_forced`` returns, and `outranks`: float32 [batch], 1 where the last symbol's
      probability is the larger one (0 where both are equal).
    """
    last, symbols = _last_symbol(logits, targets)
    alternative = tf.cast(checked_ids(alternative, logits.shape[-1], "alternative"), symbols.dtype)
    right, other = (tf.gather(last, ids, batch_dims=1) for ids in (symbols, alternative))
    return {
        **teacher_forced(logits, targets, label_smoothing),
        "outranks": tf.cast(right > other, tf.float32) * target_mask(symbols),
    }


def _last_symbol(logits: Any, targets: Any) -> tuple[Any, Any]:
    """The logits [batch, vocab] and the symbols [batch] at each sequence's last position
    that counts (0 where none does).
    """
    numbers = tf.range(tf.shape(targets)[1])
    positions = tf.reduce_max(tf.where(tf.not_equal(targets, PADDING_ID), numbers, 0), axis=1)
    return tf.gather(logits, positions, batch_dims=1), tf.gather(targets, positions, batch_dims=1)


def pondering(ponder_times: Any, mask: Any) -> dict[str, Any]:
    """Adds up what was pondered over the positions where `mask` is 1.

    Args:
      ponder_times: float32 [batch, length], recurrent steps that each position took.
      mask: float32 [batch, length].

    Returns:
      float32 [batch] each: `ponder_time`, `ponder_squares` (of the steps of each position),
      `ponder_positions`.
    """
    times = ponder_times * mask
    return {
        "ponder_time": tf.reduce_sum(times, 1),
        "ponder_squares": tf.reduce_sum(times * ponder_times, 1),
        "ponder_positions": tf.reduce_sum(mask, 1),
    }


def pondering_roles(ponder_times: Any, mask: Any, roles: Mapping[str, Any]) -> dict[str, Any]:
    """Adds up what the positions of each role pondered.

    Args:
      ponder_times, mask: as of ``pondering``.
      roles: name -> float32 [batch, length], 1 at the positions of the role.

    Returns:
      float32 [batch] each: `ponder_time/<role>` and `ponder_positions/<role>`.
    """
    sums = {}
    for role, positions in roles.items():
        counted = positions * mask
        sums[f"ponder_time/{role}"] = tf.reduce_sum(ponder_times * counted, 1)
        sums[f"ponder_positions/{role}"] = tf.reduce_sum(counted, 1)
    return sums


def last_position(mask: Any) -> Any:
    """float32 [batch, length]: 1 at the last position where `mask` (same shape) is 1."""
    numbers = tf.range(1, tf.shape(mask)[1] + 1)
    last = tf.reduce_max(tf.where(mask > 0, numbers, 0), axis=1, keepdims=True)
    return tf.cast(tf.equal(numbers, last), tf.float32)


def ends(symbols: Any) -> Any:
    """float32 [batch, 1]: whether the last of `symbols` (int32 [batch, length]) before the padding
    ends the sequence.
    """
    last = tf.reduce_sum(symbols * tf.cast(last_position(target_mask(symbols)), symbols.dtype), 1)
    return tf.cast(tf.equal(last, END_ID), tf.float32)[:, tf.newaxis]


def computing(computed_steps: Any, max_steps: Any, mask: Any) -> dict[str, Any]:
    """Adds up what was computed over the positions where `mask` is 1.

    Args:
      computed_steps: float32 [batch, length], recurrent steps at which each position was computed.
      max_steps: int32 [], those of full depth.
      mask: float32 [batch, length].

    Returns:
      float32 [batch] each: `computed_steps` and `full_steps`.
    """
    return {
        "computed_steps": tf.reduce_sum(computed_steps * mask, 1),
        "full_steps": tf.cast(max_steps, tf.float32) * tf.reduce_sum(mask, 1),
    }
