"""The text forms of the user's own files: subwords with class names, and lines to be scored.

How it is used::

    codec = ClassesCodec(vocab_dir, max_subwords=256)
    codec.encode(tf.constant(["I liked it."]))["inputs"]     # [[17, 403, 96, 1]]
    codec.decode(tf.constant([1]))                           # ["good"]
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import tensorflow as tf

from ut_tf.data.corpus.corpus import VOCAB_FILE
from ut_tf.data.text.codec import TextCodec
from ut_tf.data.text.refusals import text_where
from ut_tf.data.text.subword_codec import TranslationCodec, make_subword_codec
from ut_tf.data.text.subword_files import read_subwords
from ut_tf.data.text.vocabulary import read_symbols, symbol_table
from ut_tf.symbols import PADDING_ID

CLASSES_FILE = "classes.txt"


class ClassesCodec(TextCodec):
    """The text form of ``ClassifyFiles``.

    Args:
      vocab_dir: holds the subwords and the names of the classes.
      max_subwords: of a longer text the last ones are read.

    Raises:
      UserError: a vocabulary is missing or empty.
    """

    end_token: ClassVar[str] = TranslationCodec.end_token

    def __init__(self, vocab_dir: Path, max_subwords: int) -> None:
        super().__init__(name="classes_codec")
        subwords = read_subwords(vocab_dir / VOCAB_FILE)
        self._texts = make_subword_codec(subwords)
        self._most = max_subwords + 1
        names = read_symbols(vocab_dir / CLASSES_FILE)
        self._names = tf.constant(names)
        self._classes = symbol_table(names, 0, -1)
        self.vocab_sizes = (subwords.size, len(names))

    def encode(self, *texts: Any) -> dict[str, Any]:
        """{"inputs": int32 [batch, length]}: subwords, END_ID, padding."""
        return {"inputs": self._subwords(texts[0])[:, -self._most :].to_tensor()}

    def left_out(self, *texts: Any) -> Any:
        """Tells of the subwords before the last ``max_subwords``."""
        counts = self._subwords(texts[0]).row_lengths()
        told = f" subwords: those before the last {self._most - 1} are left out"
        sentence = tf.strings.join(["has ", tf.strings.as_string(counts - 1), told])
        return text_where(counts > self._most, sentence)

    def encode_targets(self, texts: Any) -> Any:
        """The classes int32 [batch] of their names, strings [batch]; -1 for another."""
        return tf.cast(self._classes.lookup(tf.strings.strip(texts)), tf.int32)

    def decode(self, outputs: Any) -> Any:
        """The names, strings [batch], of classes int32 [batch]."""
        return tf.gather(self._names, tf.cast(outputs, tf.int32))

    def _subwords(self, texts: Any) -> Any:
        ids = self._texts.encode(tf.strings.strip(texts))["inputs"]
        return tf.RaggedTensor.from_tensor(ids, padding=PADDING_ID)

    def tokens(self, features: dict[str, Any]) -> Any:
        """The pieces of features["inputs"], strings [batch, length], "" on padding."""
        return self._texts.tokens(features)

    def input_text(self, tokens: Sequence[str]) -> str:
        """The text that the pieces make."""
        return self._texts.input_text(tokens)


class LinesCodec(TextCodec):
    """The text form of ``LmFiles``, which has no inputs: lines to be scored or continued.

    Args:
      vocab_dir: holds the subwords.
      keep_blanks: whether blanks at the ends of a line count.

    Raises:
      UserError: the vocabulary cannot be read.
    """

    fields: ClassVar[tuple[str, ...]] = ()
    end_token: ClassVar[str] = TranslationCodec.end_token

    def __init__(self, vocab_dir: Path, keep_blanks: bool = False) -> None:
        super().__init__(name="lines_codec")
        self._keeps_blanks = keep_blanks
        subwords = read_subwords(vocab_dir / VOCAB_FILE)
        self._texts = make_subword_codec(subwords)
        self.vocab_sizes = (0, subwords.size)

    def encode_targets(self, texts: Any) -> Any:
        """int32 [batch, length] of strings [batch]: subwords, END_ID, padding."""
        lines = texts if self._keeps_blanks else tf.strings.strip(texts)
        return self._texts.encode_targets(lines)

    def decode(self, outputs: Any) -> Any:
        """The strings [batch] of symbols int32 [batch, length], up to END_ID or padding."""
        return self._texts.decode(outputs)

    def target_tokens(self, symbols: Any) -> Any:
        """The pieces of symbols int32 [batch, length], strings [batch, length], "" on padding."""
        return self._texts.target_tokens(symbols)

    def input_text(self, tokens: Sequence[str]) -> str:
        """The text that the pieces make, in one line."""
        return self._texts.input_text(tokens)
