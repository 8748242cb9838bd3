"""Texts of others in Markdown: reports, model cards and pages of results."""

import re
from collections.abc import Collection, Sequence

from ut_tf.notices import printable


def as_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    padded: bool = False,
    written: Collection[str] = (),
) -> str:
    """A table.

    Args:
      header: a text for each column.
      rows: likewise.
      padded: whether the columns have one width, for readers in a terminal.
      written: texts that are Markdown already, such as links.
    """
    cells = [[text if text in written else as_cell(text) for text in row] for row in rows]
    head = [as_cell(text) for text in header]
    if padded:
        from tabulate import tabulate

        return tabulate(cells, headers=head, tablefmt="github", disable_numparse=True)
    lines = [head, ["---"] * len(head), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def as_cell(text: str) -> str:
    """``as_prose`` of a text, which ends no cell of a table either."""
    return as_prose(text).replace("|", r"\|")


def as_code(text: str) -> str:
    """``one_line`` of a text as code, which it does not end; nothing else in code is Markdown."""
    text = one_line(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}"


def as_block(text: str) -> str:
    """Lines as a block of code, which none of them ends."""
    lines = (printable(line).replace("```", "'''") for line in text.split("\n"))
    return "\n".join(["```", *lines, "```"])


def as_prose(text: str) -> str:
    """``one_line`` of a text that has no element, link or picture in Markdown."""
    # A backslash could be cancelled by another one before it, and intervals stand in brackets.
    return one_line(text).replace("<", "&lt;").replace("](", "]&#40;")


def one_line(text: str) -> str:
    """The text on one line, on which it ends no block of code and gives a terminal no orders."""
    return " ".join(printable(text).split())
