"""A split whose every example can be had by its number: what makes batching quick and resuming
free.

How it works: a problem that knows the lengths of all its examples beforehand gives them, and a
function from example numbers to a padded batch. The pipeline then plans an epoch's batches as lists
of numbers, without touching an example, and leaves out those that a resumed run has already seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

_BLOCK = 1000


@dataclass(frozen=True)
class ExampleTable:
    """The examples of a split, by number.

    Args:
      lengths: int32 [examples]: the longer of each example's inputs (facts: rows) and targets, in
        the order of the split.
      batch: from int32 numbers [batch] to the examples' features with a leading dimension `batch`,
        by TensorFlow operations. Padded with 0, in the first dimension after `batch`, to any length
        that is enough for all of them.
    """

    lengths: npt.NDArray[np.int32]
    batch: Callable[[Any], dict[str, Any]]

    def __len__(self) -> int:
        return len(self.lengths)

    def dataset(self) -> Any:
        """Returns a tf.data.Dataset of the single examples, without padding, in the
        table's order.
        """
        import tensorflow as tf

        numbers = tf.data.Dataset.range(len(self), output_type=tf.int32)
        return numbers.batch(_BLOCK).map(self.batch).unbatch().map(trim_example)


def trim_example(features: dict[str, Any]) -> dict[str, Any]:
    """Returns the features of one example without the zeros that end them (facts: without the rows
    of zeros).
    """
    import tensorflow as tf

    return {
        name: value[: _used(tf, value[tf.newaxis])] if value.shape.rank else value
        for name, value in features.items()
    }


def trim_batch(features: dict[str, Any]) -> dict[str, Any]:
    """Returns the features of a batch without the columns (facts: rows) that are padding in every
    example.
    """
    import tensorflow as tf

    return {
        name: value[:, : _used(tf, value)] if value.shape.rank > 1 else value
        for name, value in features.items()
    }


def _used(tf: Any, values: Any) -> Any:
    """Returns the scalar number of the first entries along axis 1 after which `values` [batch,
    length, ...] has zeros only.
    """
    axes = [axis for axis in range(values.shape.rank) if axis != 1]
    filled = tf.reduce_any(tf.not_equal(values, 0), axis=axes)
    return tf.reduce_max(tf.where(filled, tf.range(1, tf.shape(values)[1] + 1), 0))
