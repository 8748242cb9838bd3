"""Stopping on demand: SIGTERM and Ctrl-C let the running step end and a checkpoint be saved; a
second one kills.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_NOTICE = (
    b"\nstopping after the current update (the first one takes longest) or evaluation, with a"
    b" checkpoint; a second signal stops at once, without one\n"
)


class StopRequest:
    """A context in which SIGTERM and SIGINT only set ``requested``; the second one does what it did
    before.

    Signals can be caught in the main thread only: elsewhere the context does nothing.

    Args:
      notice: what is written to standard error at the first signal.
    """

    def __init__(self, notice: bytes = _NOTICE) -> None:
        self.requested = False
        self._notice = notice
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in _SIGNALS}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._put_back()

    def _note(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.requested = True
        # Not print: the signal may have interrupted a print.
        os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, self._notice)
        self._put_back()

    def _put_back(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        self._before = {}
