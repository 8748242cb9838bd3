"""Digit strings as text: "31415" to be copied or reversed, "12+34" to be added, "46" as the sum.

How it is used::

    codec = DigitCodec("addition", base=10)
    # [[4, 3, 12, 6, 5, 1]]: little-endian, as in training
    codec.encode(tf.constant(["12+34"]))["inputs"]
    codec.decode(tf.constant([[8, 6, 1, 0]]))            # ["46"]

What is no example of the problem is refused (``errors``). White space in ASCII means nothing.
"""

import string
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ut_tf.data.text.codec import TextCodec, append_ends, join_symbols
from ut_tf.data.text.refusals import ASCII_BLANK, character_class, quoted, text_where
from ut_tf.errors import UserError
from ut_tf.symbols import FIRST_SYMBOL_ID

_DIGITS = string.digits + string.ascii_lowercase
_PLUS = "+"
_DECIMAL = 10


class DigitCodec(TextCodec):
    """The text form of ``Algorithmic``: digits are ids from 2; in addition base + 2 stands between
    the summands.

    Args:
      operation: "copy", "reverse" or "addition".
      base: number of digits: 0..9, then a, b, c ... up to 36.

    Raises:
      UserError: the base has no digits to write it with.
    """

    def __init__(self, operation: str, base: int) -> None:
        super().__init__(name="digit_codec")
        if base > len(_DIGITS):
            raise UserError(
                f"`base`={base}: expected at most {len(_DIGITS)}, beyond which there are no digits"
                " to write numbers with."
            )
        self._digits = _DIGITS[:base]
        self._digit = character_class(self._digits)
        self._adds = operation == "addition"
        self._symbols = self._digits + (_PLUS if self._adds else "")
        self.vocab_sizes = (FIRST_SYMBOL_ID + len(self._symbols),) * 2
        numbers = ("31415926", "2718") if base >= _DECIMAL else ("10010110", "1011")
        self.order = "lowest digit first" if self._adds else ""
        self.sample = _PLUS.join(numbers) if self._adds else numbers[0]
        # By id; an id that stands for nothing is written as nothing.
        self.written = tf.constant(["", self.end_token, *self._symbols])

    def encode(self, *texts: Any) -> dict[str, Any]:
        """Returns {"inputs": int32 [batch, length]} of strings [batch], each ended by END_ID and
        padded with 0.
        """
        plain = _without_blanks(texts[0])
        return {"inputs": self._ids(_turn_summands(plain) if self._adds else plain)}

    def encode_targets(self, texts: Any) -> Any:
        """Returns int32 [batch, target_length] of strings [batch]: END_ID ends each, 0 pads it."""
        plain = _without_blanks(texts)
        return self._ids(_turn(plain) if self._adds else plain)

    def errors(self, *texts: Any) -> Any:
        """Refuses what is no string of digits; in addition, what is no sum of two numbers."""
        if not self._adds:
            return self.target_errors(texts[0])
        sum_of_two = rf"({self._digit}+\{_PLUS}{self._digit}+)?"
        return self._refused(texts[0], sum_of_two, f"two numbers with {_PLUS} between them")

    def target_errors(self, texts: Any) -> Any:
        """Refuses what is no string of digits."""
        return self._refused(texts, f"{self._digit}*", "digits")

    def decode(self, outputs: Any) -> Any:
        """The strings [batch] of symbols int32 [batch, length], up to END_ID or padding."""
        texts = join_symbols(self.written, outputs, "")
        return _turn(texts) if self._adds else texts

    def input_text(self, tokens: Sequence[str]) -> str:
        """The digits, in addition those of each summand in reverse."""
        text = "".join(token for token in tokens if token != self.end_token)
        return _PLUS.join(part[::-1] for part in text.split(_PLUS)) if self._adds else text

    def _refused(self, texts: Any, pattern: str, expected: str) -> Any:
        is_wrong = ~tf.strings.regex_full_match(_without_blanks(texts), pattern)
        told = (
            f" is not what this problem reads: expected {expected}, of the digits"
            f" {self._digits[0]} to {self._digits[-1]}"
        )
        return text_where(is_wrong, tf.strings.join([quoted(texts), told]))

    def _ids(self, plain: Any) -> Any:
        return symbol_ids(plain, self._symbols)


def _without_blanks(texts: Any) -> Any:
    return tf.strings.regex_replace(texts, ASCII_BLANK, "")


def symbol_ids(plain: Any, symbols: str, with_end: bool = True) -> Any:
    """Returns int32 [batch, length] of strings [batch]: the ids of those characters that are
    `symbols`, from 2, the end (`with_end`), and padding.
    """
    characters = tf.strings.unicode_split(plain, "UTF-8")
    ids = characters.with_flat_values(_lookup(characters.flat_values, symbols))
    known = tf.ragged.boolean_mask(ids, ids >= FIRST_SYMBOL_ID)
    return append_ends(known) if with_end else known.to_tensor()


def _lookup(characters: Any, symbols: str) -> Any:
    """Returns the int32 ids of `characters` (strings [count]): FIRST_SYMBOL_ID for the first of
    `symbols`; -1 for all others.
    """
    same = tf.equal(characters[:, tf.newaxis], tf.constant([*symbols])[tf.newaxis])
    ids = FIRST_SYMBOL_ID + tf.argmax(tf.cast(same, tf.int32), 1, output_type=tf.int32)
    return tf.where(tf.reduce_any(same, 1), ids, -1)


def _turn(texts: Any) -> Any:
    """Returns strings of any shape's flat form [batch] with their characters in reverse."""
    characters = tf.strings.unicode_split(texts, "UTF-8")
    return tf.strings.reduce_join(tf.reverse(characters, axis=[1]), axis=1)


def _turn_summands(texts: Any) -> Any:
    """Returns strings [batch] with each summand's digits reversed, without its leading zeros."""
    summands = tf.strings.split(texts, _PLUS)
    plain = tf.strings.regex_replace(summands.flat_values, r"^0+([0-9a-z])", r"\1")
    return tf.strings.reduce_join(summands.with_flat_values(_turn(plain)), axis=1, separator=_PLUS)
