"""Noise on the gradient, after Welling & Teh (2011) and the Neural GPU (arXiv 1511.08228, section
3).

With t the number of the update, f the share of its examples that were answered with a fault, and ε
drawn anew for every weight::

    g = g + gradient_noise * t^-1/4 * f * ε,   ε ~ N(0, 1)

so that a model which makes no mistakes is left alone. The draws follow from the run's seed, t and
the weight's place: all replicas add the same, and a resumed run goes on to the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


def noisy(gradients: Sequence[Any], scale: float, number: Any, faults: Any, seed: int) -> list[Any]:
    """Returns the gradients with noise.

    Args:
      gradients: float32 tensors, already clipped.
      scale: gradient_noise.
      number: int64 [], of the update, from 1.
      faults: float32 [], the share of examples with a fault.
      seed: of the run.
    """
    deviation = scale * tf.pow(tf.cast(number, tf.float32), -0.25) * faults
    of_update = tf.random.fold_in(tf.constant([seed, 0], tf.int64), tf.cast(number, tf.int64))
    return [
        gradient
        + deviation
        * tf.random.stateless_normal(tf.shape(gradient), tf.random.fold_in(of_update, place))
        for place, gradient in enumerate(gradients)
    ]
