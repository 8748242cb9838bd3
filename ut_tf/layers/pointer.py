"""A head that answers with a word of the inputs: attention over their positions, summed over equal
words.

The state of an example's last position is the query. Its scaled products with the states of the
context are softmax-normalised, and the probability of a word is the sum over its positions (the
attention sum of arXiv 1603.01547, by which arXiv 1610.08431 reads LAMBADA). The logits are the
logarithms of these sums, so that losses and metrics of classes hold as they are. A word that the
context lacks has the probability 1e-9.
"""

from typing import Any

import keras
import tensorflow as tf

from ut_tf.layers.linear import Linear
from ut_tf.symbols import END_ID, PADDING_ID

_ABSENT = 1e-9
_MASKED = -1e9


@keras.saving.register_keras_serializable("ut_tf")
class WordPointer(keras.layers.Layer):  # type: ignore[misc]
    """Probabilities of the words in a context.

    Args:
      hidden_size: of the states.
      vocab_size: number of word ids.
      kernel_init: as of ``Linear``.

    Call arguments:
      states: [batch, length, hidden_size].
      ids: int32 [batch, length], the words; those before an example's first END_ID are its context.
      mask: float32 [batch, length], 0 on padding; the last position that counts is the query.

    Returns:
      float32 [batch, vocab_size], logarithms of probabilities.
    """

    def __init__(
        self, hidden_size: int, vocab_size: int, kernel_init: str = "glorot", **kwargs: Any
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.hidden_size = hidden_size
        self.vocab_size = vocab_size
        policy = self.dtype_policy.name
        self.query = Linear(hidden_size, False, kernel_init, name="query", dtype=policy)
        self.key = Linear(hidden_size, False, kernel_init, name="key", dtype=policy)

    def build(self, shape: Any, *_: Any) -> None:
        self.query.build(shape)
        self.key.build(shape)
        self.built = True

    def call(self, states: Any, ids: Any, mask: Any) -> Any:
        ids = tf.cast(ids, tf.int32)
        last = tf.cast(tf.maximum(tf.reduce_sum(mask, 1) - 1.0, 0.0), tf.int32)
        query = tf.cast(self.query(tf.gather(states, last, batch_dims=1)), tf.float32)
        scores = (
            tf.einsum("bh,blh->bl", query, tf.cast(self.key(states), tf.float32))
            * self.hidden_size**-0.5
        )
        before_end = tf.equal(tf.cumsum(tf.cast(tf.equal(ids, END_ID), tf.int32), axis=1), 0)
        context = tf.cast(before_end & tf.not_equal(ids, PADDING_ID), tf.float32)
        probabilities = tf.nn.softmax(scores + (1.0 - context) * _MASKED, -1) * context
        rows = tf.range(tf.shape(ids)[0])[:, tf.newaxis] * self.vocab_size
        summed = tf.math.unsorted_segment_sum(
            probabilities, rows + ids, tf.shape(ids)[0] * self.vocab_size
        )
        return tf.math.log(tf.reshape(summed, [-1, self.vocab_size]) + _ABSENT)
