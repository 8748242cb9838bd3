"""A split whose every example can be had by its number.

The pipeline plans an epoch's batches as lists of example numbers from the lengths alone, and leaves
out those that a resumed run has already seen without making them.

How it is used::

    table = problem.examples("train", data_dir, seed=1, epoch=0)
    table.lengths[:3], table.batch(tf.constant([0, 1, 2]))
    table = ExampleTable.from_dataset(dataset)           # for who has a tf.data.Dataset alone
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

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
        by TensorFlow operations, without AutoGraph. Padded with 0, in the first dimension after
        `batch`, to any length that is enough for all of them.
      is_padded: whether batches keep positions that are padding in every example: those of boards,
        whose inputs and targets have one size.
      is_aligned: whether features of positions have the length of the inputs, also where the last
        positions ask for nothing.
    """

    lengths: npt.NDArray[np.int32]
    batch: Callable[[Any], dict[str, Any]]
    is_padded: bool = False
    is_aligned: bool = False

    def __len__(self) -> int:
        return len(self.lengths)

    @classmethod
    def from_dataset(cls, dataset: Any) -> Self:
        """The table of a finite tf.data.Dataset of single examples, which is read into memory.

        Args:
          dataset: of dictionaries of features: "inputs", "targets" and others, each of rank 0 or
            with one dimension, the first, that may differ between examples. It must not shuffle in
            another order each time it is read: (seed, epoch) alone decide an epoch.
        """
        import tensorflow as tf

        blocks = list(dataset.ragged_batch(_BLOCK))
        with tf.device("/CPU:0"):
            columns = {
                name: tf.concat([block[name] for block in blocks], 0) if blocks else _no_rows(spec)
                for name, spec in dataset.element_spec.items()
            }

        def batch(numbers: Any) -> dict[str, Any]:
            rows = {name: tf.gather(column, numbers) for name, column in columns.items()}
            return {
                name: value.to_tensor() if isinstance(value, tf.RaggedTensor) else value
                for name, value in rows.items()
            }

        sizes = [_row_lengths(columns[name]) for name in ("inputs", "targets") if name in columns]
        return cls(np.max(sizes, axis=0), batch)

    def dataset(self) -> Any:
        """A tf.data.Dataset of the single examples, without padding, in the table's order."""
        import tensorflow as tf

        numbers = tf.data.Dataset.range(len(self), output_type=tf.int32)
        examples = numbers.batch(_BLOCK).map(self.batch).unbatch()
        if self.is_padded:
            return examples

        def trimmed(features: dict[str, Any]) -> dict[str, Any]:
            one = {name: value[tf.newaxis] for name, value in features.items()}
            return {name: value[0] for name, value in self.trimmed(one).items()}

        return examples.map(trimmed)

    def trimmed(self, features: dict[str, Any]) -> dict[str, Any]:
        """The features of a batch without the columns that are padding, if batches do so."""
        return features if self.is_padded else trim_batch(features, self.is_aligned)


def trim_batch(features: dict[str, Any], is_aligned: bool = False) -> dict[str, Any]:
    """The features of a batch without the columns (facts: rows) that are padding in every example;
    `is_aligned`: of the inputs.
    """
    import tensorflow as tf

    def used(value: Any) -> Any:
        return _used(tf, features["inputs"] if is_aligned else value)

    return {
        name: value[:, : used(value)] if value.shape.rank > 1 else value
        for name, value in features.items()
    }


def _used(tf: Any, values: Any) -> Any:
    """The scalar number of the first entries along axis 1 after which `values` [batch, length, ...]
    has zeros only.
    """
    axes = [axis for axis in range(values.shape.rank) if axis != 1]
    filled = tf.reduce_any(tf.not_equal(values, 0), axis=axes)
    return tf.reduce_max(tf.where(filled, tf.range(1, tf.shape(values)[1] + 1), 0))


def _no_rows(spec: Any) -> Any:
    """A column of a dataset without examples."""
    import tensorflow as tf

    return tf.zeros([0, *(size or 0 for size in spec.shape)], spec.dtype)


def _row_lengths(column: Any) -> npt.NDArray[np.int32]:
    """The size of each row's first dimension, int32 [examples]; of scalars 0."""
    import tensorflow as tf

    if isinstance(column, tf.RaggedTensor):
        return np.asarray(column.row_lengths().numpy(), np.int32)
    return np.full(column.shape[0], column.shape[1] if column.shape.rank > 1 else 0, np.int32)


def example_order(split: str, count: int, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """The numbers of a split's examples in the order of an epoch: of "train" a permutation that
    (seed, epoch) decides, otherwise ascending.
    """
    if split == "train":
        return np.random.default_rng([seed % 2**63, epoch]).permutation(count)
    return np.arange(count)
