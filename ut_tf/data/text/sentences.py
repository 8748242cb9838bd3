"""The sentences of a story as people write them, and numbers in front of them as bAbI has them."""

import re

SENTENCE_ENDS = "[.?!]"
"""A regular expression, of Python as of TensorFlow."""
_NUMBERED = re.compile(r"\s*\d+\s+\S")
_MARK = re.compile(rf"{SENTENCE_ENDS}|\t")


def sentences(text: str) -> list[str]:
    """The sentences of a line, without blanks at their ends; what follows a tab stays."""
    parts, begin = [], 0
    # What follows a tab stays with its sentence where it lies in the text's last line.
    whole = len(text) - text.endswith("\n")
    last_line = text.rfind("\n", 0, whole) + 1
    # One regular expression for a sentence would start again at each character of a long line.
    while begin < len(text):
        mark = _MARK.search(text, begin)
        end = mark.end() if mark else len(text)
        words = text[begin : mark.start() if mark else end].strip()
        if words and not (mark and mark[0] == "\t"):
            if end >= last_line and text.startswith("\t", end):
                end = whole
            parts.append(text[begin:end].strip())
        begin = end
    return parts


def is_numbered(line: str) -> bool:
    """Whether a line begins with a number, as those of bAbI's files do."""
    return _NUMBERED.match(line) is not None


def as_one_sentence(text: str) -> str:
    """A text without the points and exclamation marks inside: what a numbered line of bAbI has is
    one fact.
    """
    words = text.rstrip(" .?!")
    return words.replace(".", "").replace("!", "") + text[len(words) :]
