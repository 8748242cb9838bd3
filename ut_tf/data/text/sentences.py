"""The sentences of a story as people write them, and numbers in front of them as bAbI has them."""

from __future__ import annotations

import re

_NUMBERED = re.compile(r"\s*\d+\s+\S")
_MARK = re.compile(r"[.?!\t]")
_ANSWER = re.compile(r"\t.*$")


def sentences(text: str) -> list[str]:
    """The sentences of a line, without blanks at their ends; what follows a tab stays."""
    found, begin = [], 0
    # One regular expression for a whole sentence would try each place of a long line from anew.
    while begin < len(text):
        mark = _MARK.search(text, begin)
        end = mark.end() if mark else len(text)
        words = text[begin : mark.start() if mark else end].strip()
        if words and not (mark and mark[0] == "\t"):
            answer = _ANSWER.match(text, end)
            end = answer.end() if answer else end
            found.append(text[begin:end].strip())
        begin = end
    return found


def is_numbered(line: str) -> bool:
    """Whether a line begins with a number, as those of bAbI's files do."""
    return _NUMBERED.match(line) is not None
