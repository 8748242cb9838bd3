"""The answers to aligned inputs as texts have them: those of the positions that ask for one, in
order.

How it is used::

    asked = Asked(codec, inputs)
    codec.decode(asked.answer(outputs))       # of "01__" the two symbols behind the string
"""

from typing import Any

import tensorflow as tf

from ut_tf.data.text.codec import TextCodec
from ut_tf.layers.symbols_first import SymbolsFirst
from ut_tf.symbols import PADDING_ID


class Asked:
    """The positions of a batch that ask for an answer.

    Args:
      codec: text form of the problem.
      inputs: int32 [batch, length].
    """

    def __init__(self, codec: TextCodec, inputs: Any) -> None:
        self._end = codec.answer_end
        self._order = SymbolsFirst(codec.asked(inputs))
        self.count = tf.math.count_nonzero(self._order.mask, 1, dtype=tf.int32)
        """How many there are, int32 [batch]."""

    def first(self, values: Any) -> Any:
        """Values [batch, length, ...] with those of these positions first."""
        return self._order.packed(tf.convert_to_tensor(values))

    def answered(self, symbols: Any) -> Any:
        """Whether each of the symbols int32 [batch, length], the asked ones ``first``, belongs to
        an answer, bool [batch, length].
        """
        is_asked = tf.sequence_mask(self.count, tf.shape(symbols)[1])
        if not self._end:
            return is_asked
        goes_on = tf.cast(symbols != self._end, tf.int32)
        return is_asked & (tf.math.cumprod(goes_on, 1, exclusive=True) > 0)

    def answer(self, symbols: Any) -> Any:
        """The answers' symbols, int32 [batch, length] with padding behind, of those of all
        positions.
        """
        first = self.first(symbols)
        return tf.where(self.answered(first), first, PADDING_ID)

    def fits(self, targets: Any) -> Any:
        """Whether targets, int32 [batch, target_length] as texts have them, are as long as an
        answer may be, bool [batch].
        """
        length = tf.math.count_nonzero(targets, 1, dtype=tf.int32)
        is_shorter = (length > 0) & (length < self.count)
        return (length == self.count) | (is_shorter if self._end else False)
