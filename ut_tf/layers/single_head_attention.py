"""Attention with one head over an encoder's states: the softmax of given scores."""

from typing import Any

import tensorflow as tf

from ut_tf.layers.key_value_cache import MASKED


def padding_scores(mask: Any) -> Any:
    """Float32 [batch, length] to add to scores: MASKED on padding, where `mask` is 0, else 0."""
    return MASKED * (1.0 - tf.cast(mask, tf.float32))


def attend(scores: Any, memory: dict[str, Any]) -> tuple[Any, Any]:
    """Averages values by the softmax of scores.

    Args:
      scores: [batch, n, length].
      memory: "values" [batch, length, width], "bias" from ``padding_scores``.

    Returns:
      (contexts [batch, n, width] in the values' dtype, weights float32 [batch, n, length]).
    """
    weights = tf.nn.softmax(tf.cast(scores, tf.float32) + memory["bias"][:, None])
    return tf.matmul(tf.cast(weights, memory["values"].dtype), memory["values"]), weights
