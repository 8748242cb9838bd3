"""Sequences with more symbols than ``max_input_length``, the same in the translator and in an
exported model.
"""

from typing import Any

import tensorflow as tf

from ut_tf.symbols import END_ID, PADDING_ID


def count(ids: Any) -> Any:
    """The number of symbols in each row of int32 [batch, length], int32 [batch]."""
    return tf.math.count_nonzero(ids, 1, dtype=tf.int32)


def cut(ids: Any, most: int) -> Any:
    """The first `most` symbols of int32 [batch, length], padded with 0, the last of which is the
    end where the end lies beyond them.
    """
    ends_beyond = tf.reduce_any(tf.equal(ids[:, most:], END_ID), 1, keepdims=True)
    last = tf.equal(tf.range(tf.minimum(tf.shape(ids)[1], most)), most - 1)
    return tf.where(tf.logical_and(ends_beyond, last), END_ID, ids[:, :most])


def last(ids: Any, most: int) -> Any:
    """The last `most` symbols of each row of int32 [batch, length], padded with 0."""
    rows = tf.RaggedTensor.from_tensor(ids, padding=PADDING_ID)
    return rows[:, -most:].to_tensor()


def without_end(ids: Any) -> Any:
    """Symbols int32 [batch, length] with padding in place of an end that is the last of a row."""
    final = count(ids)[:, tf.newaxis] - 1
    is_end = tf.logical_and(tf.equal(ids, END_ID), tf.range(tf.shape(ids)[1]) == final)
    return tf.where(is_end, PADDING_ID, ids)
