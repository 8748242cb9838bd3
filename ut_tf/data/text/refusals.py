"""Sentences about texts that cannot be read, made in a graph, so that each text of a batch has its
own.

How it is used::

    foreign = other_characters(texts, "0123456789")
    told = tf.strings.join([quoted(texts), " is no number: expected digits"])
    errors = text_where(foreign != "", told)          # strings [batch], "" where nothing is wrong
"""

from typing import Any

import tensorflow as tf

ASCII_BLANK = r"[\s\v]"
"""The regular expression of a character of white space in ASCII, as ``tf.strings.strip`` has it."""
_LINE_ENDS = r"[\t\n\v\f\r\x{1c}-\x{1e}\x{85}\x{2028}\x{2029}]+"
_QUOTED_CHARACTERS = 80
_SHOWN_WORDS = 5


def quoted(texts: Any) -> Any:
    """The beginnings of texts, strings [batch], in quotation marks and on one line."""
    beginnings = tf.strings.substr(tf.strings.strip(texts), 0, _QUOTED_CHARACTERS, "UTF8_CHAR")
    return tf.strings.join(["'", tf.strings.regex_replace(beginnings, _LINE_ENDS, " "), "'"])


def character_class(characters: str) -> str:
    """The regular expression of one of some characters."""
    codes = "".join(f"\\x{{{ord(character):x}}}" for character in characters)
    return f"[{codes}]"


def other_characters(texts: Any, characters: str) -> Any:
    """The characters of texts, strings [batch], that are none of `characters`."""
    return tf.strings.regex_replace(texts, character_class(characters), "")


def text_where(condition: Any, texts: Any) -> Any:
    """The texts, strings [batch] or one, where bool [batch] is true; "" elsewhere."""
    return tf.where(condition, texts, "")


def first_of(*errors: Any) -> Any:
    """The first sentence of each example that is not empty, of strings [batch] each."""
    *others, last = errors
    for error in reversed(others):
        last = tf.where(tf.equal(error, ""), last, error)
    return last


def blank_hint(texts: Any, characters: str) -> Any:
    """The end of a sentence about texts, strings [batch], that may have "0" for a blank cell, where
    `characters` have a point for it and no "0"; "" elsewhere.
    """
    if "." not in characters or "0" in characters:
        return tf.zeros_like(texts)
    has_zero = tf.strings.regex_full_match(texts, "(?s).*0.*")
    return text_where(has_zero, ", a point for a blank cell")


def shown_words(words: Any) -> Any:
    """The first words of each text, a RaggedTensor of strings [batch, words], with commas between,
    and how many more there are: strings [batch].
    """
    shown = tf.strings.reduce_join(words[:, :_SHOWN_WORDS], axis=1, separator=", ")
    more = words.row_lengths() - _SHOWN_WORDS
    rest = tf.strings.join([" and ", tf.strings.as_string(more), " more"])
    return tf.strings.join([shown, tf.where(more > 0, rest, "")])


def without_known_word(found: tuple[Any, Any], what: str) -> Any:
    """The errors of texts that have words, but none that the vocabulary has.

    Args:
      found: from ``TextCodec.word_list``.
      what: the texts.
    """
    words, is_known = found
    has_known = tf.reduce_any(is_known, axis=1)
    told = tf.strings.join([f"{what} has no word that the model knows (", shown_words(words), ")"])
    return text_where(tf.logical_and(words.row_lengths() > 0, ~has_known), told)
