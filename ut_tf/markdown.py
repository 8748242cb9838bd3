"""Texts of others in Markdown: reports, model cards and pages of results."""

from __future__ import annotations

from ut_tf.notices import printable


def as_cell(text: str) -> str:
    """``as_prose`` of a text, which ends no cell of a table either."""
    return as_prose(text).replace("|", r"\|")


def as_code(text: str) -> str:
    """``as_prose`` of a text as code, which does not end the code either."""
    return f"`{as_prose(text).replace('`', '&#96;')}`"


def as_prose(text: str) -> str:
    """``one_line`` of a text that has no element, link or picture in Markdown."""
    # A backslash could be cancelled by another one before it, and intervals stand in brackets.
    return one_line(text).replace("<", "&lt;").replace("](", "]&#40;")


def one_line(text: str) -> str:
    """The text on one line, on which it ends no block of code and gives a terminal no orders."""
    return " ".join(printable(text).split())
