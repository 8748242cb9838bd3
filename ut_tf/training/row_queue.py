"""A queue of rows that wait for a place in a replica's batch: no example is lost or doubled.

::

    queue = empty(rows)
    rows, queue = serve(queue, new_rows, is_free)    # in every update
    need, full = demand(queue, is_free)              # before the next one

Rows are tensors by name, each with the batch in front. A row whose "weight" is 0 is none: padding,
and what fills a queue up. Those that wait are in front, in the order of the data. As the queue is
a value, checkpoints hold it.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from ut_tf.errors import marked

_BATCHES = 2
"""Room of a queue, in batches of its replica."""


def empty(rows: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a queue for rows like these, in which none waits."""
    return {name: tf.zeros_like(tf.concat([rows[name]] * _BATCHES, 0)) for name in rows}


def serve(
    queue: Mapping[str, Any], new: Mapping[str, Any], is_free: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Appends new rows, and takes as many from the front as there are free places.

    Args:
      queue: rows that wait.
      new: rows [batch, ...] of the data.
      is_free: bool [batch].

    Returns:
      (rows [batch, ...], of which those at free places are served, in the queue's order, with
      weight 0 where none is left; the queue of those that wait on).

    Raises:
      tf.errors.InvalidArgumentError: more rows wait than a queue has room for.
    """
    every = {name: tf.concat([queue[name], new[name]], 0) for name in queue}
    order = tf.argsort(tf.cast(every["weight"] <= 0.0, tf.int32), stable=True)
    every = {name: tf.gather(value, order) for name, value in every.items()}
    numbers = tf.cumsum(tf.cast(is_free, tf.int32))
    taken, room = numbers[-1], tf.shape(queue["weight"])[0]
    sentence = "a batch was drawn for which the queue of rows had no room: ask `demand` before."
    tf.debugging.assert_less_equal(_count(every["weight"]) - taken, room, marked(sentence))
    rows = {name: tf.gather(value, tf.maximum(numbers - 1, 0)) for name, value in every.items()}
    rest = {name: tf.gather(value, taken + tf.range(room)) for name, value in every.items()}
    return rows, rest


def demand(queue: Mapping[str, Any], is_free: Any) -> Any:
    """Returns whether fewer rows wait than places are free, and whether another batch could find no
    room, as numbers, float32 [2].
    """
    waiting, most = _count(queue["weight"]), (_BATCHES - 1) * tf.shape(is_free)[0]
    return tf.cast(tf.stack([waiting < _count(is_free), waiting > most]), tf.float32)


def _count(values: Any) -> Any:
    return tf.math.count_nonzero(values, dtype=tf.int32)
