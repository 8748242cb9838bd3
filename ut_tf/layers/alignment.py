"""Attention of a decoder over an encoder's states by one score per pair of positions: Luong's and
Bahdanau's.

How it is used::

    alignment = Alignment(network)  # network.lstm_attention names the score
    memory = alignment.read(states, keep)  # once: keys, values, and what hides padding
    # queries [batch, n, hidden_size]
    contexts, weights = alignment.attend(queries, memory, alignment.prepare())

How it works: of a query q and an encoder's state s the score is

- luong: qᵀ W s, the "general" score of arXiv 1508.04025, equation 8;
- bahdanau: vᵀ tanh(W q + U s), arXiv 1409.0473, appendix A.1.2.

W s and U s are the keys, computed once. The weights are the scores' softmax over the positions that
are not padding, the context is the states' sum so weighted. Neither is dropped, as in both papers.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ut_tf.config.network import NetworkConfig
from ut_tf.layers.cache import MASKED
from ut_tf.layers.linear import Linear, matmul


def hidden_padding(keep: Any) -> Any:
    """Returns what is added to the scores: keep float32 [batch, length], 0 on padding -> float32
    [batch, length].
    """
    return MASKED * (1.0 - tf.cast(keep, tf.float32))


def mix(scores: Any, memory: dict[str, Any]) -> tuple[Any, Any]:
    """Returns the values mixed by the scores' softmax.

    Args:
      scores: [batch, n, length].
      memory: "values" [batch, length, width], "bias" from ``hidden_padding``.

    Returns:
      (contexts [batch, n, width] in the values' dtype, weights float32 [batch, n, length]).
    """
    weights = tf.nn.softmax(tf.cast(scores, tf.float32) + memory["bias"][:, None])
    return tf.matmul(tf.cast(weights, memory["values"].dtype), memory["values"]), weights


@keras.saving.register_keras_serializable("ut_tf")
class Alignment(keras.layers.Layer):  # type: ignore[misc]
    """Attention of queries over an encoder's states, by the score of network.lstm_attention.

    Args:
      network: its hidden_size, kernel_init and lstm_attention ("luong" or "bahdanau") are used.

    Call arguments:
      queries: [batch, n, hidden_size].
      states: [batch, length, hidden_size], an encoder's.
      keep: float32 [batch, length], 0 on padding.

    Returns:
      (contexts [batch, n, hidden_size], weights float32 [batch, n, length]).
    """

    def __init__(self, network: NetworkConfig, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.network = network
        self.additive = network.lstm_attention == "bahdanau"
        self.key = self._projection("key")
        self.query = self._projection("query") if self.additive else None

    def build(self, query_shape: Any, *_: Any) -> None:
        del query_shape
        width = self.network.hidden_size
        self.key.build((None, None, width))
        if self.query is not None:
            self.query.build((None, None, width))
            initializer = keras.initializers.RandomNormal(stddev=width**-0.5)
            self.score = self.add_weight(
                shape=(width,), initializer=initializer, name="score", autocast=False
            )
        self.built = True

    def call(self, queries: Any, states: Any, keep: Any) -> tuple[Any, Any]:
        return self.attend(queries, self.read(states, keep), self.prepare())

    def read(self, states: Any, keep: Any) -> dict[str, Any]:
        """Returns what ``attend`` reads of an encoder's states [batch, length, hidden_size]:
        "keys", "values" and "bias".
        """
        values = tf.cast(states, self.compute_dtype)
        return {"keys": self.key(values), "values": values, "bias": hidden_padding(keep)}

    def prepare(self) -> dict[str, Any]:
        """Returns the weights for ``attend``."""
        if self.query is None:
            return {}
        return {"query": self.query.prepare(), "score": tf.cast(self.score, self.compute_dtype)}

    def attend(
        self, queries: Any, memory: dict[str, Any], weights: dict[str, Any]
    ) -> tuple[Any, Any]:
        """Returns what the call returns, of ``read``'s memory."""
        keys = memory["keys"]
        if self.query is None:
            return mix(tf.matmul(tf.cast(queries, keys.dtype), keys, transpose_b=True), memory)
        asked = matmul(tf.cast(queries, keys.dtype), weights["query"]["kernel"])
        compared = tf.tanh(asked[:, :, None] + keys[:, None])
        return mix(tf.reduce_sum(compared * weights["score"], -1), memory)

    def _projection(self, name: str) -> Linear:
        return Linear(
            self.network.hidden_size,
            False,
            self.network.kernel_init,
            name=name,
            dtype=self.dtype_policy,
        )

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "network": self.network.to_dict()}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Alignment:
        return cls(**{**config, "network": NetworkConfig.from_dict(config["network"])})
