"""Halting by the mean of a sequence's probabilities."""

from typing import Any

import keras
import tensorflow as tf

from ut_tf.models.universal_transformer.halting.adaptive_computation_time import Basic
from ut_tf.models.universal_transformer.halting.base import sequence_mean


def mean_so_far(values: Any, counted: Any) -> Any:
    """Returns at every position the mean of `values` [batch, length] over the counted ones among
    itself and those before it.
    """
    return tf.cumsum(values * counted, 1) / tf.maximum(tf.cumsum(counted, 1), 1.0)


@keras.saving.register_keras_serializable("ut_tf")
class Global(Basic):
    """``halting="global"``: as ``Basic``, with the mean of the probabilities over the sequence's
    positions, in a decoder over those so far.

    Args:
      causal: whether positions see only earlier ones.
      global_mean: where causal, "past", or "sequence": over all positions, so that symbols see
        later ones (as in tensor2tensor).
      As of ``Basic`` otherwise.
    """

    works_incrementally = False

    def __init__(self, causal: bool = False, global_mean: str = "past", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.sees_later_positions = not causal or global_mean == "sequence"

    def probabilities(self, before: Any, after: Any, counted: Any, step: Any = 0) -> Any:
        own = super().probabilities(before, after, counted, step)
        mean = sequence_mean if self.sees_later_positions else mean_so_far
        return mean(own, counted)
