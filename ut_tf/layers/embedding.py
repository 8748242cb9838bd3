"""Embeddings of symbols: ids to states, and states to logits with the same matrix."""

from typing import Any, Literal

import keras
import tensorflow as tf

from ut_tf.layers.dropout import replica_seed
from ut_tf.layers.linear import matmul

Scale = Literal["sqrt", "none"]


def embedding_scale(hidden_size: int, scale: Scale) -> float:
    """The factor of embedded symbols: sqrt(hidden_size) or 1."""
    return hidden_size**0.5 if scale == "sqrt" else 1.0


def embedding_stddev(hidden_size: int, stddev: float | None) -> float:
    """The standard deviation of the initial table; None: hidden_size ** -0.5."""
    return hidden_size**-0.5 if stddev is None else stddev


class WordDropout:
    """Replaces a random share of the ids by padding in training."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.seed_generator = keras.random.SeedGenerator() if rate > 0 else None

    def __call__(self, ids: Any, training: bool) -> Any:
        if not training or self.seed_generator is None:
            return ids
        draws = tf.random.stateless_uniform(tf.shape(ids), replica_seed(self.seed_generator.next()))
        return tf.where(draws < self.rate, tf.zeros_like(ids), ids)


@keras.saving.register_keras_serializable("ut_tf")
class TokenEmbedding(keras.layers.Layer):  # type: ignore[misc]
    """Symbols to states, and states to logits with the same matrix.

    Args:
      vocab_size: number of ids, padding (0) included.
      hidden_size: width of the states.
      scale: "sqrt": states are multiplied by sqrt(hidden_size); "none": they are not.
      stddev: of the initial table; None: hidden_size ** -0.5.
      word_dropout: share of the symbols that training replaces by padding.

    Call arguments:
      ids: int32 [batch, length] -> [batch, length, hidden_size]; padding becomes zeros.
      training: whether symbols are dropped.
    """

    def __init__(
        self,
        vocab_size: int,
        hidden_size: int,
        scale: Scale = "sqrt",
        stddev: float | None = None,
        word_dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.stddev = embedding_stddev(hidden_size, stddev)
        self.factor = embedding_scale(hidden_size, scale)
        self.word_dropout = WordDropout(word_dropout)
        self._seeds = self.word_dropout.seed_generator

    def build(self, input_shape: Any) -> None:
        self.table = self.add_weight(
            shape=(self.vocab_size, self.hidden_size),
            initializer=keras.initializers.RandomNormal(stddev=self.stddev),
            name="table",
            autocast=False,
        )

    def call(self, ids: Any, training: bool = False) -> Any:
        # Keras traces a saved model with float32 inputs, whatever they were called with.
        kept = self.word_dropout(tf.cast(ids, tf.int32), training)
        states = tf.gather(tf.convert_to_tensor(self.table), kept) * self.factor
        return tf.cast(states * tf.cast(kept != 0, tf.float32)[..., None], self.compute_dtype)

    def logits(self, states: Any) -> Any:
        """The product states · tableᵀ: [..., hidden_size] -> float32 [..., vocab_size]."""
        return tf.cast(
            matmul(tf.cast(states, self.compute_dtype), tf.transpose(self.table)), tf.float32
        )

    def prepare(self) -> dict[str, Any]:
        """The matrix for ``step``."""
        return {"table": tf.convert_to_tensor(self.table)}

    def prepare_logits(self) -> dict[str, Any]:
        """The weights with which ``affine`` makes logits of states.

        A product with a kernel that is transposed once takes a third of the time.
        """
        return {"kernel": tf.cast(tf.transpose(self.table), self.compute_dtype)}

    def step(self, symbols: Any, weights: dict[str, Any]) -> Any:
        """Embeds one position: int32 [rows] -> [rows, hidden_size]; padding becomes zeros."""
        states = tf.gather(weights["table"], symbols) * self.factor
        return tf.cast(states * tf.cast(symbols != 0, tf.float32)[:, None], self.compute_dtype)

    def mask(self, ids: Any) -> Any:
        """Float32 [batch, length], 0 on padding."""
        return tf.cast(ids != 0, tf.float32)
