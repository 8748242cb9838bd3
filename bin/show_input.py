"""What a reader types into ut-show, as the lines that a problem reads.

A story may be written as people write it: sentences on lines or one after the other, without
numbers. Example::

    story_lines("Anna went to the attic. Where is Anna?")
    # ["1 Anna went to the attic.", "2 Where is Anna?"]
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

_NUMBERED = re.compile(r"\s*\d+\s+\S")
_SENTENCE = re.compile(r"[^.?!\t]*[^.?!\t\s][^.?!\t]*(?:[.?!]|$)(?:\t.*$)?")
_NEAR = 3
_SHOWN = 40


def sentences(text: str) -> list[str]:
    """The sentences of a line, without blanks at their ends; what follows a tab stays."""
    return [match.strip() for match in _SENTENCE.findall(text)]


def story_lines(text: str) -> list[str]:
    """The lines of stories in bAbI's format; lines with numbers are taken as they are. An empty
    line begins a new story.
    """
    lines = text.strip("\n").split("\n")
    if any(_NUMBERED.match(line) for line in lines):
        return lines
    numbered, number = [], 0
    for line in lines:
        if not line.strip():
            number = 0
        for sentence in sentences(line):
            number += 1
            numbered.append(f"{number} {sentence}")
    return numbered


def unknown_words_message(unknown: Sequence[str], known: Sequence[str]) -> str:
    """One sentence about the words that the model was never shown, with the nearest ones.

    Args:
      unknown: at least one word.
      known: the model's words.
    """
    quoted = ", ".join(f'"{word}"' for word in unknown)
    near = [
        match
        for word in unknown
        for match in difflib.get_close_matches(word.lower(), known, n=_NEAR, cutoff=0.7)
    ]
    if near:
        return f"the model does not know {quoted}; near words that it knows: {_listed(near)}."
    return f"the model does not know {quoted}; it knows {_listed(known)}."


def _listed(words: Sequence[str]) -> str:
    distinct = [*dict.fromkeys(words)]
    others = len(distinct) - _SHOWN
    return ", ".join(distinct[:_SHOWN]) + (f" and {others} more words" if others > 0 else "")
