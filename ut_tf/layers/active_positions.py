"""The active positions of a batch, packed as the rows of one sequence.

How it is used, where most positions have halted::

    active = ActivePositions.of(index, batch_size, length)
    rows = active.rows_of(states)                  # [1, rows, hidden_size]: all that is computed
    queries = active.spread(rows, num_heads)       # [batch, num_heads, width, head_size]
    rows = active.collect(attend(queries))         # [1, rows, hidden_size]
"""

from typing import Any, NamedTuple, Self

import tensorflow as tf

from ut_tf.layers.custom_gradient import custom_gradient


def with_batch(values: Any, batch_size: Any) -> Any:
    """Returns values [batch or 1, ...] as [batch, ...], without knowing which they are; None stays
    None.
    """
    if values is None or values.shape[0] is not None:
        return values
    return tf.broadcast_to(values, tf.concat([[batch_size], tf.shape(values)[1:]], 0))


def placed_rows(rows: Any, index: Any, count: Any) -> Any:
    """Zeros [count, ...] with `rows` [rows, ...] at `index`, int32 [rows], each taken once."""
    shape = tf.concat([[count], tf.shape(rows)[1:]], 0)
    return tf.ensure_shape(tf.scatter_nd(index[:, None], rows, shape), [None, *rows.shape[1:]])


@custom_gradient
def take_rows(values: Any, index: Any) -> Any:
    """The rows `index`, int32 [rows], of `values` [positions, ...]; each is taken at most once."""
    # The gradient of tf.gather adds up rows that may occur twice, which takes longer.
    count = tf.shape(values)[0]
    return tf.gather(values, index), lambda upstream: (placed_rows(upstream, index, count), None)


@custom_gradient
def replace_rows(values: Any, index: Any, rows: Any) -> Any:
    """`values` [positions, ...] with `rows` [rows, ...] at `index`, int32 [rows]; in place where
    nothing else reads the values any more.
    """
    # Of all operations that replace or add rows, only this one works in place.
    changes = rows - tf.gather(values, index)
    replaced = tf.raw_ops.ScatterNdNonAliasingAdd(
        input=values, indices=index[:, None], updates=changes
    )

    def gradient(upstream: Any) -> tuple[Any, None, Any]:
        own = tf.gather(upstream, index)
        rest = tf.raw_ops.ScatterNdNonAliasingAdd(
            input=upstream, indices=index[:, None], updates=-own
        )
        return rest, None, own

    return replaced, gradient


@custom_gradient
def part_rows(values: Any, first: Any, second: Any) -> Any:
    """The rows `first` and the rows `second` of `values`, which are all rows of it."""

    def gradient(*upstream: Any) -> tuple[Any, None, None]:
        return tf.dynamic_stitch([first, second], list(upstream)), None, None

    return (tf.gather(values, first), tf.gather(values, second)), gradient


def head_rows(example: Any, position: Any, num_heads: int, length: Any) -> Any:
    """Returns the indices of positions' heads in [batch * num_heads * length]: int32 [rows *
    num_heads], of `example` and `position` [rows].
    """
    heads = example[:, None] * num_heads + tf.range(num_heads)
    return tf.reshape(heads * length + position[:, None], [-1])


class ActivePositions(NamedTuple):
    """The places of the active positions of a batch.

    Fields:
      example, position: int32 [rows], of each row, in order.
      place: int32 [rows], how many rows of its example come before a row.
      row: int32 [batch, width], the row at each place of an example; of places that are not taken
        any row.
      taken: bool [batch, width], whether the example has so many rows.
    """

    example: Any
    position: Any
    place: Any
    row: Any
    taken: Any

    @classmethod
    def of(cls, index: Any, batch_size: Any, length: Any) -> Self:
        """The positions `index`, int32 [rows], ascending, of [batch * length]."""
        example = index // length
        counts = tf.math.unsorted_segment_sum(tf.ones_like(example), example, batch_size)
        first = tf.cumsum(counts, exclusive=True)
        place = tf.range(tf.size(index)) - tf.gather(first, example)
        # The largest of no counts is the smallest number there is.
        places = tf.range(tf.maximum(tf.reduce_max(counts), 0))
        row = tf.minimum(first[:, None] + places, tf.size(index) - 1)
        return cls(example, index % length, place, row, places < counts[:, None])

    def rows_of(self, values: Any) -> Any:
        """The active positions' rows, [1, rows, ...], of `values` [batch, length, ...], or [1,
        length, ...] of this shape.
        """
        if values.shape[0] == 1:
            return tf.gather(values, self.position, axis=1)
        flat = tf.reshape(values, tf.concat([[-1], tf.shape(values)[2:]], 0))
        rows = take_rows(flat, self.example * tf.shape(values)[1] + self.position)
        return tf.ensure_shape(tf.expand_dims(rows, 0), [1, None, *values.shape[2:]])

    def spread(self, rows: Any, num_heads: int) -> Any:
        """The rows [1, rows, num_heads * head_size] by example and head: [batch, num_heads, width,
        head_size], where an example has fewer rows some others.
        """
        spread, _ = self._movers(num_heads)
        return spread(tf.reshape(rows, [-1, rows.shape[-1] // num_heads]))

    def collect(self, values: Any) -> Any:
        """The inverse of ``spread``: [batch, num_heads, width, head_size] -> [1, rows, num_heads *
        head_size].
        """
        num_heads, head_size = values.shape[1], values.shape[3]
        _, collect = self._movers(num_heads)
        return tf.reshape(collect(values), [1, -1, num_heads * head_size])

    def of_queries(self, table: Any) -> Any:
        """Returns the rows of `table` for the positions as queries.

        Args:
          table: [batch or 1, num_heads or 1, length or 1, ...], or None.

        Returns:
          [batch or 1, num_heads or 1, width or 1, ...], or None.
        """
        if table is None or table.shape[2] == 1:
            return table
        position = tf.gather(self.position, self.row)
        by_query = tf.transpose(table, [0, 2, 1, 3])
        if table.shape[0] == 1:
            chosen = tf.gather(tf.squeeze(by_query, 0), position)
        else:
            shape = tf.concat([tf.shape(position)[:1], tf.shape(by_query)[1:]], 0)
            chosen = tf.gather(tf.broadcast_to(by_query, shape), position, batch_dims=1)
        return tf.transpose(chosen, [0, 2, 1, 3])

    def _movers(self, num_heads: int) -> tuple[Any, Any]:
        """Functions from heads [rows * num_heads, head_size] to [batch, num_heads, width,
        head_size] and back, each the other's gradient.
        """
        rows = self.row[:, None] * num_heads + tf.range(num_heads)[:, None]
        slots = head_rows(self.example, self.place, num_heads, tf.shape(self.row)[1])

        def collected(values: Any) -> Any:
            return tf.gather(tf.reshape(values, [-1, values.shape[-1]]), slots)

        def collect_gradient(upstream: Any) -> Any:
            taken = tf.cast(self.taken, upstream.dtype)[:, None, :, None]
            return tf.gather(upstream, rows) * taken

        spread = custom_gradient(lambda heads: (tf.gather(heads, rows), collected))
        collect = custom_gradient(lambda values: (collected(values), collect_gradient))
        return spread, collect
