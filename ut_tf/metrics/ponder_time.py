"""The mean ponder time in the logs of ``fit`` and ``evaluate``."""

import threading
from collections.abc import Iterable
from typing import Any

import keras
import tensorflow as tf
from keras import ops


class PonderTime:
    """The mean number of recurrent steps per position, over the calls of a layer or model.

    Like the losses that ``add_loss`` keeps, the sums of the last call wait until the trainer asks
    for results in the same graph. Predictions, exported graphs and training without ``fit`` update
    nothing. The layer shows ``metric`` among its ``metrics``. The metric is no attribute of the
    layer, because Keras and TensorFlow would store its sums with the weights.

    Args:
      name: of the metric.
    """

    def __init__(self, name: str = "ponder_time") -> None:
        self.metric = _MeanOfLastCall(name=name)

    def keep(self, parts: Iterable[tuple[Any, Any]]) -> None:
        """Keeps the sums of a call.

        Args:
          parts: (ponder times, mask), float32 [batch, length] each, of encoder and decoder.
        """
        pairs = list(parts)
        total = tf.add_n([tf.reduce_sum(times * mask) for times, mask in pairs])
        self.metric.keep(total, tf.add_n([tf.reduce_sum(mask) for _, mask in pairs]))


class _MeanOfLastCall(keras.metrics.Metric):  # type: ignore[misc]
    """The mean of sums that are kept in a call and counted when the result is asked for."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, dtype="float32")
        self.total = self.add_variable(shape=(), initializer="zeros", name="total")
        self.count = self.add_variable(shape=(), initializer="zeros", name="count")
        # Each replica of a strategy runs in a thread of its own.
        self.kept = threading.local()

    def keep(self, total: Any, count: Any) -> None:
        self.kept.sums = (total, count)

    def update_state(self, total: Any, count: Any) -> None:
        self.total.assign_add(total)
        self.count.assign_add(count)

    def result(self) -> Any:
        """Float32 []: the mean since the last reset, 0 before any position has counted."""
        sums = getattr(self.kept, "sums", None)
        if sums is not None and _is_of_this_graph(sums[0]):
            self.kept.sums = None
            self.update_state(*sums)
        return ops.divide_no_nan(self.total, self.count)

    def reset_state(self) -> None:
        self.kept.sums = None
        super().reset_state()


def _is_of_this_graph(tensor: Any) -> bool:
    if tf.executing_eagerly() or isinstance(tensor, tf.__internal__.EagerTensor):
        return tf.executing_eagerly() and isinstance(tensor, tf.__internal__.EagerTensor)
    return tensor.graph is tf.compat.v1.get_default_graph()
