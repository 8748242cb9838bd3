"""Warnings of the library, in the words of whoever shows them.

::

    warn("`seed`=-1 is odd.")         # a program prints: warning: `seed`=-1 is odd.
    with worded_by(as_flags):
        warn("`seed`=-1 is odd.")     # ut-trainer prints: warning: --random_seed=-1 is odd.

Texts of the library name arguments in backticks. A command shows them as its flags.
"""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_ORDERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_wording: ContextVar[Callable[[str], str]] = ContextVar("wording", default=str)


def worded(text: str) -> str:
    """A text of the library in the words of the program that runs."""
    return _wording.get()(text)


def printable(text: str) -> str:
    """The text with U+FFFD in place of what a terminal obeys or cannot show: control characters but
    tabs and ends of lines, and halves of surrogate pairs.
    """
    return _ORDERS.sub("\ufffd", text)


def warn(sentence: str) -> None:
    """Prints a warning to standard error."""
    print(f"warning: {printable(worded(sentence))}", file=sys.stderr, flush=True)


def note(sentence: str) -> None:
    """Prints to standard error what is as it should be, and good to know."""
    print(f"note: {printable(worded(sentence))}", file=sys.stderr, flush=True)


def report(text: str) -> None:
    """Prints to standard error what is being done."""
    print(printable(text), file=sys.stderr, flush=True)


@contextmanager
def worded_by(wording: Callable[[str], str]) -> Iterator[None]:
    """Words the texts of the library by `wording` in the body of the ``with`` statement."""
    token = _wording.set(wording)
    try:
        yield
    finally:
        _wording.reset(token)
