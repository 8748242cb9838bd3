"""Words and their ids, by TensorFlow operations, so that the same code runs in training, decoding
and an exported model.

How it is used::

    write_symbols(path, [UNKNOWN, *sorted(words)])
    # RaggedTensor [1, 5]
    ids = WordVocabulary(path).encode(tf.constant(["Mary moved to the kitchen."]))
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import tensorflow as tf

from ut_tf.errors import UserError, file_errors
from ut_tf.storage.files import read_vocabulary, write_text
from ut_tf.symbols import FIRST_SYMBOL_ID

UNKNOWN = "<unknown>"
BLANK = r"[\pZ\v\x{1c}-\x{1f}\x{85}]"
"""The regular expression of what Python's str.split takes for a blank and TensorFlow's regular
expressions or its split do not.
"""


def split_words(texts: Any) -> Any:
    """Returns the words of `texts` (strings [texts]) as a RaggedTensor [texts, words]: lower-cased,
    without punctuation.
    """
    lower = tf.strings.lower(tf.strings.regex_replace(texts, BLANK, " "), encoding="utf-8")
    return tf.strings.split(tf.strings.regex_replace(lower, r"[^\pL\pN\s]", ""))


def distinct_words(texts: Any) -> list[str]:
    """Returns every word of `texts` (strings [texts]) once, sorted."""
    words, _ = tf.unique(split_words(texts).flat_values)
    return sorted(word.decode("utf-8") for word in words.numpy())


def write_symbols(path: Path, symbols: Iterable[str]) -> None:
    """Writes one symbol a line; the file is complete or absent."""
    write_text(path, "".join(f"{symbol}\n" for symbol in symbols))


def read_symbols(path: Path) -> list[str]:
    """The symbols of a file with one a line.

    Raises:
      UserError: the file does not exist, holds nothing, or is no text in UTF-8.
    """
    if not path.is_file():
        raise UserError(
            f"there is no vocabulary {path}: prepare the data with ut-datagen, or copy the file"
            " there."
        )
    with file_errors(
        f"the vocabulary {path}", "prepare the data again, or copy the whole file there"
    ):
        content = read_vocabulary(path)
    if not content:
        raise UserError(
            f"the vocabulary {path} is empty: expected one symbol a line; delete it and prepare the"
            " data again."
        )
    try:
        lines = content.decode("utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(
            f"the vocabulary {path} is no text in UTF-8 ({error.reason}): delete it and prepare the"
            " data again."
        ) from error
    # Not splitlines: a word may hold what Unicode calls a line's end, and every id after it would
    # be another word's.
    return [line.removesuffix("\r") for line in lines]


def symbol_table(symbols: Any, first: int, default: int) -> Any:
    """The table from symbols, strings [symbols], to numbers int64 from `first` on; `default` for
    others.
    """
    numbers = first + tf.range(len(symbols), dtype=tf.int64)
    return tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(tf.constant(symbols), numbers), default_value=default
    )


class WordVocabulary(tf.Module):  # type: ignore[misc]
    """The words of a file, in the order of their ids, the first of which is FIRST_SYMBOL_ID and
    stands for every unknown word.

    A ``tf.Module``, so that its table is saved with whatever holds it.

    Args:
      path: the file, one word a line.
      split: what divides texts into words; strings [texts] to a RaggedTensor [texts, words].
    """

    def __init__(self, path: Path, split: Callable[[Any], Any] = split_words) -> None:
        super().__init__(name="word_vocabulary")
        self._split = split
        self.words = read_symbols(path)
        self._table = symbol_table(self.words, FIRST_SYMBOL_ID, FIRST_SYMBOL_ID)

    def __len__(self) -> int:
        """The number of ids, padding and end of sequence included."""
        return FIRST_SYMBOL_ID + len(self.words)

    def encode(self, texts: Any) -> Any:
        """Returns the int32 ids of the words of `texts` (strings [texts]) as a RaggedTensor [texts,
        words].
        """
        words = self._split(texts)
        return words.with_flat_values(tf.cast(self._table.lookup(words.flat_values), tf.int32))

    def found(self, texts: Any) -> tuple[Any, Any]:
        """The words of `texts` (strings [texts]) and whether the file has each: RaggedTensors
        [texts, words] of strings and bool.
        """
        words = self._split(texts)
        ids = self._table.lookup(words.flat_values)
        is_known = tf.logical_or(ids != FIRST_SYMBOL_ID, words.flat_values == self.words[0])
        return words, words.with_flat_values(is_known)

    def decode(self, ids: Iterable[int]) -> str:
        """The words of `ids` with blanks between them; ids that stand for no word are left out."""
        return " ".join(
            self.words[number - FIRST_SYMBOL_ID]
            for number in ids
            if FIRST_SYMBOL_ID <= number < len(self)
        )
