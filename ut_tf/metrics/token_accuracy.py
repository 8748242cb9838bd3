"""Accuracy over the symbols that are not padding."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable("ut_tf")
class TokenAccuracy(keras.metrics.Metric):  # type: ignore[misc]
    """The share of labels that have the highest score, over all labels except ``ignore_class``.

    ``metrics=["accuracy"]`` counts padding as well: a model that learns to predict padding looks
    better than it is. The sum runs over labels, not over batches: batches of different lengths
    count by their labels.

    Example::

        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
        model.compile("adam", loss, metrics=[ut_tf.metrics.TokenAccuracy(ignore_class=0)])

    Args:
      ignore_class: the label that does not count, usually the padding id 0; None counts every
        label.
      name: of the metric.
      dtype: of the sums; None: float32 under Keras' default policy.

    Call arguments:
      y_true: int labels [batch, ...] or [batch, ..., 1].
      y_pred: logits or probabilities [batch, ..., classes].
      sample_weight: weight of each label [batch, ...] or of each example [batch]; None: 1.
    """

    def __init__(
        self, ignore_class: int | None = 0, name: str = "token_accuracy", dtype: Any = None
    ) -> None:
        super().__init__(name=name, dtype=dtype)
        self.ignore_class = ignore_class
        self.correct = self.add_variable(shape=(), initializer="zeros", name="correct")
        self.total = self.add_variable(shape=(), initializer="zeros", name="total")
        self._direction = "up"

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        y_pred = ops.convert_to_tensor(y_pred)
        y_true = ops.cast(y_true, "int32")
        if len(y_true.shape) == len(y_pred.shape):
            y_true = ops.squeeze(y_true, -1)
        weights = ops.ones_like(y_true, dtype=self.dtype)
        if self.ignore_class is not None:
            weights = ops.cast(ops.not_equal(y_true, self.ignore_class), self.dtype)
        if sample_weight is not None:
            sample_weight = ops.cast(sample_weight, self.dtype)
            missing = len(y_true.shape) - len(sample_weight.shape)
            weights *= ops.reshape(sample_weight, (*ops.shape(sample_weight), *[1] * missing))
        matches = ops.cast(ops.equal(y_true, ops.cast(ops.argmax(y_pred, -1), "int32")), self.dtype)
        self.correct.assign_add(ops.sum(matches * weights))
        self.total.assign_add(ops.sum(weights))

    def result(self) -> Any:
        """The accuracy since the last reset, 0 before any label has counted."""
        return ops.divide_no_nan(self.correct, self.total)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "ignore_class": self.ignore_class}
