"""Ids that stand for symbols or classes: of which types they may be, and that each is one of the
vocabulary.

::

    ids = checked_ids([[5, 3], [4, 0]], 12, "inputs", rank=2)    # int32 [2, 2]
    checked_ids([[5, 12]], 12, "inputs")    # UserError: row 0 of the inputs holds the id 12, …

An embedding's gather would answer for another symbol, or with zeros, where there is no check: on a
GPU, and wherever XLA compiles.
"""

from typing import Any

import tensorflow as tf

# There is no public function that tells it.
from tensorflow.python.ops import control_flow_util

from ut_tf.errors import UserError, marked_parts


def is_compiled_by_xla() -> bool:
    """Whether XLA compiles what is being traced: it must know all shapes, and leaves checks out."""
    return bool(control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()))


def checked_ids(ids: Any, size: int, name: str, rank: int | None = None) -> Any:
    """The ids as int32, checked.

    Args:
      ids: whole numbers of any dtype, floating ones included; a tensor, an array, lists, or a
        tf.RaggedTensor, which is padded with 0 at the end.
      size: of the vocabulary: ids are 0 to size - 1.
      name: of the feature, for the error.
      rank: how many dimensions there must be; None: any number.

    Returns:
      int32, of the same shape.

    Raises:
      UserError: the ids are bool or no numbers, have another rank, or one (the first is named) is
        no id of the vocabulary. In a graph the last is an InvalidArgumentError with that sentence;
        XLA leaves it out (see ``nan_where_unknown``).
    """
    if isinstance(ids, tf.RaggedTensor):
        ids = ids.to_tensor()
    try:
        ids = tf.convert_to_tensor(ids)
    except (TypeError, ValueError) as error:
        raise UserError(
            f"the {name} are a {type(ids).__name__}, which cannot become a tensor: give int32 ids,"
            " each example padded with 0 to the same length."
        ) from error
    if not (ids.dtype.is_integer or ids.dtype.is_floating):
        raise UserError(
            f"the {name} are of dtype {ids.dtype.name}, and ids are whole numbers: give int32."
        )
    if rank is not None and ids.shape.rank not in (None, rank):
        shape = "[batch, length]" if rank == 2 else "[batch, rows, words]"
        raise UserError(
            f"the {name} have the shape {list(ids.shape)}, and ids are {shape}: give a batch, of"
            " one example too."
        )
    if is_compiled_by_xla():
        return tf.cast(ids, tf.int32)
    rows = tf.reshape(tf.cast(unknown_ids(ids, size), tf.int32), [-1])
    # An empty batch has no largest value: a 0, which is known, stands behind all others.
    place = tf.argmax(tf.pad(rows, [[0, 1]]), output_type=tf.int32)
    first = tf.gather(tf.pad(tf.reshape(ids, [-1]), [[0, 1]]), place)
    row = place // tf.maximum(tf.size(ids) // tf.maximum(tf.shape(ids)[0], 1), 1)
    is_known = tf.logical_not(unknown_ids(first, size))
    sentence = (
        "row ",
        row,
        f" of the {name} holds the id ",
        first,
        f", and the ids of this vocabulary are whole numbers from 0 to {size - 1}: encode the"
        f" {name} with the vocabulary that the model has, or make the model with a larger one.",
    )
    if tf.executing_eagerly():
        if not is_known:
            parts = (part if isinstance(part, str) else f"{part.numpy():.12g}" for part in sentence)
            raise UserError("".join(parts))
        return tf.cast(ids, tf.int32)
    with tf.control_dependencies([tf.debugging.Assert(is_known, marked_parts(sentence))]):
        return tf.cast(tf.identity(ids), tf.int32)


def unknown_ids(ids: Any, size: int) -> Any:
    """Bool, of the shape of `ids`, true where they are no whole numbers from 0 to size - 1."""
    if ids.dtype.is_floating:
        return ~((ids >= 0) & (ids < size) & (ids == tf.floor(ids)))
    wide = ids if ids.dtype == tf.int32 else tf.cast(ids, tf.int64)
    return (wide < 0) | (wide >= size)


def nan_where_unknown(values: Any, ids: Any, size: int) -> Any:
    """The values, floating [batch, ...], of which XLA makes NaN where the row of `ids`, [batch,
    ...], has an unknown one: it leaves the check of ``checked_ids`` out.
    """
    if not is_compiled_by_xla():
        return values
    unknown = unknown_ids(tf.convert_to_tensor(ids), size)
    of_rows = tf.reduce_any(unknown, list(range(1, unknown.shape.rank)))
    shape = tf.concat([tf.shape(of_rows), tf.ones([values.shape.rank - 1], tf.int32)], 0)
    return tf.where(tf.reshape(of_rows, shape), tf.cast(float("nan"), values.dtype), values)
