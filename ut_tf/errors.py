"""The error that a user's mistake raises: the commands print it as one line, without a stack trace.

``UserError`` carries one sentence: what was wrong (value, file, line), what was expected, what to
do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A mistake that the user can mend; its text is the whole message."""


_MUCH_LESS = 0.2
_MARK, _END = "[user error: ", " :end]"


def marked(sentence: str) -> str:
    """A sentence, without quotation marks, for a check inside a graph; ``marked_in`` finds it in
    all that its error says.
    """
    return f"{_MARK}{sentence}{_END}"


def marked_in(error: BaseException) -> str | None:
    """The sentence that a check inside a graph was given, or None where the error is of another
    kind.
    """
    text = str(error)
    return text.split(_MARK, 1)[1].split(_END, 1)[0] if _MARK in text and _END in text else None


def counted(count: int, noun: str) -> str:
    """Returns "1 line" or "2 lines"; the plural takes an s."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def near_names(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """At most `count` of the `known` names that look most like `name`, best first; none that is
    much less like it than the best.
    """
    near = difflib.get_close_matches(name, list(known), n=count, cutoff=0.5)
    likeness = [difflib.SequenceMatcher(None, candidate, name).ratio() for candidate in near]
    return [
        candidate
        for candidate, ratio in zip(near, likeness, strict=True)
        if ratio > likeness[0] - _MUCH_LESS
    ]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns ``'; did you mean a, b?'`` with the near names, or an empty string where none is
    near.
    """
    near = near_names(name, known)
    return f"; did you mean {', '.join(near)}?" if near else ""
