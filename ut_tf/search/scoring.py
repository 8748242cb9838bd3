"""The log-probability of given outputs.

Example::

    # float32 [batch], in nats
    scores = log_probabilities(model, {"inputs": inputs, "targets": targets})
"""

from typing import Any

import tensorflow as tf

from ut_tf.metrics.losses import smoothed_cross_entropy
from ut_tf.symbols import PADDING_ID


def log_probabilities(model: Any, features: dict[str, Any]) -> Any:
    """log p(targets | inputs) of each example, the sum over its target symbols, the end
    symbol included: float32 [batch].

    Args:
      model: a model of sequences or of classes.
      features: as the model takes them; "targets" int32 [batch, length], padding not counted, or
        int32 [batch] classes.

    Raises:
      UserError: a target is none of the vocabulary, as of ``smoothed_cross_entropy``.
    """
    targets = tf.convert_to_tensor(features["targets"])
    logits = model({**features, "targets": targets}, training=False)
    scores = -smoothed_cross_entropy(logits, targets)
    if targets.shape.rank == 1:
        return scores
    return tf.reduce_sum(tf.where(targets == PADDING_ID, 0.0, scores), 1)
