"""Attention of an LSTM decoder over an encoder's states, by one score per pair of positions.

Of a query q and an encoder's state s the score is

- Luong's: qᵀ W s, the "general" score of arXiv 1508.04025, equation 8;
- Bahdanau's: vᵀ tanh(W q + U s), arXiv 1409.0473, appendix A.1.2.

W s and U s are the keys, computed once. The weights are the scores' softmax over the positions that
are not padding; the context is the sum of the states so weighted. Neither is dropped, as in both
papers.
"""

from typing import Any

import keras
import tensorflow as tf

from ut_tf.layers.linear import Linear, matmul
from ut_tf.layers.single_head_attention import attend, padding_scores


@keras.saving.register_keras_serializable("ut_tf")
class LuongAttention(keras.layers.Layer):  # type: ignore[misc]
    """Attention by the score qᵀ W s.

    Args:
      hidden_size: of queries and states.
      kernel_init: as of ``Linear``.

    Call arguments:
      queries: [batch, n, hidden_size].
      states: [batch, length, hidden_size], an encoder's.
      padding_mask: float32 [batch, length], 0 on padding.

    Returns:
      (contexts [batch, n, hidden_size], weights float32 [batch, n, length]).
    """

    def __init__(self, hidden_size: int, kernel_init: str = "glorot", **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.hidden_size = hidden_size
        policy = self.dtype_policy.name
        self.key = Linear(hidden_size, False, kernel_init, name="key", dtype=policy)

    def build(self, query_shape: Any, *_: Any) -> None:
        self.key.build((None, None, self.hidden_size))
        self.built = True

    def call(self, queries: Any, states: Any, padding_mask: Any) -> tuple[Any, Any]:
        return self.attend(queries, self.read(states, padding_mask), self.prepare())

    def read(self, states: Any, padding_mask: Any) -> dict[str, Any]:
        """Keys, values and bias of an encoder's states [batch, length, hidden_size]."""
        values = tf.cast(states, self.compute_dtype)
        return {"keys": self.key(values), "values": values, "bias": padding_scores(padding_mask)}

    def prepare(self) -> dict[str, Any]:
        """The weights for ``attend``."""
        return {}

    def attend(
        self, queries: Any, memory: dict[str, Any], weights: dict[str, Any]
    ) -> tuple[Any, Any]:
        """Returns contexts and weights as the call does, from the result of ``read``."""
        queries = tf.cast(queries, memory["keys"].dtype)
        return attend(self.scores(queries, memory["keys"], weights), memory)

    def scores(self, queries: Any, keys: Any, weights: dict[str, Any]) -> Any:
        """The scores [batch, n, length] of queries [batch, n, hidden_size] and keys."""
        return tf.matmul(queries, keys, transpose_b=True)


@keras.saving.register_keras_serializable("ut_tf")
class BahdanauAttention(LuongAttention):
    """Attention by the score vᵀ tanh(W q + U s); arguments are those of ``LuongAttention``."""

    def __init__(self, hidden_size: int, kernel_init: str = "glorot", **kwargs: Any) -> None:
        super().__init__(hidden_size, kernel_init, **kwargs)
        policy = self.dtype_policy.name
        self.query = Linear(hidden_size, False, kernel_init, name="query", dtype=policy)

    def build(self, query_shape: Any, *_: Any) -> None:
        super().build(query_shape)
        self.query.build((None, None, self.hidden_size))
        self.score = self.add_weight(
            shape=(self.hidden_size,),
            initializer=keras.initializers.RandomNormal(stddev=self.hidden_size**-0.5),
            name="score",
            autocast=False,
        )

    def prepare(self) -> dict[str, Any]:
        return {"query": self.query.prepare(), "score": tf.cast(self.score, self.compute_dtype)}

    def scores(self, queries: Any, keys: Any, weights: dict[str, Any]) -> Any:
        queries = matmul(queries, weights["query"]["kernel"])
        compared = tf.tanh(queries[:, :, None] + keys[:, None])
        return tf.reduce_sum(compared * weights["score"], -1)
