"""Sentences in the Penn Treebank's tokens, and the symbols of their trees.

How it is used::

    codec = ParseCodec(vocab_dir)
    codec.encode(tf.constant(["It works ."]))["inputs"]           # [[57, 12, 4, 1]]
    codec.decode(tf.constant([[3, 5, 57, 6, 1]]))                 # ["(S (NP It )NP"]

A word unknown in training has the id of its kind, such as ``<A>`` (a capital) or ``<0-ar>`` (a
digit, a hyphen, and its ending), or of the kind without the ending where that is too rare.
"""

import re
from pathlib import Path
from typing import Any

import tensorflow as tf

from ut_tf.data.text.codec import TextCodec, append_ends, join_symbols
from ut_tf.data.text.refusals import shown_words, text_where
from ut_tf.data.text.vocabulary import WordVocabulary, split_blanks
from ut_tf.problems.parsing.trees import linearise, read_trees, simplify
from ut_tf.symbols import FIRST_SYMBOL_ID

WORDS_FILE = "words.txt"
LABELS_FILE = "labels.txt"
_BRACKET = r"[()].+"


def kinds_of_words(words: Any, with_ends: bool = True) -> Any:
    """The kind of each of `words`: its capital, digit and hyphen, and the last two letters of a
    word of more.

    Args:
      words: strings [words].
      with_ends: whether the last letters belong to the kind.
    """
    lower = tf.strings.lower(words, encoding="utf-8")
    ends = tf.logical_and(with_ends, tf.strings.regex_full_match(lower, r"[^0-9]*[a-z]{3}"))
    return tf.strings.join(
        [
            "<",
            _where(words, r"\p{Lu}.*", "A"),
            _where(words, r".*[0-9].*", "0"),
            _where(words, r".*-.*", "-"),
            tf.where(ends, tf.strings.regex_replace(lower, r"^.*([a-z]{2})$", r"\1"), ""),
            ">",
        ]
    )


class ParseCodec(TextCodec):
    """The text form of ``Parsing``: a sentence of tokens with blanks between them; the tree as
    symbols with blanks between them.

    Args:
      vocab_dir: holds words.txt and labels.txt.

    Raises:
      UserError: one of them is missing or empty.
    """

    def __init__(self, vocab_dir: Path) -> None:
        super().__init__(name="parse_codec")
        self._words = WordVocabulary(vocab_dir / WORDS_FILE, split_blanks)
        self._labels = WordVocabulary(vocab_dir / LABELS_FILE, split_blanks)
        self.written = tf.constant(["", self.end_token, *self._words.words])
        self._symbols = tf.constant(["", "", *self._labels.words])
        self.vocab_sizes = (len(self._words), len(self._labels))
        self._with_words = self._words.words == self._labels.words

    def encode(self, *texts: Any) -> dict[str, Any]:
        """Returns {"inputs": int32 [batch, length]} of sentences, strings [batch], each ended by
        END_ID and padded with 0.
        """
        words = split_blanks(texts[0])
        return {"inputs": append_ends(words.with_flat_values(self._word_ids(words.flat_values)))}

    def encode_targets(self, texts: Any) -> Any:
        """Returns int32 [batch, target_length] of linearised trees, strings [batch], each ended by
        END_ID and padded with 0.
        """
        if not self._with_words:
            return append_ends(self._labels.encode(texts))
        symbols = split_blanks(texts)
        flat = symbols.flat_values
        is_bracket = tf.strings.regex_full_match(flat, _BRACKET)
        return append_ends(
            symbols.with_flat_values(
                tf.where(is_bracket, self._labels.encode(flat).flat_values, self._word_ids(flat))
            )
        )

    def decode(self, outputs: Any) -> Any:
        """Returns the linearised trees, strings [batch], of symbols int32 [batch, length], up to
        the first END_ID or padding.
        """
        return join_symbols(self._symbols, outputs)

    def target_errors(self, texts: Any) -> Any:
        """Refuses a symbol that labels.txt lacks, such as a bracket without its label."""
        symbols, is_known = self._labels.found(texts)
        if self._with_words:
            is_bracket = tf.strings.regex_full_match(symbols.flat_values, r"[()].*")
            is_known = is_known.with_flat_values(~is_bracket | is_known.flat_values)
        unknown = tf.ragged.boolean_mask(symbols, ~is_known)
        told = " is no symbol of a tree: expected some such as (S (NP )NP )S"
        return text_where(unknown.row_lengths() > 0, tf.strings.join([shown_words(unknown), told]))

    def plain_target(self, line: str, where: str) -> str:
        """The linearised tree of a line: as it stands there or, of a tree in brackets with its
        words, made from it.

        Raises:
          UserError: brackets are not balanced.
        """
        if re.search(r"(^|\s)\)[^\s()]", line):
            return line  # Only symbols close a constituent by its label.
        plain = filter(None, map(simplify, read_trees(line, where)))
        return " ".join(symbol for tree in plain for symbol in linearise(tree, self._with_words))

    def _word_ids(self, words: Any) -> Any:
        """Returns int32 [words], the ids of words, strings [words], or of their kinds."""
        ids = self._words.encode(words).flat_values
        for kinds in (kinds_of_words(words), kinds_of_words(words, with_ends=False)):
            ids = tf.where(ids == FIRST_SYMBOL_ID, self._words.encode(kinds).flat_values, ids)
        return ids


def _where(words: Any, pattern: str, mark: str) -> Any:
    return tf.where(tf.strings.regex_full_match(words, pattern), mark, "")
