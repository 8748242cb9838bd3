"""Random numbers that belong to an example: the same whatever its place in a batch, the batch's
size, and the padding.

::

    keys = example_keys(ids, seed=0)                 # int64 [batch], of what each example says
    noise = truncated_normal(keys, 36, 128)          # float32 [batch, 36, 128]

A number is a hash of the example's symbols, the seed, the position and the channel (the finalizer
of MurmurHash3, 32 bits).
"""

import math
from typing import Any

import tensorflow as tf

from ut_tf.symbols import PADDING_ID

_MASK = 0xFFFFFFFF
_LIMIT = 3.0
# The share of a normal distribution below -3 standard deviations.
_TAIL = 0.5 * math.erfc(_LIMIT / math.sqrt(2.0))


def example_keys(ids: Any, seed: Any) -> Any:
    """Returns int64 [batch], a number for each example and seed.

    Args:
      ids: whole numbers [batch, length] or [batch, rows, words], with the padding behind.
      seed: a number, or int64 [] or [batch].
    """
    places = tf.zeros([1], tf.int64)
    for axis in range(1, ids.shape.rank):
        own = tf.range(tf.shape(ids, tf.int64)[axis])
        places = mixed(places[..., None] + own + 1)
    ids = tf.cast(ids, tf.int64)
    each = tf.where(ids == PADDING_ID, tf.zeros_like(ids), mixed(mixed(ids) + places))
    whole = tf.reduce_sum(each, list(range(1, ids.shape.rank)))
    return mixed(mixed(whole) + mixed(tf.cast(seed, tf.int64)))


def truncated_normal(keys: Any, length: Any, width: int, first: Any = 0) -> Any:
    """Returns float32 [batch, length, width] of deviation 1 before it is cut off at 3 of them.

    Args:
      keys: int64 [batch].
      length: int32 [], positions; a longer example begins with the numbers of a shorter one.
      width: channels.
      first: the position that they begin with.
    """
    positions = mixed(tf.range(tf.cast(length, tf.int64)) + tf.cast(first, tf.int64) + 1)
    channels = mixed(tf.range(width, dtype=tf.int64) + 1)
    rows = mixed(keys[:, None] + positions)
    # 24 bits are the digits of a float32.
    bits = mixed(rows[..., None] + channels) // 256
    uniform = (tf.cast(bits, tf.float32) + 0.5) / 2.0**24
    return tf.math.ndtri(_TAIL + uniform * (1.0 - 2.0 * _TAIL))


def mixed(x: Any) -> Any:
    """Returns numbers hashed to 32 bits; int64 holds their products' lower halves."""
    x = tf.cast(x, tf.int64)
    x = tf.bitwise.bitwise_and(x, _MASK)
    for factor, shift in ((0x85EBCA6B, 16), (0xC2B2AE35, 13)):
        x = tf.bitwise.bitwise_xor(x, x // 2**shift)
        x = tf.bitwise.bitwise_and(x * factor, _MASK)
    return tf.bitwise.bitwise_xor(x, x // 2**16)
