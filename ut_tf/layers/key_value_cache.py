"""Keys and values of earlier positions in incremental decoding, shared by the hypotheses of a beam.

::

    visible = nothing_visible(batch_size, capacity=16, beam_size=4)
    cache_position, visible = next_cache_position(visible, index, num_heads=8, head_size=64)
    cache = write(cache, entries, cache_position)   # entries [batch, heads, beam, head_size]
    keys = read(cache, cache_position, dtype)       # [batch, heads, capacity * beam, head_size]
    visible = tf.gather(visible, parents, batch_dims=1)

Hypothesis k writes into slot k of its position and then goes on from parents[:, k]. Reordering
copies nothing: `visible` says which slots are a hypothesis' own past, and a bias hides the others.
"""

from typing import Any, NamedTuple

import tensorflow as tf

StepWeights = dict[str, Any]
"""Weights of a layer for one new position, by name: read, joined and cast once."""
LayerCache = dict[str, Any]
"""The values of earlier positions that a layer reads, by name."""
MASKED = -1e9
"""Added to the logit of a key that may not be seen: float32 softmax makes it an exact zero."""

# A slice assignment costs TensorFlow as much for an element of 16 bytes as for one of 2, and by far
# the most of a write.
_UNIT = tf.complex128


class CachePosition(NamedTuple):
    """The place of a new position in the histories; the same for all blocks of a decoder.

    Fields:
      index: int32 [], the position, from 0.
      capacity: int32 [], positions that the histories have room for.
      bias: float32 [batch, 1, beam_size, capacity * beam_size]: 0 for a hypothesis' own past and
        itself, else MASKED.
      beam_size: hypotheses per example; of a span its positions, int32 [].
      width: numbers in an entry of the cache.
      dtype: of the entries.
      shape: int32 [4], of what ``read`` returns: batch, num_heads, capacity * beam_size, head_size.
      units: int32 [4], of a cache.
      rows: int32 [2], of a cache as one row per example and head.
      begin, end: int32 [2], of this position in such rows.
    """

    index: Any
    capacity: Any
    bias: Any
    beam_size: Any
    width: int
    dtype: Any
    shape: Any
    units: Any
    rows: Any
    begin: Any
    end: Any


def nothing_visible(batch_size: Any, capacity: Any, beam_size: int) -> Any:
    """The bias before the first position, which hides everything: float32 [batch, beam_size,
    capacity, beam_size] of MASKED.
    """
    return tf.fill([batch_size, beam_size, capacity, beam_size], MASKED)


def next_cache_position(
    visible: Any, index: Any, num_heads: int, head_size: int, dtype: Any
) -> tuple[CachePosition, Any]:
    """The cache_position of position `index`, at which each hypothesis also sees itself, and
    `visible` from there on.
    """
    size = tf.shape(visible)
    beam_size, batch_size, capacity = visible.shape[1], size[0], size[2]
    now = tf.equal(tf.range(capacity), index)[:, None]
    itself = (
        now if beam_size == 1 else tf.logical_and(now, tf.eye(beam_size, dtype=tf.bool)[:, None])
    )
    visible = tf.where(itself, 0.0, visible)
    bias = tf.reshape(visible, tf.stack([batch_size, 1, beam_size, capacity * beam_size]))
    return _at(bias, beam_size, (index, 1), capacity, num_heads, head_size, dtype), visible


def span_position(
    visible: Any, first: Any, index: Any, count: Any, num_heads: int, head_size: int, dtype: Any
) -> CachePosition:
    """The cache_position of `count` new positions of one hypothesis per example, which are computed
    at once, in the entries from `index` on.

    Args:
      visible: float32 [batch, 1, capacity, 1], 0 for entries that all of them see.
      first: int32 [], the first entry besides these that a position sees, up to its own.
      index, count: int32 [].
      num_heads, head_size, dtype: of the entries.
    """
    entries = tf.range(tf.shape(visible)[2])
    own = (entries >= first) & (entries <= (index + tf.range(count))[:, None])
    bias = tf.where(own, 0.0, tf.transpose(visible, [0, 1, 3, 2]))
    capacity = tf.shape(visible)[2]
    position = _at(bias, 1, (index, count), capacity, num_heads, head_size, dtype)
    return position._replace(beam_size=count)


def _at(
    bias: Any,
    beam_size: int,
    span: tuple[Any, Any],
    capacity: Any,
    num_heads: int,
    head_size: int,
    dtype: Any,
) -> CachePosition:
    """The place of a span (its first entry, their number) in caches of `beam_size` hypotheses."""
    (index, count), batch_size = span, tf.shape(bias)[0]
    _, width = _unit(beam_size * head_size, dtype)
    return CachePosition(
        index,
        capacity,
        bias=bias,
        beam_size=beam_size,
        width=beam_size * head_size,
        dtype=dtype,
        shape=tf.stack([batch_size, num_heads, capacity * beam_size, head_size]),
        units=tf.stack([batch_size, num_heads, capacity, width]),
        rows=tf.stack([batch_size * num_heads, capacity * width]),
        begin=tf.stack([0, index * width]),
        end=tf.stack([0, (index + count) * width]),
    )


def empty_entries(batch_size: Any, num_heads: int, capacity: Any, width: int, dtype: Any) -> Any:
    """Returns a cache [batch, num_heads, capacity, units] for entries that are `width` numbers of
    `dtype` wide in all hypotheses.
    """
    unit, units = _unit(width, dtype)
    return tf.zeros(tf.stack([batch_size, num_heads, capacity, units]), unit)


def write(cache: Any, entries: Any, cache_position: CachePosition) -> Any:
    """Returns the cache with `entries` [batch, num_heads, beam_size, head_size] at this position,
    in place if nobody else reads it.
    """
    width = cache_position.width
    unit, units = _unit(width, cache_position.dtype)
    rows = cache_position.rows[0]
    shape = [rows, -1] if units == width else [rows, -1, width // units]
    values = tf.reshape(entries, tf.stack(shape))
    rows = tf.raw_ops.TensorStridedSliceUpdate(
        input=tf.reshape(cache, cache_position.rows),
        begin=cache_position.begin,
        end=cache_position.end,
        strides=[1, 1],
        value=values if units == width else tf.bitcast(values, unit),
        begin_mask=0b01,
        end_mask=0b01,
    )
    written = tf.reshape(rows, cache_position.units)
    written.set_shape(cache.shape)
    return written


def read(cache: Any, cache_position: CachePosition) -> Any:
    """Returns all entries, [batch, num_heads, capacity * beam_size, head_size]; entries that were
    not written yet are 0.
    """
    return tf.reshape(
        cache if cache.dtype == cache_position.dtype else tf.bitcast(cache, cache_position.dtype),
        cache_position.shape,
    )


def extended(tensor: Any, capacity: Any, value: float) -> Any:
    """Returns a cache, or its visibility, with room for `capacity` positions; the new ones hold
    `value`.
    """
    missing = capacity - tf.shape(tensor)[2]
    fill = tf.cast(value, tensor.dtype)
    return tf.pad(tensor, [[0, 0], [0, 0], [0, missing], [0, 0]], constant_values=fill)


def _unit(width: int, dtype: Any) -> tuple[Any, int]:
    """The type in which an entry of `width` numbers is kept, and how many of that type it takes."""
    per_unit = _UNIT.size // tf.as_dtype(dtype).size
    return (_UNIT, width // per_unit) if width % per_unit == 0 else (tf.as_dtype(dtype), width)
