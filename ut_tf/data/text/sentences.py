"""The sentences of a story as people write them, and numbers in front of them as bAbI has them."""

from __future__ import annotations

import re

_NUMBERED = re.compile(r"\s*\d+\s+\S")
_SENTENCE = re.compile(r"[^.?!\t]*[^.?!\t\s][^.?!\t]*(?:[.?!]|$)(?:\t.*$)?")


def sentences(text: str) -> list[str]:
    """The sentences of a line, without blanks at their ends; what follows a tab stays."""
    return [match.strip() for match in _SENTENCE.findall(text)]


def is_numbered(line: str) -> bool:
    """Whether a line begins with a number, as those of bAbI's files do."""
    return _NUMBERED.match(line) is not None
