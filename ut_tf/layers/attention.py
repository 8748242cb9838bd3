"""Multi-head attention over a whole sequence; ``attention_cached.py`` has that of one new position.

Attention(Q, K, V) = softmax(Q Kᵀ / sqrt(d)) V with k heads (arXiv 1807.03819, equations 2 and 3).
"""

from typing import Any

import keras
import tensorflow as tf

from ut_tf.errors import UserError
from ut_tf.layers.active_positions import ActivePositions
from ut_tf.layers.attention_cached import CachedAttention
from ut_tf.layers.attention_weights import attention_weights, batch_matmul
from ut_tf.layers.coordinates import rotate
from ut_tf.layers.dropout import Dropout
from ut_tf.layers.linear import (
    Linear,
    affine,
    flatten,
    kernel_initializer,
    leading_sizes,
    scaled,
    unflatten,
)
from ut_tf.layers.normalization import RMSNorm


def _without_heads(values: Any) -> Any:
    """Values [batch, num_heads, length, head_size] as [batch, length, num_heads * head_size]."""
    joined = values.shape[1] * values.shape[3]
    values = tf.transpose(values, [0, 2, 1, 3])
    return tf.reshape(values, [*leading_sizes(values, 2), joined])


def _copy_of(variable: Any) -> Any:
    return lambda shape, dtype: tf.cast(tf.reshape(variable.value, shape), dtype)


def _relative_bias_init(reach: int, self_bias: float, slope: float) -> Any:
    distances = range(-reach, reach + 1)
    biases = [slope * (-reach if distance > 0 else distance) for distance in distances]
    biases[reach] = self_bias
    return lambda shape, dtype: tf.tile(tf.constant(biases, dtype)[:, None], [1, shape[1]])


@keras.saving.register_keras_serializable("ut_tf")
class MultiHeadAttention(CachedAttention, keras.layers.Layer):  # type: ignore[misc]
    """Multi-head attention of queries over keys and values.

    Args:
      hidden_size: width of states and output.
      num_heads: without head_size it divides hidden_size.
      attention_dropout: rate, on the attention weights.
      attention_bias: whether the projections have a bias.
      kernel_init: "glorot" or "unit_scaling".
      query_key_init: "independent", or "equal": the key kernel starts as a copy of the query
        kernel.
      relative_bias: reach of a learned bias per head and relative position; 0: none. For
        self-attention only.
      relative_self_bias: its initial value at distance 0.
      head_size: width of a head's queries, keys and values; 0: hidden_size / num_heads.
      qk_norm: whether each head's queries and keys go through an ``RMSNorm`` before they are turned
        (arXiv 2010.04245).
      qk_bias: whether the projections of queries and keys have a bias, those of values none.
      relative_slope: how much the initial value of relative_bias falls with each position back, the
        same in all heads; later positions begin like the farthest.

    Call arguments:
      x: [batch, queries, hidden_size].
      keys, values: [batch, num_heads, keys, head_size], from ``keys_values``; None: self-attention
        over x.
      bias: float32, broadcast to [batch, num_heads, queries, keys], added to the logits.
      rotation: (cosines, sines) of the queries' positions (and of the keys' in self-attention), or
        None.
      logit_scale: float32, broadcast to the logits, or None.
      training: whether attention weights are dropped.
      output_scale: constant factor on the output.
      value_shift: [1, num_heads, 1, head_size], added to all values; or None.
      active: ActivePositions, where x has their rows alone, [1, rows, hidden_size]; keys and
        values are given, and bias, rotation and logit_scale are those of all positions.

    Returns:
      (output like x, weights float32 [batch, num_heads, queries, keys] before dropout; the queries
      of each example are its active positions, where those are given).
    """

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        attention_dropout: float = 0.0,
        attention_bias: bool = False,
        kernel_init: str = "glorot",
        query_key_init: str = "independent",
        relative_bias: int = 0,
        relative_self_bias: float = 0.0,
        head_size: int = 0,
        qk_norm: bool = False,
        qk_bias: bool = False,
        relative_slope: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        if not head_size and hidden_size < num_heads:
            raise UserError(
                f"hidden_size={hidden_size} is less than num_heads={num_heads}: change one of them,"
                " or set head_size."
            )
        self.hidden_size = hidden_size
        self.num_heads = num_heads
        self.head_size = head_size or hidden_size // num_heads
        self.inner_size = num_heads * self.head_size
        self.attention_bias = attention_bias
        self.kernel_init = kernel_init
        self.query_key_init = query_key_init
        self.relative_bias = relative_bias
        self.relative_self_bias = relative_self_bias
        self.relative_slope = relative_slope
        self.qk_norm = qk_norm
        self.qk_bias = qk_bias
        if qk_norm:
            for name in ("query_norm", "key_norm"):
                setattr(self, name, RMSNorm(name=name, dtype=self.dtype_policy))
        self.dropout = Dropout(attention_dropout, name="dropout", dtype=self.dtype_policy)
        self.output_transform = Linear(
            hidden_size, attention_bias, kernel_init, name="output", dtype=self.dtype_policy
        )

    def build(self, input_shape: Any) -> None:
        width = input_shape[-1]
        for name in ("query", "key", "value"):
            initializer = kernel_initializer(self.kernel_init)
            if name == "key" and self.query_key_init == "equal":
                initializer = _copy_of(self.query_kernel)
            kernel = self.add_weight(
                shape=(width, self.inner_size),
                initializer=initializer,
                name=f"{name}_kernel",
                autocast=False,
            )
            setattr(self, f"{name}_kernel", kernel)
            if name in self._biased:
                bias = self.add_weight(
                    shape=(self.inner_size,),
                    initializer="zeros",
                    name=f"{name}_bias",
                    autocast=False,
                )
                setattr(self, f"{name}_bias", bias)
        if self.qk_norm:
            self.query_norm.build((self.head_size,))
            self.key_norm.build((self.head_size,))
        self.relative_table = None
        if self.relative_bias:
            shape = (2 * self.relative_bias + 1, self.num_heads)
            initializer = _relative_bias_init(
                self.relative_bias, self.relative_self_bias, self.relative_slope
            )
            self.relative_table = self.add_weight(
                shape=shape, initializer=initializer, name="relative_table", autocast=False
            )
        self.output_transform.build((*input_shape[:-1], self.inner_size))

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
        value_shift: Any = None,
        active: ActivePositions | None = None,
    ) -> tuple[Any, Any]:
        active = None if active is None else ActivePositions(*active)
        x = tf.cast(x, self.compute_dtype)
        kernel, offset = self._projection(
            ("query", "key", "value") if keys is None else ("query",), x.dtype
        )
        projected = tf.matmul(flatten(x), kernel)
        projected = unflatten(projected if offset is None else projected + offset, x)
        if keys is None:
            queries, keys, values = self._heads(projected, 3)
            keys = self._normal_keys(keys)
            keys = keys if rotation is None else rotate(keys, rotation)
        elif active is None:
            (queries,) = self._heads(projected, 1)
        else:
            queries = active.spread(projected, self.num_heads)
        if self.relative_table is not None:
            order = tf.range(tf.shape(keys)[2])
            relative = self._relative_bias(order, order)
            bias = relative if bias is None else relative + bias
        if active is not None:
            bias, logit_scale = active.of_queries(bias), active.of_queries(logit_scale)
            if rotation is not None:
                rotation = (active.of_queries(rotation[0]), active.of_queries(rotation[1]))
        queries = self._normal_queries(queries)
        queries = queries if rotation is None else rotate(queries, rotation)
        weights = attention_weights(queries, keys, bias, logit_scale)
        kept = self.dropout.drop(tf.cast(weights, values.dtype), training)
        mixed = batch_matmul(kept, values)
        if value_shift is not None:
            mixed += value_shift * (tf.reduce_sum(kept, -1, keepdims=True) if training else 1.0)
        mixed = _without_heads(mixed) if active is None else active.collect(mixed)
        output = self.output_transform(
            mixed, input_scale=self.dropout.scale(training), output_scale=output_scale
        )
        return output, weights

    def keys_values(self, states: Any, rotation: tuple[Any, Any] | None = None) -> tuple[Any, Any]:
        """Returns keys and values, each [batch, num_heads, keys, head_size], of states [batch,
        keys, hidden_size].
        """
        states = tf.cast(states, self.compute_dtype)
        kernel, offset = self._projection(("key", "value"), states.dtype)
        projected = tf.matmul(flatten(states), kernel)
        projected = projected if offset is None else projected + offset
        keys, values = self._heads(unflatten(projected, states), 2)
        keys = self._normal_keys(keys)
        return (keys if rotation is None else rotate(keys, rotation)), values

    def key_value_weights(self) -> dict[str, dict[str, Any]]:
        """The weights of ``key_value_rows``, read and cast once for all steps."""
        names = ("key", "value")
        kernels, biases = self._projections(names, self.compute_dtype)
        weights = {name: {"kernel": kernel} for name, kernel in zip(names, kernels, strict=True)}
        for name, bias in zip(names, biases, strict=False):
            weights[name]["bias"] = bias
        return weights

    def key_value_rows(
        self, states: Any, weights: dict[str, dict[str, Any]], with_bias: bool = False
    ) -> tuple[Any, Any]:
        """Keys and values, without rotation, of states [rows, hidden_size]: [rows, num_heads,
        head_size] each; weights from ``key_value_weights``.
        """
        names = ("kernel", "bias") if with_bias else ("kernel",)
        keys, values = (
            tf.reshape(
                affine(states, {name: own[name] for name in names if name in own}),
                [-1, self.num_heads, self.head_size],
            )
            for own in (weights["key"], weights["value"])
        )
        return keys, values

    def _projection(self, names: tuple[str, ...], dtype: Any) -> tuple[Any, Any]:
        """Returns the kernels of the named projections side by side, so that they make one product,
        and their biases, or None.
        """
        kernels, biases = self._projections(names, dtype)
        kernel = kernels[0] if len(kernels) == 1 else tf.concat(kernels, 1)
        return kernel, tf.concat(biases, 0) if biases else None

    def _heads(self, projected: Any, count: int) -> list[Any]:
        """`count` of [batch, num_heads, length, head_size], of [batch, length, count * num_heads *
        head_size].
        """
        heads = tf.reshape(
            projected, [*leading_sizes(projected, 2), count, self.num_heads, self.head_size]
        )
        return list(tf.unstack(tf.transpose(heads, [2, 0, 3, 1, 4]), count))

    @property
    def _biased(self) -> tuple[str, ...]:
        """The projections that have a bias, besides the output's."""
        if self.attention_bias:
            return ("query", "key", "value")
        return ("query", "key") if self.qk_bias else ()

    def _projections(self, names: tuple[str, ...], dtype: Any) -> tuple[list[Any], list[Any]]:
        """The kernels and biases (none without attention_bias and qk_bias) of these projections,
        queries' times head_size^-0.5 unless a norm follows.
        """
        # The kernels are smaller than what they make, so they are scaled.
        scale = 1.0 if self.qk_norm else self.head_size**-0.5
        scales = [scale if name == "query" else 1.0 for name in names]
        kernels = [
            scaled(getattr(self, f"{name}_kernel"), scale, dtype)
            for name, scale in zip(names, scales, strict=True)
        ]
        if not self._biased:
            return kernels, []
        return kernels, [
            scaled(getattr(self, f"{name}_bias"), scale, dtype)
            if name in self._biased
            else tf.zeros([self.inner_size], dtype)
            for name, scale in zip(names, scales, strict=True)
        ]

    def _relative_bias(self, queries: Any, keys: Any, table: Any = None) -> Any:
        """Returns float32 [1, num_heads, queries, keys] for int32 positions [queries] and [keys],
        from the layer's own table or a copy.
        """
        table = self.relative_table if table is None else table
        reach = self.relative_bias
        distance = tf.clip_by_value(keys[None, :] - queries[:, None], -reach, reach) + reach
        # A product with one-hot rows: its gradient is a product too, where a gather's is a slow
        # scatter of queries * keys rows.
        one_hot = tf.one_hot(tf.reshape(distance, [-1]), 2 * reach + 1)
        biases = tf.matmul(table, one_hot, transpose_a=True, transpose_b=True)
        return tf.reshape(biases, tf.concat([[1, self.num_heads], tf.shape(distance)], 0))
