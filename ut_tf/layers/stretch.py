"""Lengths of representations that are longer than their sources."""

from typing import Any

import tensorflow as tf


def stretched(lengths: Any, stretch: float) -> Any:
    """Int32 ⌈stretch · lengths⌉: how many positions represent so many symbols."""
    # In float32 1.2 · 25 is a little more than 30.
    return tf.cast(tf.math.ceil(stretch * tf.cast(lengths, tf.float32) - 1e-3), tf.int32)
