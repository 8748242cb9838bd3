"""Multi-head attention: projections, logits, weights, and the key-value cache of incremental decoding.

Attention(Q, K, V) = softmax(Q Kᵀ / sqrt(d)) V with k heads (arXiv 1807.03819, equations 2 and 3). Logits and softmax are float32.
"""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf

from ut_tf.config import NetworkConfig
from ut_tf.layers.coordinates import rotate
from ut_tf.layers.dropout import Dropout
from ut_tf.layers.linear import Linear, kernel_initializer, matmul, scaled

MASKED = -1e9
"""Added to the logit of a key that may not be seen: float32 softmax makes it an exact zero."""


def padding_bias(mask: Any) -> Any:
    """Returns what hides padded keys: mask [batch, keys] (1 = symbol, 0 = padding) -> float32 [batch, 1, 1, keys]."""
    return MASKED * (1.0 - tf.cast(mask, tf.float32))[:, None, None, :]


def causal_bias(length: Any) -> Any:
    """Returns what hides later positions: int [] -> float32 [1, 1, length, length]."""
    order = tf.range(length)
    return MASKED * tf.cast(order[None, :] > order[:, None], tf.float32)[None, None]


def length_scale(visible: Any, reference: int) -> Any:
    """Returns max(1, ln(visible) / ln(reference)), the factor that keeps attention sharp over more keys than were trained.

    Args:
      visible: float32 [...], keys that a query can see.
      reference: keys up to which the factor is 1.
    """
    return tf.maximum(1.0, tf.math.log(tf.maximum(visible, 1.0)) / math.log(reference))


def _copy_of(variable: Any) -> Any:
    return lambda shape, dtype: tf.cast(tf.reshape(variable.value, shape), dtype)


def _self_bias(reach: int, value: float) -> Any:
    return lambda shape, dtype: tf.one_hot(tf.fill([shape[1]], reach), shape[0], on_value=value, axis=0, dtype=dtype)


@keras.saving.register_keras_serializable("ut_tf")
class MultiHeadAttention(keras.layers.Layer):  # type: ignore[misc]
    """Multi-head attention of queries over keys and values.

    Args:
      network: its hidden_size, num_heads, attention_bias, attention_dropout, kernel_init, query_key_init and relative_bias are used.
      relative: whether this attention has the learned bias per head and relative position (self-attention only).

    Call arguments:
      x: [batch, queries, hidden_size].
      keys, values: [batch, num_heads, keys, head_size], from ``keys_values``; None: self-attention over x.
      bias: float32, broadcast to [batch, num_heads, queries, keys], added to the logits.
      rotation: (cosines, sines) of the queries' positions (and of the keys' in self-attention), or None.
      logit_scale: float32, broadcast to the logits, or None.
      training: whether attention weights are dropped.
      output_scale: constant factor on the output.

    Returns:
      (output [batch, queries, hidden_size], weights float32 [batch, num_heads, queries, keys] before dropout).
    """

    def __init__(self, network: NetworkConfig, relative: bool = False, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.network = network
        self.relative = relative and network.relative_bias > 0
        self.head_size = network.hidden_size // network.num_heads
        self.dropout = Dropout(network.attention_dropout, name="dropout", dtype=self.dtype_policy)
        self.output_transform = Linear(
            network.hidden_size, network.attention_bias, network.kernel_init, name="output", dtype=self.dtype_policy
        )

    def build(self, input_shape: Any) -> None:
        width, network = input_shape[-1], self.network
        for name in ("query", "key", "value"):
            initializer = kernel_initializer(network.kernel_init)
            if name == "key" and network.query_key_init == "equal":
                initializer = _copy_of(self.query_kernel)
            kernel = self.add_weight(shape=(width, width), initializer=initializer, name=f"{name}_kernel", autocast=False)
            setattr(self, f"{name}_kernel", kernel)
            if network.attention_bias:
                bias = self.add_weight(shape=(width,), initializer="zeros", name=f"{name}_bias", autocast=False)
                setattr(self, f"{name}_bias", bias)
        self.relative_table = None
        if self.relative:
            shape = (2 * network.relative_bias + 1, network.num_heads)
            initializer = _self_bias(network.relative_bias, network.relative_self_bias)
            self.relative_table = self.add_weight(shape=shape, initializer=initializer, name="relative_table", autocast=False)
        self.output_transform.build((*input_shape[:-1], width))

    def call(
        self,
        x: Any,
        keys: Any = None,
        values: Any = None,
        bias: Any = None,
        rotation: tuple[Any, Any] | None = None,
        logit_scale: Any = None,
        training: bool = False,
        output_scale: float = 1.0,
    ) -> tuple[Any, Any]:
        if keys is None:
            queries, keys, values = self._project(x, ("query", "key", "value"))
            keys = keys if rotation is None else rotate(keys, rotation)
            relative = self._relative_bias(tf.range(tf.shape(x)[1]), tf.range(tf.shape(x)[1]))
        else:
            (queries,) = self._project(x, ("query",))
            relative = None
        queries = queries if rotation is None else rotate(queries, rotation)
        bias = bias if relative is None else relative + (0.0 if bias is None else bias)
        return self._attend(queries, keys, values, bias, logit_scale, training, output_scale)

    def keys_values(self, states: Any, rotation: tuple[Any, Any] | None = None) -> tuple[Any, Any]:
        """Returns keys and values, each [batch, num_heads, keys, head_size], of states [batch, keys, hidden_size]."""
        keys, values = self._project(states, ("key", "value"))
        return (keys if rotation is None else rotate(keys, rotation)), values

    def step(
        self, x: Any, cache: dict[str, Any], index: Any, rotation: tuple[Any, Any] | None = None, logit_scale: Any = None
    ) -> tuple[Any, dict[str, Any]]:
        """Self-attention of one new position over itself and all earlier ones.

        Args:
          x: [batch, 1, hidden_size].
          cache: "keys" and "values", each [max_length, batch, num_heads, head_size], filled below `index`.
          index: int32 [], the new position, from 0.
          rotation: of the new position, or None.
          logit_scale: float32 [], or None.

        Returns:
          (output [batch, 1, hidden_size], the cache filled up to `index`).
        """
        queries, keys, values = self._project(x, ("query", "key", "value"))
        if rotation is not None:
            queries, keys = rotate(queries, rotation), rotate(keys, rotation)
        cache = {
            "keys": tf.tensor_scatter_nd_update(cache["keys"], [[index]], tf.cast(keys[None, :, :, 0], cache["keys"].dtype)),
            "values": tf.tensor_scatter_nd_update(cache["values"], [[index]], tf.cast(values[None, :, :, 0], cache["values"].dtype)),
        }
        order = tf.range(tf.shape(cache["keys"])[0])
        bias = MASKED * tf.cast(order > index, tf.float32)
        relative = self._relative_bias(index[None], order)
        bias = bias if relative is None else bias + relative
        all_keys, all_values = (tf.transpose(cache[name], [1, 2, 0, 3]) for name in ("keys", "values"))
        output, _ = self._attend(queries, all_keys, all_values, bias, logit_scale, training=False)
        return output, cache

    def empty_cache(self, batch_size: Any, max_length: Any) -> dict[str, Any]:
        """Returns the cache of ``step`` before the first position."""
        zeros = tf.zeros([max_length, batch_size, self.network.num_heads, self.head_size], self.compute_dtype)
        return {"keys": zeros, "values": zeros}

    def _project(self, x: Any, names: tuple[str, ...]) -> list[Any]:
        """Returns one [batch, num_heads, length, head_size] per name, queries times head_size^-0.5; several kernels make one product."""
        x = tf.cast(x, self.compute_dtype)
        # The kernels are smaller than what they make, so they are scaled.
        scales = [self.head_size**-0.5 if name == "query" else 1.0 for name in names]
        kernels = [scaled(getattr(self, f"{name}_kernel"), scale, x.dtype) for name, scale in zip(names, scales, strict=True)]
        projected = matmul(x, kernels[0] if len(kernels) == 1 else tf.concat(kernels, 1))
        if self.network.attention_bias:
            biases = [scaled(getattr(self, f"{name}_bias"), scale, x.dtype) for name, scale in zip(names, scales, strict=True)]
            projected += tf.concat(biases, 0)
        shape = tf.shape(x)
        heads = tf.reshape(projected, [shape[0], shape[1], len(names), self.network.num_heads, self.head_size])
        return list(tf.unstack(tf.transpose(heads, [2, 0, 3, 1, 4]), len(names)))

    def _relative_bias(self, queries: Any, keys: Any) -> Any | None:
        """Returns float32 [1, num_heads, queries, keys] for int32 positions [queries] and [keys], or None."""
        if self.relative_table is None:
            return None
        reach = self.network.relative_bias
        distance = tf.clip_by_value(keys[None, :] - queries[:, None], -reach, reach) + reach
        # A product with one-hot rows: its gradient is a product too, where a gather's is a slow scatter of queries * keys rows.
        one_hot = tf.one_hot(tf.reshape(distance, [-1]), 2 * reach + 1)
        table = tf.matmul(self.relative_table, one_hot, transpose_a=True, transpose_b=True)
        return tf.reshape(table, tf.concat([[1, self.network.num_heads], tf.shape(distance)], 0))

    def _attend(
        self, queries: Any, keys: Any, values: Any, bias: Any, logit_scale: Any, training: bool, output_scale: float = 1.0
    ) -> tuple[Any, Any]:
        logits = tf.cast(tf.matmul(queries, keys, transpose_b=True), tf.float32)
        logits = logits if logit_scale is None else logits * logit_scale
        weights = tf.nn.softmax(logits if bias is None else logits + bias)
        kept = self.dropout.drop(tf.cast(weights, values.dtype), training)
        mixed = tf.transpose(tf.matmul(kept, values), [0, 2, 1, 3])
        shape = tf.shape(mixed)
        mixed = tf.reshape(mixed, [shape[0], shape[1], self.network.hidden_size])
        return self.output_transform(mixed, input_scale=self.dropout.scale(training), output_scale=output_scale), weights

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "network": self.network.to_dict(), "relative": self.relative}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> MultiHeadAttention:
        return cls(**{**config, "network": NetworkConfig.from_dict(config["network"])})
