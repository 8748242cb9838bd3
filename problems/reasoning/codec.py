"""Puzzles as lines of text with an answer at every position: "13.. .23. .4.. 3..2" and "0110".

How it is used::

    codec = SudokuCodec(SudokuSize(2, 2))
    codec.encode(tf.constant(["13.. .23. .4.. 3..2"]))["inputs"]     # int32 [1, 16]
    codec.decode(outputs)                                            # ["1324 4231 ..."]

What is no puzzle, or a Sudoku that contradicts itself, is refused (``errors``).
"""

import string
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

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
from ut_tf.problem_spec import ProblemSpec
from ut_tf.problems.algorithmic.codec import symbol_ids
from ut_tf.problems.reasoning.sudoku_grids import SudokuSize
from ut_tf.symbols import FIRST_SYMBOL_ID, PADDING_ID

BLANK = "."
BITS = "01"
# By the rows and columns of a box.
_SAMPLES = {(2, 2): "1... ..2. .3.. ...4"}


def aligned_spec(symbols: int) -> ProblemSpec:
    """Tokens with aligned targets over one vocabulary: padding, end, and so many symbols."""
    size = FIRST_SYMBOL_ID + symbols
    return ProblemSpec("tokens", "aligned", size, size, shared_vocab=True)


class Places(NamedTuple):
    """The positions at which inputs ask for an answer.

    Fields:
      asked: makes bool [batch, length] of inputs int32 [batch, length].
      told: what an input needs for it, for messages: "'_' at each place of its answer".
      end: the character that ends an answer before the last of them; "": none does.
    """

    asked: Callable[[Any], Any]
    told: str
    end: str = ""


def places_of(character: str, symbols: str, told: str, end: str = "") -> Places:
    """The positions of one of the symbols; `told` and `end` as of ``Places``."""
    asking = FIRST_SYMBOL_ID + symbols.index(character)
    return Places(lambda inputs: tf.equal(inputs, asking), told, end)


class AlignedCodec(TextCodec):
    """The text form of problems whose inputs and targets have the same length and no end.

    Args:
      symbols: the characters, in the order of their ids from 2.
      targets: those of them that targets consist of.
      length: of every line; 0: any.
      row: characters after which decoded text has a blank; 0: none.
      other_blank: a character that stands for ``BLANK`` in what is read.
      places: the positions of answers; None: all.
    """

    def __init__(
        self,
        symbols: str,
        targets: str,
        length: int = 0,
        row: int = 0,
        other_blank: str = "",
        places: Places | None = None,
    ) -> None:
        super().__init__(name="aligned_codec")
        self._symbols = symbols
        self._targets = targets
        self._length = length
        self._row = row
        self._other_blank = other_blank
        self._asked = None if places is None else places.asked
        self._places_told = "" if places is None else places.told
        self._end = "" if places is None else places.end
        self.answer_end = FIRST_SYMBOL_ID + symbols.index(self._end) if self._end else PADDING_ID
        self.vocab_sizes = (FIRST_SYMBOL_ID + len(symbols),) * 2
        # By id; an id that stands for nothing is written as nothing.
        self.written = tf.constant(["", "", *symbols])

    def encode_targets(self, texts: Any) -> Any:
        """int32 [batch, length] of strings [batch], padded with 0."""
        return symbol_ids(self._plain(texts), self._symbols, with_end=False)

    def asked(self, inputs: Any) -> Any:
        """Whether there is an answer at each position of inputs, bool [batch, length]."""
        return super().asked(inputs) if self._asked is None else self._asked(inputs)

    def errors(self, *texts: Any) -> Any:
        """Refuses other characters, another length, and what asks for no answer."""
        refused = self._refused(texts[0], self._symbols)
        if not self._places_told:
            return refused
        nowhere = ~tf.reduce_any(self.asked(self.encode_targets(texts[0])), axis=1)
        told = tf.strings.join(
            [quoted(texts[0]), f" asks for no answer: expected {self._places_told}"]
        )
        return first_of(refused, text_where(nowhere & (self._plain(texts[0]) != ""), told))

    def target_errors(self, texts: Any) -> Any:
        """Refuses other characters, another length, and a missing end."""
        refused, end = self._refused(texts, self._targets), self._end
        if not end:
            return refused
        is_whole = tf.strings.regex_full_match(self._plain(texts), rf"([^{end}]*[{end}])?")
        told = tf.strings.join([quoted(texts), f" is no answer: expected one '{end}', at its end"])
        return first_of(refused, text_where(~is_whole, told))

    def decode(self, outputs: Any) -> Any:
        """The strings [batch] of symbols int32 [batch, length], up to END_ID or padding."""
        characters = tf.gather(self.written, before_end(outputs))
        if self._row:
            numbers = tf.range(1, tf.shape(outputs)[1] + 1)
            ends_row = tf.equal(numbers % self._row, 0)
            characters = tf.where(ends_row, tf.strings.join([characters, " "]), characters)
        return tf.strings.strip(tf.strings.reduce_join(characters, axis=1))

    def input_text(self, tokens: Sequence[str]) -> str:
        """The characters, with blanks between rows."""
        size = self._row or max(len(tokens), 1)
        rows = ["".join(tokens[first : first + size]) for first in range(0, len(tokens), size)]
        return " ".join(rows)

    def _plain(self, texts: Any) -> Any:
        plain = tf.strings.regex_replace(texts, ASCII_BLANK, "")
        if not self._other_blank:
            return plain
        return tf.strings.regex_replace(plain, self._other_blank, BLANK)

    def _refused(self, texts: Any, characters: str) -> Any:
        plain = self._plain(texts)
        length = tf.strings.length(plain, "UTF8_CHAR")
        others = tf.strings.substr(other_characters(plain, characters), 0, 1, "UTF8_CHAR")
        is_wrong, found = others != "", tf.strings.join([", found ", quoted(others)])
        if self._length:
            given = tf.strings.join([", found ", tf.strings.as_string(length)])
            found = tf.where(is_wrong, found, given)
            is_wrong |= tf.logical_and(length > 0, length != self._length)
        number = f"a line of {self._length} characters" if self._length else "characters"
        shown = characters + (self._other_blank if BLANK in characters else "")
        told = f" is not what this problem reads: expected {number} of '{shown}'"
        hint = blank_hint(plain, shown) if self.board else ""
        return text_where(is_wrong, tf.strings.join([quoted(texts), told, found, hint]))


class SudokuCodec(AlignedCodec):
    """A grid in row order, digits from 1, "." or "0" where a cell is blank; written row by row.

    Args:
      size: of the grid.
    """

    def __init__(self, size: SudokuSize) -> None:
        self.board = Board(size.digits, size.digits, size.box_rows, size.box_columns)
        digits = string.digits[1 : size.digits + 1]
        super().__init__(BLANK + digits, digits, size.cells, size.digits, other_blank="0")
        self.sample = _SAMPLES.get((size.box_rows, size.box_columns), "")
        pairs = size.pairs
        self._first = [first for first, _, _ in pairs]
        self._second = [second for _, second, _ in pairs]
        self._places = tf.constant(
            [
                f" twice in a {unit}, at {_place(first, size)} and {_place(second, size)}"
                for first, second, unit in pairs
            ]
        )

    def errors(self, *texts: Any) -> Any:
        """Refuses other characters, another length, and a digit twice in a row, a column or a box;
        names the two cells.
        """
        unreadable = super().errors(*texts)
        # Of what is unreadable the cells do not count, but there must be some.
        padding = tf.strings.join([texts[0], BLANK * self._length])
        cells = self.encode_targets(padding)[:, : self._length]
        firsts, seconds = (tf.gather(cells, ids, axis=1) for ids in (self._first, self._second))
        is_same = tf.logical_and(firsts == seconds, firsts > FIRST_SYMBOL_ID)
        pair = tf.argmax(is_same, axis=1)
        digits = tf.gather(self.written, tf.gather(firsts, pair, batch_dims=1))
        places = tf.gather(self._places, pair)
        told = tf.strings.join(
            [quoted(texts[0]), " has the digit ", digits, places, ": such a board has no solution"]
        )
        return first_of(unreadable, text_where(tf.reduce_any(is_same, 1), told))


def _place(cell: int, size: SudokuSize) -> str:
    row, column = divmod(cell, size.digits)
    return f"row {row + 1} column {column + 1}"


class BoardCodec(AlignedCodec):
    """A square board, row by row.

    Args:
      symbols: the characters.
      side: of the board.
      sample: a board.
      once: two of the characters, which stand in each board once.
    """

    def __init__(self, symbols: str, side: int, sample: str, once: str = "") -> None:
        self.board = Board(side, side)
        super().__init__(symbols, symbols, side**2, side)
        self.sample = self.input_text(sample)
        self._once = once

    def errors(self, *texts: Any) -> Any:
        """Refuses other characters, another length, and another number of what stands once."""
        refused, ends = super().errors(*texts), self._once
        if not ends:
            return refused
        others = tf.strings.regex_replace(texts[0], f"[^{ends}]", "")
        is_wrong = (others != ends) & (others != ends[::-1]) & (self._plain(texts[0]) != "")
        told = tf.strings.join([quoted(texts[0]), f" needs one {ends[0]} and one {ends[1]}"])
        return first_of(refused, text_where(is_wrong, told))


class BitsCodec(AlignedCodec):
    """A string of bits; `places` as of ``AlignedCodec``."""

    def __init__(self, places: Places | None = None) -> None:
        super().__init__(BITS, BITS, places=places)
        self.sample = "0110100111010001"
