"""Warnings of words that a model's vocabulary lacks, and refusal of texts without a known one.

::

    words = UnknownWords(codec, "questions.txt")
    words.see(examples)     # warns of the first ones at once
    words.finish()          # and, once all is read, of those that came later
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ut_tf.data.chunks import chunks
from ut_tf.errors import UserError, counted
from ut_tf.inference.shards import Given
from ut_tf.notices import warn

if TYPE_CHECKING:
    from ut_tf.data.text.codec import TextCodec

_NAMED_WORDS = 5
_SEEN_AT_ONCE = 512
_LACKING = "that the model's vocabulary lacks, read as unknown"


class UnknownWords:
    """Warns of the words in texts that the vocabulary lacks: of those in the first texts that have
    some, and of all others together at the end. First texts without a word that it has are refused.

    Args:
      codec: of the model.
      name: what the texts are; None: no warnings.
    """

    def __init__(self, codec: TextCodec, name: str | None) -> None:
        self._codec = codec
        self._name = name
        self._has_seen = False
        self._told: set[str] = set()
        self._others: set[str] = set()

    def see(self, examples: Iterable[Sequence[str]]) -> None:
        """Looks at examples: the raw texts of each, one for each of the codec's fields.

        Raises:
          UserError: the vocabulary has none of the words in the first ones.
        """
        if self._name is None:
            return
        raw = [text for texts in examples for text in texts]
        words = self._codec.unknown_words(raw)
        is_first, self._has_seen = not self._has_seen, True
        if is_first and words and len(words) == len(self._codec.words(raw)):
            raise UserError(
                f"{self._name} has no word that the model knows ({_shown(words)}): it knows"
                f" {_shown(self._codec.known_words)}."
            )
        if self._told:
            self._others.update(word for word in words if word not in self._told)
        elif words:
            self._told.update(words)
            warn(f"{self._name} has words {_LACKING}: {_shown(words)}.")

    def finish(self) -> None:
        """Warns of the words that came after the first warning."""
        if self._others:
            count = counted(len(self._others), "more word")
            warn(f"{self._name} has {count} {_LACKING}: {_shown(sorted(self._others))}.")


def watched(codec: TextCodec, examples: Iterable[Given], name: str) -> Iterator[Given]:
    """Yields the examples, and warns of their unknown words.

    Args:
      codec: of the model.
      examples: all of them.
      name: what they are.
    """
    words = UnknownWords(codec, name)
    for some in chunks(examples, _SEEN_AT_ONCE):
        words.see(texts for texts, _ in some)
        yield from some
    words.finish()


def _shown(words: Sequence[str]) -> str:
    others = f" and {len(words) - _NAMED_WORDS} more" if len(words) > _NAMED_WORDS else ""
    return ", ".join(words[:_NAMED_WORDS]) + others
