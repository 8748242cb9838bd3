"""Hops over a memory of facts: the repeated layer of an end-to-end memory network (Sukhbaatar et
al., arXiv 1503.08895).

A row of J words becomes a vector by position encoding, with j its word, k the vector's channel and
d its size:

    s = Σ_j l_j * E x_j,    l_kj = (1 - j/J) - (k/d) (1 - 2j/J)

``MemoryHops`` says how the hops read such vectors.
"""

from typing import Any, Literal

import keras
import tensorflow as tf

from ut_tf.layers.dropout import replica_seed
from ut_tf.layers.embedding import embedding_stddev
from ut_tf.layers.fact_embedding import row_mask
from ut_tf.layers.linear import Linear
from ut_tf.layers.single_head_attention import padding_scores


def position_encoding(present: Any, size: int) -> Any:
    """The weights l, float32 [..., words, size], of words.

    Args:
      present: float32 [..., words], 1 for words and 0 for the padding behind them.
      size: d.
    """
    count = tf.maximum(tf.reduce_sum(present, -1, keepdims=True), 1.0)
    order = tf.range(1.0, tf.cast(tf.shape(present)[-1], tf.float32) + 1.0) / count
    channels = tf.range(1.0, size + 1.0) / size
    weights = (1.0 - order)[..., None] - channels * (1.0 - 2.0 * order)[..., None]
    return weights * present[..., None]


@keras.saving.register_keras_serializable("ut_tf")
class MemoryHops(keras.layers.Layer):  # type: ignore[misc]
    """Embeds facts and a question, and reads the facts hop by hop.

    Fact i becomes an input memory m_i = s_A(i) + T_A(age of i) and an output memory c_i = s_C(i) +
    T_C(age of i), where T is a learned table whose first row is that of the last fact (temporal
    encoding). The question becomes u = s_B. Each hop then is

        p = softmax(u · m_i);   o = Σ_i p_i c_i;   u' = u + o  (adjacent)  or  H u + o  (layerwise)

    Adjacent tying: A of the first hop is B, A of hop k + 1 is C of hop k. Layer-wise: all hops
    share A and C, B is another, and H is a linear map.

    A linear start leaves out the softmax, p_i = u · m_i, until ``insert_softmax`` is called. Noise
    on the memory makes facts look older in training: behind each fact an empty one stands with some
    probability, of which only the place counts.

    Args:
      vocab_size: number of word ids, padding (0) included.
      hidden_size: d.
      num_hops, eval_num_hops: hops in training and at evaluation; None: as in training.
      memory_size, eval_memory_size: only so many last facts are read in training and at evaluation;
        0: as in training.
      tying: "adjacent" or "layerwise".
      stddev: of the initial embeddings; None: hidden_size ** -0.5.
      kernel_init: of H, as of ``Linear``.
      linear_start: whether the softmax is left out at first.
      memory_noise: probability of an empty fact behind a fact in training.

    Call arguments:
      ids: int32 [batch, rows, words]; the last row that is not padding is the question.
      training: whether training's or evaluation's hops and facts are read, with noise or without.

    Returns:
      (u after the last hop, [batch, hidden_size]; attention float32 [hops, batch, rows], 0 on all
      rows that are no facts).
    """

    def __init__(
        self,
        vocab_size: int,
        hidden_size: int,
        num_hops: int = 3,
        eval_num_hops: int | None = None,
        memory_size: int = 50,
        eval_memory_size: int = 0,
        tying: Literal["adjacent", "layerwise"] = "adjacent",
        stddev: float | None = None,
        kernel_init: str = "glorot",
        linear_start: bool = False,
        memory_noise: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hops = num_hops
        self.eval_num_hops = num_hops if eval_num_hops is None else eval_num_hops
        self.memory_size = memory_size
        self.eval_memory_size = eval_memory_size or memory_size
        self.stddev = embedding_stddev(hidden_size, stddev)
        self.linear_start = linear_start
        self.memory_noise = memory_noise
        self.seed_generator = keras.random.SeedGenerator() if memory_noise > 0 else None
        self.joint: Linear | None = None
        if tying == "layerwise":
            self.joint = Linear(
                hidden_size, False, kernel_init, name="joint", dtype=self.dtype_policy.name
            )

    def build(self, input_shape: Any) -> None:
        width = self.hidden_size
        normal = keras.initializers.RandomNormal(stddev=self.stddev)
        # Adjacent: B = A of the first hop, then C of every hop. Layer-wise: A, C, B.
        sides = self.num_hops + 1 if self.joint is None else 3
        self.words = self.add_weight(
            shape=(self.vocab_size, sides, width), initializer=normal, name="words", autocast=False
        )
        shape = (self.memory_size, sides if self.joint is None else 2, width)
        self.ages = self.add_weight(shape=shape, initializer=normal, name="ages", autocast=False)
        if self.joint is not None:
            self.joint.build((None, width))
        # 1 once the softmax has been put in; a weight, so that checkpoints know it.
        self.has_softmax = None
        if self.linear_start:
            self.has_softmax = self.add_weight(
                shape=(), initializer="zeros", trainable=False, name="has_softmax", autocast=False
            )

    def insert_softmax(self) -> None:
        """Ends the linear start."""
        if self.has_softmax is not None:
            self.has_softmax.assign(1.0)

    def call(self, ids: Any, training: bool = False) -> tuple[Any, Any]:
        # Keras traces a saved model with float32 inputs, whatever they were called with.
        ids = tf.cast(ids, tf.int32)
        read, age, question = self._rows(ids, training)
        encoding = tf.cast(
            position_encoding(tf.cast(ids != 0, tf.float32), self.hidden_size), self.compute_dtype
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
        """The number of hops."""
        return self.num_hops if training else self.eval_num_hops

    def mask(self, ids: Any) -> Any:
        """Float32 [batch, rows], 0 on padding."""
        return row_mask(ids)

    def _rows(self, ids: Any, training: bool) -> tuple[Any, Any, Any]:
        """Returns, [batch, rows] each, the rows that are facts and read, their ages (0 for the last
        fact), and the row of the question.
        """
        count = tf.cast(tf.reduce_sum(self.mask(ids), 1, keepdims=True), tf.int32)
        age = count - 2 - tf.range(tf.shape(ids)[1])[None]
        question = age == -1
        if training and self.seed_generator is not None:
            age = self._with_empty_facts(age)
        read = tf.logical_and(
            age >= 0, age < (self.memory_size if training else self.eval_memory_size)
        )
        return (tf.cast(read, tf.float32), tf.clip_by_value(age, 0, self.memory_size - 1), question)

    def _with_empty_facts(self, age: Any) -> Any:
        """Ages int32 [batch, rows] with the empty facts behind each fact counted in; the ages of
        the question and of padding stay below 0.
        """
        assert self.seed_generator is not None
        seed = replica_seed(self.seed_generator.next())
        draws = tf.random.stateless_uniform(tf.shape(age), seed)
        empty = tf.cast(tf.logical_and(draws < self.memory_noise, age >= 0), tf.int32)
        return age + tf.cumsum(empty, 1, reverse=True)

    def _hop(self, state: Any, inputs: Any, outputs: Any, read: Any) -> tuple[Any, Any]:
        """One hop over memories [rows, batch, hidden_size]: (u', attention [batch, rows])."""
        logits = tf.cast(tf.einsum("bd,rbd->br", state, inputs), tf.float32)
        # Without any fact the softmax would be over rows that are none.
        weights = tf.nn.softmax(logits + padding_scores(read)) * read
        if self.has_softmax is not None:
            weights = tf.where(self.has_softmax > 0, weights, logits * read)
        mean = tf.einsum("br,rbd->bd", tf.cast(weights, outputs.dtype), outputs)
        return (state if self.joint is None else self.joint(state)) + mean, weights
