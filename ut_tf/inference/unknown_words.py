"""Warnings of words that a model's vocabulary lacks.

::

    words = UnknownWords(codec, "questions.txt")
    words.see(examples)     # warns of the first ones at once
    words.finish()          # and, once all is read, of those that came later
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from ut_tf.errors import counted
from ut_tf.notices import warn

if TYPE_CHECKING:
    from ut_tf.data.text.codec import TextCodec

_NAMED_WORDS, _NEAR, _LIKE = 5, 3, 0.7
_LACKING = "that the model's vocabulary lacks, read as unknown"


class UnknownWords:
    """Warns of the words in texts that the vocabulary lacks: of those in the first texts that have
    some, and of all others together at the end.

    Args:
      codec: of the model.
      name: what the texts are; None: no warnings.
    """

    def __init__(self, codec: TextCodec, name: str | None) -> None:
        self._codec = codec
        self._name = name
        self._told: set[str] = set()
        self._others: set[str] = set()

    def see(self, examples: Iterable[Sequence[str]]) -> None:
        """Looks at examples: the raw texts of each, one for each of the codec's fields."""
        if self._name is None:
            return
        words = self._codec.unknown_words(text for texts in examples for text in texts)
        if self._told:
            self._others.update(word for word in words if word not in self._told)
        elif words:
            self._told.update(words)
            near = self._near(words[:_NAMED_WORDS])
            warn(f"{self._name} has words {_LACKING}: {_shown(words)}{near}.")

    def _near(self, words: Sequence[str]) -> str:
        """The words of the vocabulary that look like some of these."""
        known = self._codec.known_words
        near = [
            match
            for word in words
            for match in get_close_matches(word.lower(), known, _NEAR, _LIKE)
        ]
        return f"; near words that it has: {', '.join(dict.fromkeys(near))}" if near else ""

    def finish(self) -> None:
        """Warns of the words that came after the first warning."""
        if self._others:
            count = counted(len(self._others), "more word")
            warn(f"{self._name} has {count} {_LACKING}: {_shown(sorted(self._others))}.")


def _shown(words: Sequence[str]) -> str:
    others = f" and {len(words) - _NAMED_WORDS} more" if len(words) > _NAMED_WORDS else ""
    return ", ".join(words[:_NAMED_WORDS]) + others
