"""Sentences as people write them in tokens, and the number that their verb should have.

How it is used::

    SentenceCodec(vocab_dir)             # a language model's: texts are scored

    codec = NumberCodec(vocab_dir)
    codec.encode(tf.constant(["the keys to the cabinet"]))["inputs"]     # [[3, 87, 6, 3, 2, 1]]
    codec.decode(tf.constant([1]))                                       # ["plural"]
"""

from pathlib import Path
from typing import Any, ClassVar

import tensorflow as tf

from ut_tf.data.text.codec import TextCodec, append_ends, join_symbols
from ut_tf.data.text.refusals import without_known_word
from ut_tf.data.text.vocabulary import UNKNOWN, WordVocabulary

WORDS_FILE = "words.txt"
NUMBERS = ("singular", "plural")
_SAMPLE = "the keys to the cabinet"


class _WordsCodec(TextCodec):
    """Words with blanks between them, lower-case as in training.

    Args:
      vocab_dir: holds words.txt.
      name: of the codec.

    Raises:
      UserError: it does not.
    """

    def __init__(self, vocab_dir: Path, name: str) -> None:
        super().__init__(name=name)
        self._words = WordVocabulary(vocab_dir / WORDS_FILE, tf.strings.split)
        self.written = tf.constant(["", self.end_token, *self._words.words])
        self.sample = "" if self.unknown_words([_SAMPLE]) else _SAMPLE

    def word_list(self, texts: Any) -> tuple[Any, Any]:
        """The words of sentences, and whether words.txt has each."""
        return self._words.found(texts)

    def _unknown(self, texts: Any) -> Any:
        return without_known_word(self._words.found(texts), "the text")

    @property
    def known_words(self) -> list[str]:
        """The words of words.txt."""
        return [word for word in self._words.words if word != UNKNOWN]


class SentenceCodec(_WordsCodec):
    """The text form of ``SvaLanguageModeling``, which has no inputs; `vocab_dir` and errors as of
    ``NumberCodec``.
    """

    fields: ClassVar[tuple[str, ...]] = ()

    def __init__(self, vocab_dir: Path) -> None:
        super().__init__(vocab_dir, "sentence_codec")
        self.vocab_sizes = (0, len(self._words))

    def target_errors(self, texts: Any) -> Any:
        """Refuses words of which words.txt has none."""
        return self._unknown(texts)

    def encode_targets(self, texts: Any) -> Any:
        """int32 [batch, length] of strings [batch], padded with 0; without an end, so that
        beginnings of sentences can be compared.
        """
        return self._words.encode(texts).to_tensor()

    def decode(self, outputs: Any) -> Any:
        """The strings [batch] of symbols int32 [batch, length], up to the first END_ID or padding,
        with blanks between the words.
        """
        return join_symbols(self.written, outputs)


class NumberCodec(_WordsCodec):
    """The text form of ``SvaNumberPrediction``: singular or plural.

    Args:
      vocab_dir: holds words.txt.

    Raises:
      UserError: it does not.
    """

    def __init__(self, vocab_dir: Path) -> None:
        super().__init__(vocab_dir, "number_codec")
        self._numbers = tf.constant(NUMBERS)
        self.vocab_sizes = (len(self._words), len(NUMBERS))

    def encode(self, *texts: Any) -> dict[str, Any]:
        """Returns {"inputs": int32 [batch, length]} of strings [batch], each ended by END_ID and
        padded with 0.
        """
        return {"inputs": append_ends(self._words.encode(texts[0]))}

    def errors(self, *texts: Any) -> Any:
        """Refuses words of which words.txt has none."""
        return self._unknown(texts[0])

    def encode_targets(self, texts: Any) -> Any:
        """Returns the classes, int32 [batch], of "singular" and "plural"; -1 for anything else."""
        same = tf.equal(tf.strings.strip(texts)[:, tf.newaxis], self._numbers)
        return tf.where(
            tf.reduce_any(same, 1), tf.argmax(tf.cast(same, tf.int32), 1, output_type=tf.int32), -1
        )

    def decode(self, outputs: Any) -> Any:
        """Returns "singular" or "plural", strings [batch], of classes int32 [batch]."""
        return tf.gather(self._numbers, tf.cast(outputs, tf.int32))
