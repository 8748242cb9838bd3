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

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import tensorflow as tf

from ut_tf.errors import UserError


class TextCodec(tf.Module):  # type: ignore[misc]
    """How a problem's raw text becomes features, and outputs become text. Subclasses implement
    encode, encode_targets and decode.
    """

    fields: ClassVar[tuple[str, ...]] = ("inputs",)
    """Names of the raw texts of one example, in the order in which ``encode`` takes them (bAbI:
    story, question).
    """
    vocab_sizes: tuple[int, int] | None = None
    """Ids of the inputs, and ids or classes of the targets, where the codec knows them: they must
    be those of the trained model.
    """

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

    def unknown_words(self, texts: Iterable[str]) -> list[str]:
        """The words in raw texts that the vocabulary lacks, each once, sorted; default: none, as of
        subwords and characters.
        """
        del texts
        return []

    def read(self, lines: Iterable[str], name: str) -> Iterator[tuple[str, ...]]:
        """Yields the raw texts of each example in the lines of a file (without their line ends): by
        default one example a line.

        Args:
          lines: of the file.
          name: of the file, for messages.

        Raises:
          UserError: a line is not what the problem's format says; names file and line.
        """
        if len(self.fields) != 1:
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
