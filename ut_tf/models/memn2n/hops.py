"""Hops over a memory of facts: what an end-to-end memory network (Sukhbaatar et al., arXiv
1503.08895) repeats.

How it is used::

    hops = MemoryHops(vocab_size, NetworkConfig(hidden_size=50, num_steps=3, memory_size=50))
    # int32 [batch, rows, words] -> [batch, 50], float32 [3, batch, rows]
    state, attention = hops(ids)

How it works: a row of J words becomes a vector by position encoding, with j its word, k the
vector's channel and d its size:

    s = Σ_j l_j * E x_j,    l_kj = (1 - j/J) - (k/d) (1 - 2j/J)

Fact i becomes an input memory m_i = s_A(i) + T_A(age of i) and an output memory c_i = s_C(i) +
T_C(age of i), where T is a learned table whose first row is that of the last fact (temporal
encoding). The question becomes u = s_B. Each hop then is

    p = softmax(u · m_i);    o = Σ_i p_i c_i;    u' = u + o  (adjacent)  or  H u + o  (layerwise)

Adjacent tying: A of the first hop is B, A of hop k + 1 is C of hop k. Layer-wise: all hops share A
and C, B is another, and H is a linear map. Only the last memory_size facts are read. Not here: the
paper's linear start (no softmax at first) and its random noise (empty facts among those of the
training data).
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ut_tf.config.network import NetworkConfig
from ut_tf.layers.cache import MASKED
from ut_tf.layers.linear import Linear
from ut_tf.models.memory_transformer.memory import memory_size


def position_encoding(present: Any, size: int) -> Any:
    """Returns l, float32 [..., words, size], for float32 [..., words] that is 1 for words and 0 for
    the padding behind them.
    """
    count = tf.maximum(tf.reduce_sum(present, -1, keepdims=True), 1.0)
    order = tf.range(1.0, tf.cast(tf.shape(present)[-1], tf.float32) + 1.0) / count
    channels = tf.range(1.0, size + 1.0) / size
    weights = (1.0 - order)[..., None] - channels * (1.0 - 2.0 * order)[..., None]
    return weights * present[..., None]


@keras.saving.register_keras_serializable("ut_tf")
class MemoryHops(keras.layers.Layer):  # type: ignore[misc]
    """Embeds facts and a question, and reads the facts hop by hop.

    Args:
      vocab_size: word ids, padding (0) included.
      network: its hidden_size, num_steps, eval_num_steps (hops), memory_size, eval_memory_size,
        hop_tying, embedding_stddev and kernel_init are used.

    Call arguments:
      ids: int32 [batch, rows, words]; the last row that is not padding is the question.
      training: which of the training's and the evaluation's number of hops and facts holds.

    Returns:
      (u after the last hop, [batch, hidden_size]; attention float32 [hops, batch, rows], 0 on all
      rows that are no facts).
    """

    def __init__(self, vocab_size: int, network: NetworkConfig, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.vocab_size = vocab_size
        self.network = network
        self.joint: Linear | None = None
        if network.hop_tying == "layerwise":
            self.joint = Linear(
                network.hidden_size,
                False,
                network.kernel_init,
                name="joint",
                dtype=self.dtype_policy,
            )

    def build(self, input_shape: Any) -> None:
        del input_shape
        network, width = self.network, self.network.hidden_size
        normal = keras.initializers.RandomNormal(
            stddev=width**-0.5 if network.embedding_stddev is None else network.embedding_stddev
        )
        # Adjacent: B = A of the first hop, then C of every hop. Layer-wise: A, C, B.
        sides = network.num_steps + 1 if self.joint is None else 3
        self.words = self.add_weight(
            shape=(self.vocab_size, sides, width), initializer=normal, name="words", autocast=False
        )
        shape = (network.memory_size, sides if self.joint is None else 2, width)
        self.ages = self.add_weight(shape=shape, initializer=normal, name="ages", autocast=False)
        if self.joint is not None:
            self.joint.build((None, width))

    def call(self, ids: Any, training: bool = False) -> tuple[Any, Any]:
        # Keras traces a saved model with float32 inputs, whatever they were called with.
        ids = tf.cast(ids, tf.int32)
        read, age, question = self._rows(ids, training)
        encoding = tf.cast(
            position_encoding(tf.cast(ids != 0, tf.float32), self.network.hidden_size),
            self.compute_dtype,
        )
        words = tf.gather(tf.cast(self.words, self.compute_dtype), ids)
        rows = tf.einsum("brwsd,brwd->srbd", words, encoding)
        ages = tf.transpose(tf.gather(tf.cast(self.ages, self.compute_dtype), age), [2, 1, 0, 3])
        state = tf.einsum(
            "rbd,br->bd",
            rows[0 if self.joint is None else 2],
            tf.cast(question, self.compute_dtype),
        )
        memories = rows[: ages.shape[0]] + ages
        attention = []
        for hop in range(self.hops(training)):
            state, weights = self._hop(
                state,
                memories[hop if self.joint is None else 0],
                memories[hop + 1 if self.joint is None else 1],
                read,
            )
            attention.append(weights)
        return state, tf.stack(attention)

    def hops(self, training: bool) -> int:
        """Returns the number of hops."""
        network = self.network
        return (
            network.num_steps
            if training or network.eval_num_steps is None
            else network.eval_num_steps
        )

    def mask(self, ids: Any) -> Any:
        """Returns float32 [batch, rows], 0 on padding."""
        return tf.cast(tf.reduce_any(ids != 0, -1), tf.float32)

    def _rows(self, ids: Any, training: bool) -> tuple[Any, Any, Any]:
        """Returns which rows are facts that are read, their ages (the last fact's is 0), and which
        row is the question: [batch, rows].
        """
        count = tf.cast(tf.reduce_sum(self.mask(ids), 1, keepdims=True), tf.int32)
        age = count - 2 - tf.range(tf.shape(ids)[1])[None]
        read = tf.logical_and(age >= 0, age < memory_size(self.network, training))
        return (
            tf.cast(read, tf.float32),
            tf.clip_by_value(age, 0, self.network.memory_size - 1),
            age == -1,
        )

    def _hop(self, state: Any, inputs: Any, outputs: Any, read: Any) -> tuple[Any, Any]:
        """Returns (u', attention [batch, rows]) of memories [rows, batch, hidden_size]."""
        logits = tf.cast(tf.einsum("bd,rbd->br", state, inputs), tf.float32)
        # Without any fact the softmax would be over rows that are none.
        weights = tf.nn.softmax(logits + MASKED * (1.0 - read)) * read
        found = tf.einsum("br,rbd->bd", tf.cast(weights, outputs.dtype), outputs)
        return (state if self.joint is None else self.joint(state)) + found, weights

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocab_size": self.vocab_size,
            "network": self.network.to_dict(),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> MemoryHops:
        return cls(**{**config, "network": NetworkConfig.from_dict(config["network"])})
