"""A board in a terminal: as it is given, as the model would fill it after each step, and the steps
that each cell took.

Example::

    given      step 1     steps 2-4  steps taken
    1 3 │ . .  1 3 │ 2 2  1 3 │ 2 4  2 2 │ 3 4
    . 2 │ 3 .  4 2 │ 3 1  4 2 │ 3 1  3 2 │ 2 3
    ────┼────  ...
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ut_tf.bin.examples.notes import ranges, step_words
from ut_tf.bin.frame.terminal import Terminal

_BLANK = "."
_GAP = "   "


class _Block(NamedTuple):
    """A board under its title: each line as it is shown, all `width` columns wide."""

    width: int
    lines: list[str]


def board_lines(part: Mapping[str, Any], target: str | None, terminal: Terminal) -> list[str]:
    """The lines of the boards of an example, side by side as far as the terminal is wide.

    Args:
      part: of a thought of a document of insights, with a board.
      target: the right board as text; None: unknown.
      terminal: where they are shown.
    """
    cells = [number for number, p in enumerate(part["positions"]) if p["role"] == "cell"]
    board = part["board"]
    if len(cells) != board["rows"] * board["columns"]:
        return []
    positions = [part["positions"][number] for number in cells]
    given = [position["text"] or _BLANK for position in positions]
    right = target or ""
    # A blank divides rows, or is a cell.
    right = right if len(right) == len(given) else "".join(right.split())
    right = right if len(right) == len(given) else ""
    blocks = [_block("given", given, board, terminal)]

    for steps, texts in _answers(part, cells):
        colours = [
            "" if before != _BLANK else _verdict(text, right[cell : cell + 1])
            for cell, (before, text) in enumerate(zip(given, texts, strict=True))
        ]
        blocks.append(_block(step_words(steps), texts, board, terminal, colours))
    times = [f"{position['ponder_time']:.0f}" for position in positions]
    blocks.append(_block("steps taken", times, board, terminal, ["blue"] * len(times)))
    return list(_side_by_side(blocks, terminal.width))


def _verdict(text: str, right: str) -> str:
    """The colour of an answer; `right` is empty where the right one is unknown."""
    if not right:
        return "bold"
    return "green" if text == right else "red"


def _answers(part: Mapping[str, Any], cells: Sequence[int]) -> list[tuple[str, list[str]]]:
    """The boards that the model would answer with, each with the steps after which it would."""
    every = part["predictions"] or []
    if any(len(predictions) != len(part["positions"]) for predictions in every):
        return []
    boards = [[each[cell][0]["text"] if each[cell] else _BLANK for cell in cells] for each in every]
    alike = itertools.groupby(enumerate(boards, 1), lambda numbered: numbered[1])
    return [(ranges([step for step, _ in group]), texts) for texts, group in alike]


def _block(
    title: str,
    texts: Sequence[str],
    board: Mapping[str, Any],
    terminal: Terminal,
    colours: Sequence[str] = (),
) -> _Block:
    """A board whose boxes are divided by lines.

    Args:
      title: above it.
      texts: of the cells, row by row.
      board: its size and that of its boxes.
      terminal: where it is shown.
      colours: of the cells, "" for none; none at all: no cell has one.
    """
    rows, columns = board["rows"], board["columns"]
    box_rows, box_columns = board["box_rows"] or rows, board["box_columns"] or columns
    upright, level, crossing = terminal.rules
    cell_width = max(map(len, texts))
    box_width = box_columns * (cell_width + 1) - 1
    divider = f"{level}{crossing}{level}".join([level * box_width] * (columns // box_columns))
    lines = []
    for row in range(rows):
        if row and row % box_rows == 0:
            lines.append(divider)
        shown = []
        for cell in range(row * columns, (row + 1) * columns):
            text = texts[cell].rjust(cell_width)
            colour = colours[cell] if colours else ""
            shown.append(terminal.coloured(text, colour) if colour else text)
        boxes = [shown[first : first + box_columns] for first in range(0, columns, box_columns)]
        lines.append(f" {upright} ".join(" ".join(box) for box in boxes))
    width = max(len(divider), len(title))
    padding = " " * (width - len(divider))
    return _Block(width, [title.ljust(width), *(line + padding for line in lines)])


def _side_by_side(blocks: Sequence[_Block], width: int) -> Iterator[str]:
    rows: list[list[_Block]] = []
    used = width
    for block in blocks:
        used += len(_GAP) + block.width
        if used > width:
            rows.append([])
            used = block.width
        rows[-1].append(block)
    for row in rows:
        for lines in zip(*(block.lines for block in row), strict=True):
            yield _GAP.join(lines).rstrip()
