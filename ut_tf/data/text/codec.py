"""Text of a problem as ids and back, by TensorFlow operations: the same code decodes lines of a
file and serves an exported model.

How it is used::

    codec = run.text_codec()
    features = codec.encode(tf.constant(["Ein Hund läuft."]))     # {"inputs": int32 [1, length]}
    texts = codec.decode(symbols)                                  # strings [1]

A codec is a ``tf.Module``, so that the tables and models that it holds as attributes are saved with
an exported model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import tensorflow as tf

from ut_tf.errors import UserError
from ut_tf.symbols import END_ID


class Board(NamedTuple):
    """The board whose cells are a problem's inputs, row by row.

    Fields:
      rows, columns: of cells.
      box_rows, box_columns: of the cells in a box, where boxes divide the board (Sudoku).
    """

    rows: int
    columns: int
    box_rows: int | None = None
    box_columns: int | None = None


class TextCodec(tf.Module):  # type: ignore[misc]
    """How a problem's raw text becomes features, and outputs become text. Subclasses implement
    encode, encode_targets and decode.
    """

    fields: ClassVar[tuple[str, ...]] = ("inputs",)
    """Names of the raw texts of one example, in the order in which ``encode`` takes them (bAbI:
    story, question).
    """
    end_token: ClassVar[str] = "<end>"
    """What ``tokens`` and ``target_tokens`` write for END_ID."""
    vocab_sizes: tuple[int, int] | None = None
    """Ids of the inputs, and ids or classes of the targets, where the codec knows them: they must
    be those of the trained model.
    """

    sample: str = ""
    """An input as a reader would type it; empty: none is known."""

    order: str = ""
    """The order of the symbols of inputs and targets, where it is not that of reading."""

    target_order: str = ""
    """That of targets, where inputs have another."""

    board: Board | None = None
    """How inputs that are cells lie on a board, to be shown so; None: they are no cells."""

    def encode(self, *texts: Any) -> dict[str, Any]:
        """Returns the features of a batch of raw texts, {"inputs": int32 [batch, length]} (facts:
        [batch, rows, words]), padded with 0.

        Args:
          texts: strings [batch], one for each of ``fields``.
        """
        raise NotImplementedError

    def encode_targets(self, texts: Any) -> Any:
        """Returns int32 [batch, target_length] of strings [batch], each ended by END_ID and padded
        with 0; classes: int32 [batch].
        """
        raise NotImplementedError

    def decode(self, outputs: Any) -> Any:
        """Returns strings [batch] of symbols int32 [batch, length], up to the first END_ID or
        padding; or of classes int32 [batch].
        """
        raise NotImplementedError

    def tokens(self, features: dict[str, Any]) -> Any:
        """The symbol at each position of features["inputs"], strings [batch, length]; ""
        on padding.
        """
        raise NotImplementedError

    def target_tokens(self, symbols: Any) -> Any:
        """The symbol at each position of targets, strings [batch, length] of int32 [batch, length];
        "" on padding. By default what ``decode`` writes for each symbol alone.
        """
        alone = tf.reshape(symbols, [-1, 1])
        written = tf.reshape(self.decode(alone), tf.shape(symbols))
        return tf.where(tf.equal(symbols, END_ID), self.end_token, written)

    def input_text(self, tokens: Sequence[str]) -> str:
        """The lines that ``read`` takes for an example with these tokens: by default the tokens,
        without the end, with blanks between them.

        Args:
          tokens: of one example, without padding.
        """
        return " ".join(token for token in tokens if token != self.end_token)

    def words(self, texts: Iterable[str]) -> list[str]:
        """The words in raw texts, each once, sorted; default: none, as of subwords and
        characters.
        """
        del texts
        return []

    def unknown_words(self, texts: Iterable[str]) -> list[str]:
        """The words in raw texts that the vocabulary lacks, each once, sorted; default: none, as of
        subwords and characters.
        """
        del texts
        return []

    @property
    def known_words(self) -> list[str]:
        """The words of the vocabulary; default: none, as of subwords and characters."""
        return []

    def read(self, lines: Iterable[str], name: str) -> Iterator[tuple[str, ...]]:
        """Yields the raw texts of each example in the lines of a file (without their line ends): by
        default one example a line; of a problem without fields, a language model's, a prompt.

        Args:
          lines: of the file.
          name: of the file, for messages.

        Raises:
          UserError: a line is not what the problem's format says; names file and line.
        """
        if len(self.fields) > 1:
            raise UserError(
                f"{name}: this problem reads {' and '.join(self.fields)}, not lines of text."
            )
        for line in lines:
            yield (line,)

    def read_targets(self, lines: Iterable[str], name: str) -> Iterator[str]:
        """Yields the target text in each line, to be scored: by default the line.

        Args:
          lines: one target each.
          name: of the file, for messages.

        Raises:
          UserError: a line is no target of the problem; names file and line.
        """
        del name
        yield from lines
