"""Sentences up to the verb, as people write them in tokens, and the number that their verb should
have.

How it is used::

    codec = NumberCodec(vocab_dir)
    codec.encode(tf.constant(["the keys to the cabinet"]))["inputs"]     # [[3, 87, 6, 3, 2, 1]]
    codec.decode(tf.constant([1]))                                       # ["plural"]
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tensorflow as tf

from ut_tf.data.text.codec import TextCodec
from ut_tf.data.text.vocabulary import UNKNOWN, WordVocabulary, split_blanks
from ut_tf.symbols import END_ID

WORDS_FILE = "words.txt"
NUMBERS = ("singular", "plural")
_SAMPLE = "the keys to the cabinet"


class NumberCodec(TextCodec):
    """The text form of ``SvaNumberPrediction``: words with blanks between them, lower-case as in
    training; singular or plural.

    Args:
      vocab_dir: holds words.txt.

    Raises:
      UserError: it does not.
    """

    def __init__(self, vocab_dir: Path) -> None:
        super().__init__(name="number_codec")
        self._words = WordVocabulary(vocab_dir / WORDS_FILE, split_blanks)
        self._numbers = tf.constant(NUMBERS)
        self._tokens = tf.constant(["", self.end_token, *self._words.words])
        self.vocab_sizes = (len(self._words), len(NUMBERS))
        self.sample = "" if self.unknown_words([_SAMPLE]) else _SAMPLE

    def encode(self, *texts: Any) -> dict[str, Any]:
        """Returns {"inputs": int32 [batch, length]} of strings [batch], each ended by END_ID and
        padded with 0.
        """
        ends = tf.fill([tf.shape(texts[0])[0], 1], END_ID)
        return {
            "inputs": tf.concat(
                [self._words.encode(texts[0]), tf.RaggedTensor.from_tensor(ends)], 1
            ).to_tensor()
        }

    def unknown_words(self, texts: Iterable[str]) -> list[str]:
        """The words of sentences that words.txt lacks, each once, sorted."""
        words = {word for text in texts for word in text.split()}
        return sorted(words - {*self._words.words})

    @property
    def known_words(self) -> list[str]:
        """The words of words.txt."""
        return [word for word in self._words.words if word != UNKNOWN]

    def encode_targets(self, texts: Any) -> Any:
        """Returns the classes, int32 [batch], of "singular" and "plural"; -1 for anything else."""
        same = tf.equal(tf.strings.strip(texts)[:, tf.newaxis], self._numbers)
        return tf.where(
            tf.reduce_any(same, 1), tf.argmax(tf.cast(same, tf.int32), 1, output_type=tf.int32), -1
        )

    def decode(self, outputs: Any) -> Any:
        """Returns "singular" or "plural", strings [batch], of classes int32 [batch]."""
        return tf.gather(self._numbers, outputs)

    def tokens(self, features: dict[str, Any]) -> Any:
        """Returns the word at each position of features["inputs"], strings [batch, length]; "" on
        padding.
        """
        return tf.gather(self._tokens, features["inputs"])
