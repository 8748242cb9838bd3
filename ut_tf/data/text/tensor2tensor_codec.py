"""Text as the ids that tensor2tensor's SubwordTextEncoder gives it, and back, in graph.

How it is used::

    codec = Tensor2TensorCodec(Tensor2TensorSubwords(path.read_bytes(), path))
    codec.encode(tf.constant(["Ein Hund läuft."]))["inputs"]   # int32 [1, length], END_ID last
    codec.decode(symbols)                                       # strings [batch]

How it works: texts are divided and escaped as numbers of characters, all texts of a batch at once;
tensorflow-text's WordpieceTokenizer takes the longest subword at each place.
``Tensor2TensorSubwords`` says what is divided where, and does the same outside of graphs.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import tensorflow as tf

from ut_tf.data.text.codec import TextCodec, before_end
from ut_tf.data.text.tensor2tensor_subwords import (
    TOKEN_END,
    Tensor2TensorSubwords,
    alphanumeric_bounds,
    blank_bounds,
)
from ut_tf.data.text.tensorflow_text import tensorflow_text
from ut_tf.symbols import END_ID, PADDING_ID

_ESCAPE = r"\\u|\\\\|\\[0-9]+;"
_NUMBER = r"^\\0*([0-9]{1,7});$"
_BLANK = ord(" ")
_LAST_CODE = 0x10FFFF
# What tensor2tensor writes for a number that is no character's.
_NO_CHARACTER = 0x3013
_LONGEST_WORD = 2**31 - 1


class Tensor2TensorCodec(TextCodec):
    """Subwords of source and target, with tensor2tensor's ids.

    Args:
      subwords: the vocabulary.

    Raises:
      UserError: tensorflow-text is not installed.
    """

    end_token: ClassVar[str] = "</s>"

    def __init__(self, subwords: Tensor2TensorSubwords) -> None:
        super().__init__(name="tensor2tensor_codec")
        self._text = tensorflow_text()
        self._subwords = tf.constant(subwords.subwords)
        self._pieces = _table(
            [ord(character) for character in subwords.pieces], [*subwords.pieces.values()], ""
        )
        self._ids = _table([*subwords.ids], [*subwords.ids.values()], -1)
        self._tokenizer = self._text.WordpieceTokenizer(
            self._ids,
            suffix_indicator="",
            max_bytes_per_word=_LONGEST_WORD,
            max_chars_per_token=subwords.longest,
            unknown_token=None,
        )
        self.vocab_sizes = (subwords.size, subwords.size)

    def encode_targets(self, texts: Any) -> Any:
        """int32 [batch, length]: the subwords of each text (strings [batch]) without the blanks at
        its ends, END_ID, padding.
        """
        tokens, rows = self._tokens(tf.reshape(texts, [-1]))
        ids = self._tokenizer.tokenize(tokens)
        subwords = _rows(
            tf.cast(ids.flat_values, tf.int32),
            tf.gather(rows, ids.value_rowids()),
            tf.size(texts, tf.int64),
        )
        ends = tf.RaggedTensor.from_tensor(tf.fill([tf.size(texts), 1], END_ID))
        return tf.concat([subwords, ends], 1).to_tensor()

    def decode(self, outputs: Any) -> Any:
        """The strings [batch] of symbols int32 [batch, length], up to the first END_ID or padding
        of each row.
        """
        symbols = before_end(outputs)
        written = tf.where(symbols != PADDING_ID, tf.gather(self._subwords, symbols), "")
        return self._joined(tf.strings.reduce_join(written, axis=1))

    def target_tokens(self, symbols: Any) -> Any:
        """The subwords of symbols int32 [batch, length], strings [batch, length]; "</s>" for
        END_ID, "" on padding.
        """
        subwords = tf.gather(self._subwords, symbols)
        subwords = tf.where(tf.equal(symbols, END_ID), self.end_token, subwords)
        return tf.where(tf.equal(symbols, PADDING_ID), "", subwords)

    def input_text(self, tokens: Sequence[str]) -> str:
        """The sentence that the subwords make."""
        subwords = "".join(token for token in tokens if token != self.end_token)
        text: bytes = self._joined(tf.constant([subwords])).numpy()[0]
        return text.decode("utf-8")

    def _tokens(self, texts: Any) -> tuple[Any, Any]:
        """The escaped tokens of all `texts` (strings [batch]), strings [tokens], and the number of
        the text that each is of, int64 [tokens].
        """
        characters = _stripped(tf.strings.unicode_decode(texts, "UTF-8", errors="ignore"))
        codes, rows = characters.flat_values, characters.value_rowids()
        kinds = _inside(alphanumeric_bounds(), codes)
        changes = tf.logical_or(rows[1:] != rows[:-1], kinds[1:] != kinds[:-1])
        outermost = tf.ones_like(kinds[:1])
        starts, ends = tf.concat([outermost, changes], 0), tf.concat([changes, outermost], 0)
        is_between = tf.logical_and(tf.logical_and(starts, ends), tf.equal(codes, _BLANK))
        kept = tf.logical_not(is_between)
        codes, rows, starts, ends = (
            tf.boolean_mask(values, kept) for values in (codes, rows, starts, ends)
        )
        pieces = self._pieces.lookup(tf.cast(codes, tf.int64))
        numbers = tf.strings.join(["\\", tf.strings.as_string(codes), ";"])
        pieces = tf.where(tf.equal(pieces, ""), numbers, pieces)
        pieces = tf.strings.join([pieces, tf.where(ends, TOKEN_END, "")])
        return _strings(pieces, starts), tf.boolean_mask(rows, starts)

    def _joined(self, subwords: Any) -> Any:
        """The texts, strings [batch], that the subwords of each, strings [batch], make."""
        tokens = tf.strings.split(subwords, TOKEN_END)
        tokens = tf.ragged.boolean_mask(tokens, tokens != "")
        rows = tokens.value_rowids()
        parts = self._text.regex_split(tokens.flat_values, _ESCAPE, _ESCAPE)
        plain = tf.strings.reduce_join(
            parts.with_flat_values(_unescaped(parts.flat_values)), axis=1
        )
        characters = tf.strings.unicode_decode(plain, "UTF-8")
        first = tf.gather(characters.flat_values, characters.row_starts())
        is_word = _inside(alphanumeric_bounds(), first)
        between = tf.logical_and(
            tf.logical_and(is_word[1:], is_word[:-1]), tf.equal(rows[1:], rows[:-1])
        )
        blanks = tf.concat([tf.zeros_like(is_word[:1]), between], 0)
        spaced = tf.strings.join([tf.where(blanks, " ", ""), plain])
        return tf.strings.reduce_join(tokens.with_flat_values(spaced), axis=1)


def _stripped(characters: Any) -> Any:
    """The numbers of characters, a RaggedTensor [batch, length], without blanks at the ends of each
    row.
    """
    is_text = tf.logical_not(_inside(blank_bounds(), characters.flat_values))
    before = tf.concat([[0], tf.cumsum(tf.cast(is_text, tf.int32))], 0)
    rows = characters.value_rowids()
    first = tf.gather(tf.gather(before, characters.row_starts()), rows)
    last = tf.gather(tf.gather(before, characters.row_limits()), rows)
    kept = tf.logical_and(before[1:] > first, before[:-1] < last)
    return tf.ragged.boolean_mask(characters, characters.with_flat_values(kept))


def _inside(bounds: Sequence[int], codes: Any) -> Any:
    """Whether each of `codes` (int32 [count]) lies where a range has begun and not ended."""
    return tf.equal(tf.searchsorted(tf.constant(bounds, tf.int32), codes, side="right") % 2, 1)


def _unescaped(parts: Any) -> Any:
    """The strings [count] that parts of tokens stand for: escapes, and all else as it is."""
    is_number = tf.strings.regex_full_match(parts, r"\\[0-9]+;")
    is_short = tf.strings.regex_full_match(parts, _NUMBER)
    digits = tf.where(
        is_short, tf.strings.regex_replace(parts, _NUMBER, r"\1"), f"{_LAST_CODE + 1}"
    )
    code = tf.strings.to_number(digits, tf.int32)
    is_surrogate = tf.logical_and(code >= 0xD800, code <= 0xDFFF)
    is_none = tf.logical_or(code > _LAST_CODE, is_surrogate)
    character = tf.strings.unicode_encode(tf.where(is_none, _NO_CHARACTER, code)[:, None], "UTF-8")
    plain = tf.where(is_number, character, parts)
    return tf.where(
        tf.equal(parts, r"\u"), TOKEN_END, tf.where(tf.equal(parts, r"\\"), "\\", plain)
    )


def _strings(pieces: Any, starts: Any) -> Any:
    """The strings that begin at each of `starts` (bool [count]), made of `pieces` (strings
    [count]).
    """
    counts = tf.cumsum(tf.cast(starts, tf.int64))
    total = tf.reduce_sum(tf.cast(starts, tf.int64))
    return tf.strings.reduce_join(_rows(pieces, counts - 1, total), axis=1)


def _rows(values: Any, rows: Any, count: Any) -> Any:
    return tf.RaggedTensor.from_value_rowids(values, rows, count, validate=False)


def _table(keys: Sequence[Any], values: Sequence[Any], default: Any) -> Any:
    kinds = {str: tf.string, int: tf.int64}
    initializer = tf.lookup.KeyValueTensorInitializer(
        tf.constant(keys, kinds[type(keys[0])]), tf.constant(values, kinds[type(values[0])])
    )
    return tf.lookup.StaticHashTable(initializer, default_value=default)
