"""The terminal that a command writes to: its width, its characters, its colours."""

import math
import os
from dataclasses import dataclass
from typing import Self, TextIO

_WIDTH = 100
_LEVELS = "▁▂▃▄▅▆▇█"
_DRAWN = f"▌·←→…│─┼{_LEVELS}"
_CODES = {"blue": "34", "red": "31", "green": "32", "bold": "1", "faint": "2"}


def width_of(stream: TextIO) -> int:
    """Columns of the terminal behind a stream: what COLUMNS says, else the terminal, else 100."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(stream.fileno()).columns or _WIDTH
    except (OSError, ValueError):
        return _WIDTH


@dataclass(frozen=True)
class Terminal:
    """What can be shown.

    Args:
      width: in columns.
      has_drawing: whether it shows the characters of bars; otherwise they are ASCII.
      has_colour: whether it takes ANSI codes.
    """

    width: int = _WIDTH
    has_drawing: bool = True
    has_colour: bool = False

    @classmethod
    def of(cls, stream: TextIO) -> Self:
        """The terminal behind a stream; colours only where one is there and NO_COLOR is not set."""
        try:
            _DRAWN.encode(getattr(stream, "encoding", None) or "ascii")
            has_drawing = True
        except (UnicodeEncodeError, LookupError):
            has_drawing = False
        has_colour = (
            stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        )
        return cls(width_of(stream), has_drawing, has_colour)

    def coloured(self, text: str, colour: str) -> str:
        """The text in "blue", "red", "green", "bold" or "faint", where there are colours."""
        return f"\033[{_CODES[colour]}m{text}\033[0m" if self.has_colour and text else text

    def bar(self, value: float, per_unit: float, width: int) -> str:
        """A bar of `value` units of `per_unit` columns, filled up with blanks to `width`."""
        length = max(0.0, min(value * per_unit, width))
        full = int(length)
        half = "▌" if length - full >= 0.5 and self.has_drawing else ""
        return f"{('█' if self.has_drawing else '#') * full}{half}".ljust(width)

    @property
    def arrow(self) -> str:
        """Points to the left."""
        return "←" if self.has_drawing else "<-"

    @property
    def forward(self) -> str:
        """Points to the right."""
        return "→" if self.has_drawing else "->"

    @property
    def rules(self) -> tuple[str, str, str]:
        """An upright line, a level one, and their crossing."""
        return ("│", "─", "┼") if self.has_drawing else ("|", "-", "+")

    def level(self, share: float) -> str:
        """A bar of one column, upright, for a share from 0 to 1; empty where it cannot be drawn."""
        if not self.has_drawing:
            return ""
        return _LEVELS[min(len(_LEVELS) - 1, max(0, math.ceil(share * len(_LEVELS)) - 1))]

    def cut(self, text: str, width: int) -> str:
        """The text, shortened to `width` columns where it is longer."""
        if len(text) <= width:
            return text
        dots = "…" if self.has_drawing else "..."
        return text[: max(0, width - len(dots))] + dots
