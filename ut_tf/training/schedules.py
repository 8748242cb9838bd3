"""Learning rates as functions of the update's number, counted from 1.

Every schedule warms up linearly over ``warmup_steps``. With f the factor ``learning_rate``, d the
hidden size and w the warm-up::

    noam      f * d^-0.5 * min(1, step / w) * max(step, w)^-0.5        (tensor2tensor's; Vaswani et
        al. 2017, equation 3)
    constant  f * min(1, step / w)
    cosine    f * step / w up to w, then f * (1 + cos(pi * (step - w) / (decay_steps - w))) / 2, and
        0 from decay_steps on,
              or from w + 1 on where the warm-up is not shorter than that
"""

import math
from typing import Any

import tensorflow as tf

from ut_tf.config.training import TrainingConfig


def learning_rate(step: Any, training: TrainingConfig, hidden_size: int) -> Any:
    """The learning rate of update number `step`.

    Args:
      step: scalar tensor or number; the first update is 1.
      training: says which schedule; must be resolved (``decay_steps`` is a number).
      hidden_size: d, read by noam alone.

    Returns:
      A float32 scalar tensor.
    """
    step = tf.cast(step, tf.float32)
    warmup = float(max(training.warmup_steps, 1))
    warmed = tf.minimum(1.0, step / warmup)
    factor = tf.constant(training.learning_rate, tf.float32)
    if training.schedule == "constant":
        return factor * warmed
    if training.schedule == "cosine":
        start, end = training.warmup_steps, float(training.decay_steps or training.train_steps)
        done = tf.clip_by_value((step - start) / max(end - start, 1.0), 0.0, 1.0)
        return factor * warmed * (0.5 * (1.0 + tf.cos(math.pi * done)))
    return factor * hidden_size**-0.5 * warmed * tf.math.rsqrt(tf.maximum(step, warmup))
