"""Programs and digit strings as lines of text, one symbol for each character.

How it is used::

    codec = CharacterCodec(zaremba.SYMBOLS)
    codec.encode(tf.constant([r"j=8584\\nprint((j+920))"]))["inputs"]       # one id per character
    codec.decode(tf.constant([[11, 7, 2, 6, 1]]))                           # ["9504"]

The line ends of a program are written ``\\n`` (a backslash and an n). Blanks that are no symbols of
the problem, and those around a text, mean nothing. Other symbols are refused (``errors``).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from ut_tf.data.text.codec import TextCodec, before_end
from ut_tf.data.text.refusals import other_characters, quoted, text_where
from ut_tf.problems.algorithmic.codec import symbol_ids
from ut_tf.symbols import END_ID, FIRST_SYMBOL_ID

_LINE_END = "\n"
_WRITTEN_LINE_END = r"\n"
_BLANK = " "


class CharacterCodec(TextCodec):
    """The text form of problems whose symbols are ASCII characters.

    Args:
      symbols: the characters, in the order of their ids from 2.
      little_endian: the symbols of a target stand from its last character to its first; its text
        is written as ever.
    """

    def __init__(self, symbols: str, little_endian: bool = False) -> None:
        super().__init__(name="character_codec")
        self._symbols = symbols
        self._little_endian = little_endian
        self.target_order = "lowest digit first" if little_endian else ""
        self.vocab_sizes = (FIRST_SYMBOL_ID + len(symbols),) * 2
        # By id; an id that stands for nothing is written as nothing.
        shown = [_WRITTEN_LINE_END if symbol == _LINE_END else symbol for symbol in symbols]
        self.written = tf.constant(["", self.end_token, *shown])

    def encode(self, *texts: Any) -> dict[str, Any]:
        """Returns {"inputs": int32 [batch, length]} of strings [batch], each ended by END_ID and
        padded with 0.
        """
        return {"inputs": self._ids(texts[0])}

    def encode_targets(self, texts: Any) -> Any:
        """Returns int32 [batch, target_length] of strings [batch]: END_ID ends each, 0 pads it."""
        ids = self._ids(texts)
        return _turn(ids, ids > END_ID) if self._little_endian else ids

    def decode(self, outputs: Any) -> Any:
        """Returns strings [batch] of symbols int32 [batch, length], up to END_ID or padding."""
        ids = before_end(outputs)
        ids = _turn(ids, ids > END_ID) if self._little_endian else ids
        return tf.strings.reduce_join(tf.gather(self.written, ids), axis=1)

    def input_text(self, tokens: Sequence[str]) -> str:
        """The characters."""
        return "".join(token for token in tokens if token != self.end_token)

    def errors(self, *texts: Any) -> Any:
        """Refuses a symbol that the problem does not have."""
        return self.target_errors(texts[0])

    def target_errors(self, texts: Any) -> Any:
        """Refuses a symbol that the problem does not have."""
        foreign = other_characters(self._plain(texts), self._symbols)
        symbol = tf.strings.substr(foreign, 0, 1, "UTF8_CHAR")
        told = ["'", symbol, "' in ", quoted(texts), " is no symbol of this problem: expected "]
        return text_where(foreign != "", tf.strings.join([*told, self._shown()]))

    def _ids(self, texts: Any) -> Any:
        return symbol_ids(self._plain(texts), self._symbols)

    def _plain(self, texts: Any) -> Any:
        plain = tf.strings.strip(texts)
        if _LINE_END in self._symbols:
            plain = tf.strings.regex_replace(plain, r"\\n", _LINE_END)
        if _BLANK not in self._symbols:
            plain = tf.strings.regex_replace(plain, r"[ \t]", "")
        return plain

    def _shown(self) -> str:
        plain = "".join(sorted({*self._symbols} - {_LINE_END, _BLANK}))
        others = (", blanks" if _BLANK in self._symbols else "") + (
            r", and \n where a line of it ends" if _LINE_END in self._symbols else ""
        )
        return f"characters of {plain!r}{others}"


def _turn(ids: Any, symbols: Any) -> Any:
    """Reverses the first ids of each row, as many as it has symbols: int32 [batch, length], of
    which bool [batch, length] are symbols.
    """
    return tf.reverse_sequence(ids, tf.math.count_nonzero(symbols, axis=1), seq_axis=1)


def text_rows(
    texts: Sequence[str], symbols: str
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
    """``CharacterCodec.encode``, quickly for many texts: ids uint8 [texts,
    longest], and their lengths int32 [texts].

    Each text consists of `symbols` alone; its end counts in its length.
    """
    table = np.zeros(128, np.uint8)
    table[0] = END_ID
    table[[ord(symbol) for symbol in symbols]] = np.arange(
        FIRST_SYMBOL_ID, FIRST_SYMBOL_ID + len(symbols)
    )
    joined = "\0".join(texts) + "\0"
    lengths = np.fromiter(map(len, texts), np.int32, len(texts)) + np.int32(1)
    rows = np.zeros([len(texts), int(lengths.max())], np.uint8)
    rows[np.arange(rows.shape[1]) < lengths[:, None]] = table[
        np.frombuffer(joined.encode("ascii"), np.uint8)
    ]
    return rows, lengths
