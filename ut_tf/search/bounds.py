"""The bounds of every search: the length of outputs, and the symbols allowed at a position.

Example::

    bounds = Bounds.of(features, batch_size, config)
    logits = bounds.allowed(logits, index, prefix)  # -inf for symbols that are not allowed

A prefix, int32 [batch, length] padded with 0, says how each output begins; it counts in lengths and
scores like any other symbols. It is stronger than the rules for ends, not than the longest length:
what a prefix has beyond that is cut off.
"""

import math
from typing import Any, NamedTuple

import tensorflow as tf

from ut_tf.search.config import DecodeConfig
from ut_tf.symbols import END_ID, PADDING_ID


class Bounds(NamedTuple):
    """The lengths of a batch's outputs; the end symbol counts.

    Fields:
      longest: int32 [batch], at least 1.
      shortest: outputs do not end before.
      forced: whether they must end at `shortest`.
    """

    longest: Any
    shortest: int = 0
    forced: bool = False

    @classmethod
    def of(cls, features: dict[str, Any], batch_size: Any, config: DecodeConfig) -> "Bounds":
        """The bounds that `config` sets for outputs of `features`."""
        if config.force_length:
            return cls(tf.fill([batch_size], config.force_length), config.force_length, True)
        if config.max_length:
            return cls(tf.fill([batch_size], config.max_length), config.min_length)
        lengths = _given_lengths(features, batch_size) + config.extra_length
        return cls(tf.maximum(lengths, max(config.min_length, 1)), config.min_length)

    @property
    def positions(self) -> Any:
        """Returns the positions of the longest output, int32 []; 0 if there are no examples."""
        return tf.maximum(tf.reduce_max(self.longest), 0)

    def allowed(self, logits: Any, index: Any, prefix: Any = None) -> Any:
        """The logits with -inf for symbols that are not allowed: padding, an end too early
        or too late, others than the prefix's.

        Args:
          logits: float32 [batch, outputs, vocab].
          index: int32 [], the position, or [batch, outputs, 1], that of each output.
          prefix: int32 [batch, length], or None.
        """
        symbols = tf.range(tf.shape(logits)[2])
        ends = symbols == END_ID
        forbidden = symbols == PADDING_ID
        if self.shortest > 1:
            forbidden |= ends & (index + 1 < self.shortest)
        if self.forced:
            forbidden |= ~ends & (index + 1 >= self.shortest)
        ruled = logits + tf.where(forbidden, -math.inf, 0.0)
        if prefix is None:
            return ruled
        at = tf.range(tf.shape(prefix)[1]) == index
        given = tf.reduce_sum(tf.where(at, prefix[:, None], 0), -1)[:, :, None]
        return tf.where(given == PADDING_ID, ruled, tf.where(symbols == given, logits, -math.inf))


def _given_lengths(features: dict[str, Any], batch_size: Any) -> Any:
    """int32 [batch]: the symbols of each input that are not padding (of facts: the words);
    without inputs those of the prefix.
    """
    given = features.get("inputs", features.get("prefix"))
    if given is None:
        return tf.fill([batch_size], 0)
    return tf.reduce_sum(tf.cast(given != PADDING_ID, tf.int32), list(range(1, given.shape.rank)))
