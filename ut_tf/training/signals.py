"""Stopping on demand: Ctrl-C, SIGTERM, the end of the terminal and the signals of batch schedulers
let the running step end and a checkpoint be saved.

A second Ctrl-C, SIGTERM or SIGQUIT kills. Announcements do not count as a second signal: a terminal
that is closed, a scheduler and the limit of processor time send theirs several times.
"""

import contextlib
import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import IO, Any, Self, cast

# Windows has the first two alone.
_ORDERS = ("SIGINT", "SIGTERM", "SIGQUIT")
_ANNOUNCEMENTS = ("SIGHUP", "SIGUSR1", "SIGUSR2", "SIGXCPU")
_ALWAYS_HEARD = ("SIGINT", "SIGTERM")
# A closed pipe, a connection that was cut, a terminal that is gone.
_NOBODY_READS = (errno.EPIPE, errno.ECONNRESET, errno.EIO)
_NOTICE = (
    b"\nstopping after the current update (the first one takes longest) or evaluation, with a"
    b" checkpoint; a second signal stops at once, without one\n"
)


def heard_signals(*handlers: Any) -> list[signal.Signals]:
    """The signals that end a training in order.

    All but Ctrl-C and SIGTERM are heard only where nobody handles or ignores them in Python: nohup
    ignores the end of the terminal, and a program may use SIGUSR1 for itself. Handlers set in C, as
    by faulthandler.register, cannot be seen.

    Args:
      *handlers: count as nobody.
    """
    present = [name for name in (*_ORDERS, *_ANNOUNCEMENTS) if hasattr(signal, name)]
    return [
        number
        for name, number in ((name, signal.Signals[name]) for name in present)
        if name in _ALWAYS_HEARD or signal.getsignal(number) in (signal.SIG_DFL, *handlers)
    ]


def is_announcement(number: int) -> bool:
    """Whether a signal announces the end of the process, and may come several times."""
    return signal.Signals(number).name in _ANNOUNCEMENTS


class StopRequest:
    """Opens a context in which the signals that end a training only set ``requested``. A second
    signal has its former effect.

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
            self._before = {number: signal.signal(number, self._note) for number in heard_signals()}
        return self

    def __exit__(self, *error: object) -> None:
        self._put_back([*self._before])

    def _note(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if not self.requested:
            self.requested = True
            # Not print: the signal may have interrupted a print. There may be no terminal any more.
            with contextlib.suppress(OSError):
                os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, self._notice)
        self._put_back([number for number in self._before if not is_announcement(number)])

    def _put_back(self, numbers: list[int]) -> None:
        for number in numbers:
            handler = self._before.pop(number)
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


@contextlib.contextmanager
def unread_output_stops(stop: StopRequest) -> Iterator[None]:
    """A context in which output that cannot be written since its reader or its terminal has gone
    sets ``stop.requested`` instead of raising; further output goes nowhere. What cannot be written
    for another reason, such as a full disk, is lost, and the next output is tried.
    """
    output, errors = (_Output(stream, stop) for stream in (sys.stdout, sys.stderr))
    with (
        contextlib.redirect_stdout(cast(IO[str], output)),
        contextlib.redirect_stderr(cast(IO[str], errors)),
    ):
        yield


class _Output:
    """A stream of text that raises no errors; those of a reader that has gone are a wish to stop.

    Args:
      stream: takes in the text until its reader has gone; None: nobody does.
      stop: told that it has.
    """

    def __init__(self, stream: IO[str] | None, stop: StopRequest) -> None:
        self._stream = stream
        self._stop = stop
        self._is_read = stream is not None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._heeding("write", text)
        return len(text)

    def flush(self) -> None:
        self._heeding("flush")

    def isatty(self) -> bool:
        return self._is_read and getattr(self._stream, "isatty", bool)()

    def _heeding(self, method: str, *arguments: str) -> None:
        if not self._is_read:
            return
        try:
            getattr(self._stream, method)(*arguments)
        except OSError as error:
            if error.errno in _NOBODY_READS:
                self._is_read = False
                self._stop.requested = True
