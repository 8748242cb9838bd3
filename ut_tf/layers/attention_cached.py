"""Attention of one new position in incremental decoding: ``MultiHeadAttention`` from the histories
of keys and values of the earlier positions.

::

    weights, cache = attention.prepare(), attention.empty_cache(batch_size, capacity, beam_size)
    queries, cache = attention.append(x, weights, cache, cache_position)
    output = attention.attend_cached(queries, weights, cache, cache_position, bias)
"""

from typing import Any

import tensorflow as tf

from ut_tf.layers.active_positions import ActivePositions
from ut_tf.layers.attention_weights import attention_weights
from ut_tf.layers.coordinates import rotate
from ut_tf.layers.key_value_cache import (
    CachePosition,
    LayerCache,
    StepWeights,
    empty_entries,
    read,
    write,
)
from ut_tf.layers.linear import Linear, affine


class CachedAttention:
    """The part of ``MultiHeadAttention`` that computes one new position of each hypothesis."""

    num_heads: int
    head_size: int
    inner_size: int
    compute_dtype: str
    relative_table: Any
    output_transform: Linear
    qk_norm: bool
    query_norm: Any
    key_norm: Any

    def prepare(self, names: tuple[str, ...] = ("query", "key", "value")) -> dict[str, Any]:
        """The weights of the named projections as one matrix, and those of the output, as
        incremental decoding uses them.
        """
        kernel, bias = self._projection(names, self.compute_dtype)
        joined = {"kernel": kernel} if bias is None else {"kernel": kernel, "bias": bias}
        prepared = {"projection": joined, "output": self.output_transform.prepare()}
        if self.relative_table is None:
            return prepared
        return {**prepared, "relative": tf.convert_to_tensor(self.relative_table)}

    def empty_cache(self, batch_size: Any, capacity: Any, beam_size: int) -> dict[str, Any]:
        """The histories of keys and values before the first position."""
        width = beam_size * self.head_size
        names = ("keys", "values")
        return {
            name: empty_entries(batch_size, self.num_heads, capacity, width, self.compute_dtype)
            for name in names
        }

    def append(
        self,
        x: Any,
        weights: StepWeights,
        cache: LayerCache,
        cache_position: CachePosition,
        rotation: tuple[Any, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Adds one new position to the histories.

        Args:
          x: [batch * beam_size, hidden_size].
          weights: from ``prepare``.
          cache: from ``empty_cache`` or an earlier position.
          cache_position: of the new position.
          rotation: of the new position, or None.

        Returns:
          (queries [batch, num_heads, beam_size, head_size] for ``attend_cached``, the new cache).
        """
        queries, keys, values = self._project_rows(x, weights, 3, cache_position.beam_size)
        queries, keys = self._normal_queries(queries), self._normal_keys(keys)
        if rotation is not None:
            queries, keys = rotate(queries, rotation), rotate(keys, rotation)
        return queries, {
            "keys": write(cache["keys"], keys, cache_position),
            "values": write(cache["values"], values, cache_position),
        }

    def cache_bias(self, cache_position: CachePosition, weights: StepWeights) -> Any:
        """Returns the bias of the logits of ``attend_cached``, the relative bias included: [batch,
        1 or num_heads, beam_size, slots].
        """
        if self.relative_table is None:
            return cache_position.bias
        relative = self._relative_bias(
            cache_position.index[None], tf.range(cache_position.capacity), weights["relative"]
        )
        return cache_position.bias + tf.repeat(relative, cache_position.beam_size, -1)

    def attend_cached(
        self,
        queries: Any,
        weights: StepWeights,
        cache: LayerCache,
        cache_position: CachePosition,
        bias: Any,
        logit_scale: Any = None,
        active: ActivePositions | None = None,
    ) -> Any:
        """The attention of the queries over their hypotheses' histories: [batch * beam_size,
        hidden_size], or [rows, hidden_size] of the active hypotheses.
        """
        if active is not None:
            queries, bias, logit_scale = map(active.of_queries, (queries, bias, logit_scale))
        return self._attend_rows(
            queries,
            read(cache["keys"], cache_position),
            read(cache["values"], cache_position),
            bias,
            logit_scale,
            weights,
            active,
        )

    def attend_memory_cached(
        self,
        x: Any,
        weights: StepWeights,
        memory: dict[str, Any],
        beam_size: int,
        rotation: tuple[Any, Any] | None = None,
        active: ActivePositions | None = None,
    ) -> Any:
        """The attention of one new position over an encoder's states, like x.

        Args:
          x: [batch * beam_size, hidden_size], or [rows, hidden_size] of the active hypotheses.
          weights: from ``prepare(("query",))``.
          memory: "keys", "values", "bias" and where there is one "scale", per example: all its
            hypotheses share them.
          beam_size: hypotheses per example.
          rotation: of the new position, or None.
          active: which hypotheses x holds; None: all.
        """
        if active is None:
            (queries,) = self._project_rows(x, weights, 1, beam_size)
        else:
            queries = active.spread(affine(x, weights["projection"])[None], self.num_heads)
            rotation = rotation and tuple(map(active.of_queries, rotation))
        queries = self._normal_queries(queries)
        queries = queries if rotation is None else rotate(queries, rotation)
        return self._attend_rows(
            queries,
            memory["keys"],
            memory["values"],
            memory["bias"],
            memory.get("scale"),
            weights,
            active,
        )

    def _normal_queries(self, queries: Any) -> Any:
        """Returns the queries, under qk_norm through their norm and times head_size^-0.5."""
        if not self.qk_norm:
            return queries
        return self.query_norm(queries) * tf.cast(self.head_size**-0.5, self.compute_dtype)

    def _normal_keys(self, keys: Any) -> Any:
        """Returns the keys, under qk_norm through their norm."""
        return self.key_norm(keys) if self.qk_norm else keys

    def _project_rows(self, x: Any, weights: StepWeights, count: int, beam_size: int) -> list[Any]:
        """Returns `count` of [batch, num_heads, beam_size, head_size]."""
        heads = tf.reshape(
            affine(x, weights["projection"]), [-1, beam_size, count, self.num_heads, self.head_size]
        )
        return list(tf.unstack(tf.transpose(heads, [2, 0, 3, 1, 4]), count))

    def _attend_rows(
        self,
        queries: Any,
        keys: Any,
        values: Any,
        bias: Any,
        logit_scale: Any,
        weights: StepWeights,
        active: ActivePositions | None = None,
    ) -> Any:
        attention = attention_weights(queries, keys, bias, logit_scale)
        mixed = tf.matmul(tf.cast(attention, values.dtype), values)
        mixed = tf.transpose(mixed, [0, 2, 1, 3]) if active is None else active.collect(mixed)
        return affine(tf.reshape(mixed, [-1, self.inner_size]), weights["output"])

    def _projection(self, names: tuple[str, ...], dtype: Any) -> tuple[Any, Any]:
        """Returns the kernels of the named projections side by side, and their biases, or None."""
        raise NotImplementedError

    def _relative_bias(self, queries: Any, keys: Any, table: Any = None) -> Any:
        """Returns the relative bias, float32 [1, num_heads, queries, keys]."""
        raise NotImplementedError
