"""Dropout whose masks cost one random byte per element, and differ between replicas."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

# Below this rate a byte cannot express it closely enough, and two bytes are drawn.
_SMALLEST_BYTE_RATE = 0.05


def replica_seed(seed: Any) -> Any:
    """Returns `seed` [2] with the replica's number mixed in, so that replicas draw different numbers."""
    seed = tf.cast(seed, tf.int32)
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return seed
    return seed + tf.stack([tf.constant(0, tf.int32), 7919 * tf.cast(context.replica_id_in_sync_group, tf.int32)])


def keep_mask(shape: Any, rate: float, seed: Any) -> tuple[Any, float]:
    """Draws which elements are kept.

    Args:
      shape: int32 [rank], of the mask.
      rate: share of the elements to drop; rounded to a multiple of 1/256 (of 1/65536 below 0.05).
      seed: int32 [2].

    Returns:
      (bool tensor of `shape`, exact probability that an element is kept).
    """
    kind, per_draw, levels = (tf.uint8, 4, 256) if rate >= _SMALLEST_BYTE_RATE else (tf.uint16, 2, 65536)
    threshold = round(rate * levels)
    size = tf.reduce_prod(shape)
    draws = tf.random.stateless_uniform([(size + per_draw - 1) // per_draw], seed, None, None, tf.int32)
    numbers = tf.reshape(tf.bitcast(draws, kind), [-1])[:size]
    return tf.reshape(numbers >= tf.constant(threshold, kind), shape), 1.0 - threshold / levels


@keras.saving.register_keras_serializable("ut_tf")
class Dropout(keras.layers.Layer):  # type: ignore[misc]
    """Zeroes a random share of its input in training and scales the rest so that the expectation stays.

    Args:
      rate: share of the elements dropped, at least 0 and below 1; see ``keep_mask`` for its granularity.
      seed: of the layer's SeedGenerator; None: drawn from Keras's global seed when the layer is made.

    Call arguments:
      x: [...], any float dtype.
      training: whether to drop at all.
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.rate = rate
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed) if rate > 0 else None
        self.built = True

    def call(self, x: Any, training: bool = False) -> Any:
        if not training or self.seed_generator is None:
            return x
        mask, keep_probability = keep_mask(tf.shape(x), self.rate, replica_seed(self.seed_generator.next()))
        scale = tf.constant(1.0 / keep_probability, x.dtype)
        return tf.where(mask, x * scale, tf.zeros([], x.dtype))

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}
