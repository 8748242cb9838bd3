"""Embedding of bAbI's facts: each row of words becomes one state, a masked sum."""

from typing import Any

import keras
import tensorflow as tf

from ut_tf.layers.embedding import Scale, WordDropout, embedding_scale, embedding_stddev


def row_mask(ids: Any) -> Any:
    """Float32 [batch, rows], 0 where a row of ids [batch, rows, words] is padding."""
    return tf.cast(tf.reduce_any(ids != 0, -1), tf.float32)


@keras.saving.register_keras_serializable("ut_tf")
class FactEmbedding(keras.layers.Layer):  # type: ignore[misc]
    """Facts and a question, each the sum over its words of word embedding times the mask of the
    word's position.

    The masks are learned and multiplicative, one set for facts and one for the question (arXiv
    1807.03819, section 3.1).

    Args:
      vocab_size: number of word ids, padding (0) included.
      max_words: words per row.
      hidden_size, scale, stddev, word_dropout: as of ``TokenEmbedding``.
      mask_mean, mask_stddev: of the initial masks.

    Call arguments:
      ids: int32 [batch, rows, words]; the last row that is not padding is the question. Fewer words
        than max_words are padded, more are cut off.
      training: whether words are dropped.

    Returns:
      [batch, rows, hidden_size].
    """

    def __init__(
        self,
        vocab_size: int,
        max_words: int,
        hidden_size: int,
        scale: Scale = "sqrt",
        stddev: float | None = None,
        mask_mean: float = 1.0,
        mask_stddev: float = 0.0,
        word_dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.vocab_size = vocab_size
        self.max_words = max_words
        self.hidden_size = hidden_size
        self.stddev = embedding_stddev(hidden_size, stddev)
        self.factor = embedding_scale(hidden_size, scale)
        self.mask_mean = mask_mean
        self.mask_stddev = mask_stddev
        self.word_dropout = WordDropout(word_dropout)
        self._seeds = self.word_dropout.seed_generator

    def build(self, input_shape: Any) -> None:
        self.table = self.add_weight(
            shape=(self.vocab_size, self.hidden_size),
            initializer=keras.initializers.RandomNormal(stddev=self.stddev),
            name="table",
            autocast=False,
        )
        self.word_masks = self.add_weight(
            shape=(2, self.max_words, self.hidden_size),
            initializer=keras.initializers.RandomNormal(self.mask_mean, self.mask_stddev),
            name="word_masks",
            autocast=False,
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
            self.word_masks[:, :, None, :] * words * self.factor, [-1, self.hidden_size]
        )
        kind = tf.cast(self.questions(ids), tf.int32)[..., None]
        slots = kind * self.max_words + tf.range(self.max_words)
        states = tf.reduce_sum(tf.gather(masked, slots * self.vocab_size + kept), 2)
        return tf.cast(states, self.compute_dtype)

    def _fitted(self, ids: Any) -> Any:
        """Pads or cuts ids [batch, rows, words] to int32 [batch, rows, max_words]."""
        if ids.shape[-1] == self.max_words:
            return ids
        kept = ids[..., : self.max_words]
        return tf.pad(kept, [[0, 0], [0, 0], [0, self.max_words - tf.shape(kept)[-1]]])

    def questions(self, ids: Any) -> Any:
        """Bool [batch, rows], true for each example's last row that is not padding."""
        mask = self.mask(ids)
        return (
            tf.cast(tf.range(tf.shape(ids)[1]), tf.float32)[None]
            == tf.reduce_sum(mask, 1, keepdims=True) - 1.0
        )

    def mask(self, ids: Any) -> Any:
        """Float32 [batch, rows], 0 on padding."""
        return row_mask(ids)
