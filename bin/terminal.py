"""The terminal that a command writes to."""

from __future__ import annotations

import os
from typing import TextIO

_WIDTH = 100


def width_of(stream: TextIO) -> int:
    """Columns of the terminal behind a stream: what COLUMNS says, else the terminal, else 100."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(stream.fileno()).columns or _WIDTH
    except (OSError, ValueError):
        return _WIDTH
