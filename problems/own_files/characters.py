"""Questions and answers as characters, with an answer at every position or of any length.

How it is used::

    codec = CharactersCodec(vocab_dir, board=Board(4, 4, 2, 2))
    codec.encode(tf.constant(["13.. .23. .4.. 3..2"]))["inputs"]     # int32 [1, 16]
    codec.decode(outputs)                                            # ["1324 4231 ..."]
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import tensorflow as tf

from ut_tf.data.text.codec import Board, TextCodec, before_end
from ut_tf.data.text.refusals import (
    ASCII_BLANK,
    blank_hint,
    first_of,
    other_characters,
    quoted,
    text_where,
)
from ut_tf.data.text.vocabulary import read_symbols
from ut_tf.problems.algorithmic.codec import symbol_ids
from ut_tf.symbols import FIRST_SYMBOL_ID

CHARACTERS_FILE = "characters.txt"


class CharactersCodec(TextCodec):
    """The text form of ``AlignedFiles`` and ``PairsFiles``: ids are the places of characters in the
    vocabulary, from 2. Blanks in what is read mean nothing unless the vocabulary has one.

    Args:
      vocab_dir: holds the characters.
      with_end: whether a sequence ends with END_ID; otherwise it is answered at every position.
      board: whose cells inputs are; None: they are none.

    Raises:
      UserError: the vocabulary is missing or empty.
    """

    end_token: ClassVar[str] = TextCodec.end_token

    def __init__(self, vocab_dir: Path, with_end: bool = False, board: Board | None = None) -> None:
        super().__init__(name="characters_codec")
        self.board = board
        self._symbols = "".join(read_symbols(vocab_dir / CHARACTERS_FILE))
        self._with_end = with_end
        self._has_blank = " " in self._symbols
        self.vocab_sizes = (FIRST_SYMBOL_ID + len(self._symbols),) * 2
        # By id; padding is written as nothing.
        self.written = tf.constant(["", self.end_token if with_end else "", *self._symbols])

    def encode_targets(self, texts: Any) -> Any:
        """int32 [batch, length] of strings [batch], padded with 0."""
        return symbol_ids(self._plain(texts), self._symbols, with_end=self._with_end)

    def errors(self, *texts: Any) -> Any:
        """Refuses characters that training did not have, and another size of the board."""
        return self.target_errors(texts[0])

    def target_errors(self, texts: Any) -> Any:
        """Refuses characters that training did not have, and another size of the board."""
        plain = self._plain(texts)
        foreign = tf.strings.substr(other_characters(plain, self._symbols), 0, 1, "UTF8_CHAR")
        told = [quoted(texts), " has the character ", quoted(foreign)]
        hint = blank_hint(foreign, self._symbols) if self.board else ""
        unknown = tf.strings.join([*told, ", which training did not have", hint])
        errors = text_where(foreign != "", unknown)
        if self.board is None:
            return errors
        cells = self.board.rows * self.board.columns
        length = tf.strings.length(plain, "UTF8_CHAR")
        size = f": expected {cells}, the cells of a board of {self.board.rows}x{self.board.columns}"
        counted = [quoted(texts), " has ", tf.strings.as_string(length), " characters", size]
        is_wrong = tf.logical_and(length > 0, length != cells)
        return first_of(errors, text_where(is_wrong, tf.strings.join(counted)))

    def decode(self, outputs: Any) -> Any:
        """The strings [batch] of symbols int32 [batch, length], up to the first END_ID or padding;
        of a board with blanks between rows.
        """
        characters = tf.gather(self.written, before_end(outputs))
        if row := self._row:
            is_last = tf.equal(tf.range(1, tf.shape(outputs)[1] + 1) % row, 0)
            characters = tf.where(is_last, tf.strings.join([characters, " "]), characters)
        texts = tf.strings.reduce_join(characters, axis=1)
        return texts if self._has_blank else tf.strings.strip(texts)

    def input_text(self, tokens: Sequence[str]) -> str:
        """The characters; of a board with blanks between rows."""
        cells = [token for token in tokens if token != self.end_token]
        size = self._row or max(len(cells), 1)
        return " ".join(
            "".join(cells[first : first + size]) for first in range(0, len(cells), size)
        )

    @property
    def _row(self) -> int:
        """Characters after which text has a blank; 0: none, as where blanks are cells."""
        return 0 if self.board is None or self._has_blank else self.board.columns

    def _plain(self, texts: Any) -> Any:
        return texts if self._has_blank else tf.strings.regex_replace(texts, ASCII_BLANK, "")
