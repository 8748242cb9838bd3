"""Embedders: symbols, and bAbI's facts as masked sums of words; both give states and a mask of what
is not padding.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ut_tf.config.network import NetworkConfig
from ut_tf.layers.dropout import replica_seed
from ut_tf.layers.linear import matmul


def _table(layer: Any, network: NetworkConfig, rows: int) -> Any:
    normal = keras.initializers.RandomNormal(stddev=_stddev(network))
    return layer.add_weight(
        shape=(rows, network.hidden_size), initializer=normal, name="table", autocast=False
    )


def _stddev(network: NetworkConfig) -> float:
    return (
        network.hidden_size**-0.5 if network.embedding_stddev is None else network.embedding_stddev
    )


def _scale(network: NetworkConfig) -> float:
    return network.hidden_size**0.5 if network.embedding_scale == "sqrt" else 1.0


class _WordDropout:
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
      vocab_size: ids, padding (0) included.
      network: its hidden_size, embedding_scale, embedding_stddev and word_dropout are used.

    Call arguments:
      ids: int32 [batch, length] -> [batch, length, hidden_size]; padding becomes zeros.
      training: whether symbols are dropped.
    """

    def __init__(self, vocab_size: int, network: NetworkConfig, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.vocab_size = vocab_size
        self.network = network
        self.word_dropout = _WordDropout(network.word_dropout)
        self._seeds = self.word_dropout.seed_generator

    def build(self, input_shape: Any) -> None:
        del input_shape
        self.table = _table(self, self.network, self.vocab_size)

    def call(self, ids: Any, training: bool = False) -> Any:
        # Keras traces a saved model with float32 inputs, whatever they were called with.
        ids = tf.cast(ids, tf.int32)
        kept = self.word_dropout(ids, training)
        states = tf.gather(tf.convert_to_tensor(self.table), kept) * _scale(self.network)
        return tf.cast(states * tf.cast(kept != 0, tf.float32)[..., None], self.compute_dtype)

    def logits(self, states: Any) -> Any:
        """Returns states · tableᵀ: [..., hidden_size] -> float32 [..., vocab_size]."""
        return tf.cast(
            matmul(tf.cast(states, self.compute_dtype), tf.transpose(self.table)), tf.float32
        )

    def prepare(self) -> dict[str, Any]:
        """Returns the matrix for ``step``."""
        return {"table": tf.convert_to_tensor(self.table)}

    def prepare_logits(self) -> dict[str, Any]:
        """Returns the weights with which ``affine`` makes logits of states; turned once, a product
        with them takes a third of the time.
        """
        return {"kernel": tf.cast(tf.transpose(self.table), self.compute_dtype)}

    def step(self, symbols: Any, weights: dict[str, Any]) -> Any:
        """Returns the embedded symbols: int32 [rows] -> [rows, hidden_size]; padding
        becomes zeros.
        """
        states = tf.gather(weights["table"], symbols) * _scale(self.network)
        return tf.cast(states * tf.cast(symbols != 0, tf.float32)[:, None], self.compute_dtype)

    def mask(self, ids: Any) -> Any:
        """Returns float32 [batch, length], 0 on padding."""
        return tf.cast(ids != 0, tf.float32)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocab_size": self.vocab_size,
            "network": self.network.to_dict(),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> TokenEmbedding:
        return cls(**{**config, "network": NetworkConfig.from_dict(config["network"])})


@keras.saving.register_keras_serializable("ut_tf")
class TargetStart(keras.layers.Layer):  # type: ignore[misc]
    """A learned vector in the place of a decoder's first input, which has no symbol before it.

    Without it, and without an added position, the first position's state is zero in every block of
    a language model, and each layer norm of zeros multiplies its gradient by 1 / sqrt(norm_epsilon)
    = 1000.

    Args:
      network: its hidden_size, embedding_scale and embedding_stddev are used: the vector starts out
        as large as an embedded symbol.

    Call arguments:
      states: [batch, length, hidden_size], embedded targets shifted right, zero at the first
        position.
    """

    def __init__(self, network: NetworkConfig, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.network = network

    def build(self, input_shape: Any) -> None:
        del input_shape
        initializer = keras.initializers.RandomNormal(
            stddev=_stddev(self.network) * _scale(self.network)
        )
        self.vector = self.add_weight(
            shape=(self.network.hidden_size,),
            initializer=initializer,
            name="vector",
            autocast=False,
        )

    def call(self, states: Any) -> Any:
        first = tf.cast(tf.equal(tf.range(tf.shape(states)[1]), 0), states.dtype)
        return states + first[:, None] * tf.cast(self.vector, states.dtype)

    def prepare(self) -> dict[str, Any]:
        """Returns the weights for ``step``."""
        return {"vector": tf.cast(self.vector, self.compute_dtype)}

    def step(self, states: Any, index: Any, weights: dict[str, Any]) -> Any:
        """Returns the decoder's inputs, [rows, hidden_size], at the position `index`, int32 []."""
        return states + tf.cast(tf.equal(index, 0), states.dtype) * weights["vector"]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "network": self.network.to_dict()}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> TargetStart:
        return cls(**{**config, "network": NetworkConfig.from_dict(config["network"])})


@keras.saving.register_keras_serializable("ut_tf")
class FactEmbedding(keras.layers.Layer):  # type: ignore[misc]
    """Facts and a question, each the sum over its words of word embedding times the mask of the
    word's position.

    The masks are learned and multiplicative, one set for facts and one for the question (arXiv
    1807.03819, section 3.1).

    Args:
      vocab_size: word ids, padding (0) included.
      max_words: words per row.
      network: its hidden_size, embedding_scale, embedding_stddev, word_mask_mean, word_mask_stddev
        and word_dropout are used.

    Call arguments:
      ids: int32 [batch, rows, words]; the last row that is not padding is the question. Fewer words
        than max_words are padded, more are cut off.
      training: whether words are dropped.

    Returns:
      [batch, rows, hidden_size].
    """

    def __init__(
        self, vocab_size: int, max_words: int, network: NetworkConfig, **kwargs: Any
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.vocab_size = vocab_size
        self.max_words = max_words
        self.network = network
        self.word_dropout = _WordDropout(network.word_dropout)
        self._seeds = self.word_dropout.seed_generator

    def build(self, input_shape: Any) -> None:
        del input_shape
        network = self.network
        self.table = _table(self, network, self.vocab_size)
        shape = (2, self.max_words, network.hidden_size)
        normal = keras.initializers.RandomNormal(network.word_mask_mean, network.word_mask_stddev)
        self.word_masks = self.add_weight(
            shape=shape, initializer=normal, name="word_masks", autocast=False
        )

    def call(self, ids: Any, training: bool = False) -> Any:
        # Keras traces a saved model with float32 inputs, whatever they were called with.
        ids = self._fitted(tf.cast(ids, tf.int32))
        kept = self.word_dropout(ids, training)
        # Row (kind, position, word) of the masked table is mask[kind, position] * table[word]: one
        # gather serves all.
        words = (
            tf.convert_to_tensor(self.table)
            * tf.cast(tf.range(self.vocab_size) != 0, tf.float32)[:, None]
        )
        masked = tf.reshape(
            self.word_masks[:, :, None, :] * words * _scale(self.network),
            [-1, self.network.hidden_size],
        )
        kind = tf.cast(self.questions(ids), tf.int32)[..., None]
        slots = kind * self.max_words + tf.range(self.max_words)
        states = tf.reduce_sum(tf.gather(masked, slots * self.vocab_size + kept), 2)
        return tf.cast(states, self.compute_dtype)

    def _fitted(self, ids: Any) -> Any:
        """Returns int32 [batch, rows, max_words] of ids [batch, rows, words]."""
        if ids.shape[-1] == self.max_words:
            return ids
        kept = ids[..., : self.max_words]
        return tf.pad(kept, [[0, 0], [0, 0], [0, self.max_words - tf.shape(kept)[-1]]])

    def questions(self, ids: Any) -> Any:
        """Returns bool [batch, rows], true for each example's last row that is not padding."""
        mask = self.mask(ids)
        return (
            tf.cast(tf.range(tf.shape(ids)[1]), tf.float32)[None]
            == tf.reduce_sum(mask, 1, keepdims=True) - 1.0
        )

    def mask(self, ids: Any) -> Any:
        """Returns float32 [batch, rows], 0 on padding."""
        return tf.cast(tf.reduce_any(ids != 0, -1), tf.float32)

    def get_config(self) -> dict[str, Any]:
        own = {
            "vocab_size": self.vocab_size,
            "max_words": self.max_words,
            "network": self.network.to_dict(),
        }
        return {**super().get_config(), **own}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> FactEmbedding:
        return cls(**{**config, "network": NetworkConfig.from_dict(config["network"])})
