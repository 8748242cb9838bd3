"""Puzzles as lines of text with an answer at every position: "13.. .23. .4.. 3..2" and "0110".

How it is used::

    codec = SudokuCodec(SudokuSize(2, 2))
    codec.encode(tf.constant(["13.. .23. .4.. 3..2"]))["inputs"]     # int32 [1, 16]
    codec.decode(outputs)                                            # ["1324 4231 ..."]

``read`` refuses a line that is no puzzle; in a graph foreign symbols are left out.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from ut_tf.data.text.codec import Board, TextCodec
from ut_tf.errors import UserError
from ut_tf.problem_spec import ProblemSpec
from ut_tf.problems.algorithmic.codec import symbol_ids
from ut_tf.problems.reasoning.grids import SudokuSize
from ut_tf.symbols import END_ID, FIRST_SYMBOL_ID

BLANK = "."
BITS = "01"
# By the rows and columns of a box.
_SAMPLES = {(2, 2): "1... ..2. .3.. ...4"}


def aligned_spec(symbols: int) -> ProblemSpec:
    """Tokens with aligned targets over one vocabulary: padding, end, and so many symbols."""
    size = FIRST_SYMBOL_ID + symbols
    return ProblemSpec("tokens", "aligned", size, size, shared_vocab=True)


class AlignedCodec(TextCodec):
    """The text form of problems whose inputs and targets have the same length and no end.

    Args:
      symbols: the characters, in the order of their ids from 2.
      targets: those of them that targets consist of.
      length: of every line; 0: any.
      row: characters after which decoded text has a blank; 0: none.
      other_blank: a character that stands for ``BLANK`` in what is read.
    """

    def __init__(
        self, symbols: str, targets: str, length: int = 0, row: int = 0, other_blank: str = ""
    ) -> None:
        super().__init__(name="aligned_codec")
        self._symbols = symbols
        self._targets = targets
        self._length = length
        self._row = row
        self._other_blank = other_blank
        self.vocab_sizes = (FIRST_SYMBOL_ID + len(symbols),) * 2
        # By id; an id that stands for nothing is written as nothing.
        self._written = tf.constant(["", "", *symbols])

    def encode(self, *texts: Any) -> dict[str, Any]:
        """{"inputs": int32 [batch, length]} of strings [batch], padded with 0."""
        return {"inputs": self.encode_targets(texts[0])}

    def encode_targets(self, texts: Any) -> Any:
        """int32 [batch, length] of strings [batch], padded with 0."""
        plain = tf.strings.regex_replace(texts, r"\s", "")
        if self._other_blank:
            plain = tf.strings.regex_replace(plain, self._other_blank, BLANK)
        ids = symbol_ids(plain, self._symbols, with_end=False)
        return ids[:, : self._length] if self._length else ids

    def decode(self, outputs: Any) -> Any:
        """The strings [batch] of symbols int32 [batch, length], up to the first END_ID or
        padding.
        """
        kept = tf.math.cumprod(tf.cast(outputs > END_ID, tf.int32), axis=1)
        characters = tf.gather(self._written, outputs * kept)
        if self._row:
            numbers = tf.range(1, tf.shape(outputs)[1] + 1)
            ends_row = tf.equal(numbers % self._row, 0)
            characters = tf.where(ends_row, tf.strings.join([characters, " "]), characters)
        return tf.strings.strip(tf.strings.reduce_join(characters, axis=1))

    def tokens(self, features: dict[str, Any]) -> Any:
        """The character at each position of features["inputs"], strings [batch, length]; "" on
        padding.
        """
        return tf.gather(self._written, features["inputs"])

    def input_text(self, tokens: Sequence[str]) -> str:
        """The characters, with blanks between rows."""
        size = self._row or max(len(tokens), 1)
        rows = ["".join(tokens[first : first + size]) for first in range(0, len(tokens), size)]
        return " ".join(rows)

    def read(self, lines: Iterable[str], name: str) -> Iterator[tuple[str, ...]]:
        """Yields each line; an empty one too.

        Raises:
          UserError: a line has other symbols, or another length.
        """
        for line in self._checked(lines, name, self._symbols + self._other_blank):
            yield (line,)

    def read_targets(self, lines: Iterable[str], name: str) -> Iterator[str]:
        """Yields each line; raises UserError where it has other symbols, or another length."""
        return self._checked(lines, name, self._targets)

    def _checked(self, lines: Iterable[str], name: str, symbols: str) -> Iterator[str]:
        for count, line in enumerate(lines, start=1):
            plain = "".join(line.split())
            if plain and ({*plain} - {*symbols} or len(plain) != (self._length or len(plain))):
                number = f"{self._length} characters" if self._length else "characters"
                raise UserError(
                    f"{name}, line {count}: {line.strip()[:80]!r} is not what this problem reads:"
                    f" expected {number} of {symbols!r}; correct the line."
                )
            yield line


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
        self._size = size

    def read(self, lines: Iterable[str], name: str) -> Iterator[tuple[str, ...]]:
        """Yields each line; an empty one too.

        Raises:
          UserError: a line has other symbols or another length, or a digit twice in a row, a column
            or a box; names the two cells.
        """
        for count, (line,) in enumerate(super().read(lines, name), start=1):
            pair = self._size.contradiction("".join(line.split()), f"{BLANK}{self._other_blank}")
            if pair is not None:
                unit, digit, places = pair
                cells = " and ".join(f"row {row} column {column}" for row, column in places)
                raise UserError(
                    f"{name}, line {count}: {line.strip()[:80]!r} has the digit {digit} twice in a"
                    f" {unit}, at {cells}: such a board has no solution; correct the line."
                )
            yield (line,)


class BitsCodec(AlignedCodec):
    """A string of bits."""

    def __init__(self) -> None:
        super().__init__(BITS, BITS)
        self.sample = "0110100111010001"
