"""The lines for information of TensorFlow's log, which nobody asked for.

::

    with without_start_lines():
        import tensorflow       # says nothing of oneDNN and of the processor's instructions

The first ones ignore TF_CPP_MIN_LOG_LEVEL: TensorFlow writes them to file descriptor 2 while it is
imported, before its log is set up. It reads the variable at that moment only.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
_WARNINGS_AND_ERRORS = "1"
# What is told for information, with or without a date; warnings and errors are no such lines.
_START_LINE = re.compile(
    rb"I\d{4} |\d{4}-\d\d-\d\d [\d:.]+: I |WARNING: All log messages before absl::InitializeLog"
    rb"|To enable the following instructions: "
)


def asks_for_all_lines() -> bool:
    """Whether the user asked for TensorFlow's log, by TF_CPP_MIN_LOG_LEVEL below 3."""
    return os.environ.get(LOG_LEVEL) in ("0", "1", "2")


@contextmanager
def without_start_lines() -> Iterator[None]:
    """Leaves out TensorFlow's lines for information where the body is the first to import it, and
    the user did not ask for them. The environment is afterwards as it was.
    """
    if "tensorflow" in sys.modules or asks_for_all_lines():
        yield
        return
    is_set = LOG_LEVEL in os.environ
    os.environ.setdefault(LOG_LEVEL, _WARNINGS_AND_ERRORS)
    try:
        with held_back(lambda line: _START_LINE.match(line) is None):
            yield
    finally:
        if not is_set:
            os.environ.pop(LOG_LEVEL, None)


@contextmanager
def held_back(is_shown: Callable[[bytes], bool]) -> Iterator[None]:
    """Holds back what is written to file descriptor 2 in the body of the ``with`` statement.

    Args:
      is_shown: whether a line is written after the body; if the body fails, all are, since they
        may say why.
    """
    try:
        stderr = os.dup(2)
    except OSError:  # There is none.
        yield
        return
    with tempfile.TemporaryFile() as file:
        _flush()
        os.dup2(file.fileno(), 2)
        has_failed = True
        try:
            yield
            has_failed = False
        finally:
            _flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            file.seek(0)
            for line in file:
                if has_failed or is_shown(line):
                    os.write(2, line)


def _flush() -> None:
    if sys.stderr is not None:
        sys.stderr.flush()
