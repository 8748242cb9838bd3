"""The attention's weights: the bias and scale of the logits, and the softmax.

softmax(Q Kᵀ / sqrt(d)) of arXiv 1807.03819, equation 2. Logits and softmax are float32.
"""

import math
from typing import Any

import tensorflow as tf

from ut_tf.layers.key_value_cache import MASKED


def padding_bias(mask: Any) -> Any:
    """The bias that hides padded keys: mask [batch, keys] (1 = symbol, 0 = padding) -> float32
    [batch, 1, 1, keys].
    """
    return MASKED * (1.0 - tf.cast(mask, tf.float32))[:, None, None, :]


def causal_bias(length: Any) -> Any:
    """The bias that hides later positions: int [] -> float32 [1, 1, length, length]."""
    order = tf.range(length)
    return MASKED * tf.cast(order[None, :] > order[:, None], tf.float32)[None, None]


def length_scale(visible: Any, reference: int) -> Any:
    """Returns max(1, ln(visible) / ln(reference)), the factor that keeps attention sharp over more
    keys than were trained.

    Args:
      visible: float32 [...], keys that a query can see.
      reference: keys up to which the factor is 1.
    """
    return tf.maximum(1.0, tf.math.log(tf.maximum(visible, 1.0)) / math.log(reference))


def attention_weights(queries: Any, keys: Any, bias: Any, logit_scale: Any) -> Any:
    """Returns float32 [batch, num_heads, queries, keys], whose sums over the keys are 1."""
    logits = tf.cast(batch_matmul(queries, keys, transpose_b=True), tf.float32)
    logits = logits if logit_scale is None else logits * logit_scale
    return tf.nn.softmax(logits if bias is None else logits + bias)


def batch_matmul(x: Any, y: Any, transpose_b: bool = False) -> Any:
    """Returns the products of matrices with equal leading dimensions."""
    # tf.matmul would let these broadcast, and its gradient adds up what was: 12 operations more.
    return tf.raw_ops.BatchMatMul(x=x, y=y, adj_y=transpose_b)
