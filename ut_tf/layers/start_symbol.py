"""The positions of the inputs' symbols, where a learned start symbol may stand before them."""

from typing import Any

import tensorflow as tf


def without_start(values: Any, inputs: Any) -> Any:
    """The values at the positions of the inputs, [batch, length, ...].

    Args:
      values: of the encoder's positions, [batch, length or length + 1, ...], with the start symbol
        first where the model puts one before the inputs.
      inputs: ids, [batch, length] or [batch, length, words].
    """
    return values[:, tf.shape(values)[1] - tf.shape(inputs)[1] :]
