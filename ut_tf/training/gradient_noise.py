"""Noise on the gradient, after Welling & Teh (2011) and the Neural GPU (arXiv 1511.08228, section
3).

With t the number of the update, f the share of its examples that were answered with a fault, and ε
drawn for every weight::

    g = g + gradient_noise * t^-1/4 * f * ε,   ε ~ N(0, 1)

so that a model which makes no mistakes is left alone. The draws follow from the run's seed, t and
the weight's place: all replicas add the same, and a resumed run goes on to the same bits.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


class GradientNoise:
    """Adds noise to the gradient of an update.

    Args:
      scale: gradient_noise.
      seed: of the run.
    """

    def __init__(self, scale: float, seed: int) -> None:
        self._scale = scale
        self._seed = seed

    def __call__(self, gradients: Sequence[Any], number: Any, faults: Any) -> list[Any]:
        """The gradients with noise.

        Args:
          gradients: float32 tensors, already clipped.
          number: int64 [], of the update, from 1.
          faults: float32 [], the share of examples with a fault.
        """
        deviation = self._scale * tf.pow(tf.cast(number, tf.float32), -0.25) * faults
        seed = tf.constant([self._seed, 0], tf.int64)
        of_update = tf.random.fold_in(seed, tf.cast(number, tf.int64))
        return [
            gradient
            + deviation
            * tf.random.stateless_normal(tf.shape(gradient), tf.random.fold_in(of_update, place))
            for place, gradient in enumerate(gradients)
        ]
