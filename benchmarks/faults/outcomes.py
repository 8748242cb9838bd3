"""What becomes of a command or a reader when something is wrong, counted by fault."""

from __future__ import annotations

import contextlib
import io
import json
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

Kind = Literal["same", "told", "refused", "changed", "traceback"]
RANKS: tuple[Kind, ...] = ("same", "told", "refused", "changed", "traceback")
SHORT: tuple[Kind, ...] = ("changed", "traceback")
LONGEST = 60.0
_SHOWN = 3


class TooSlow(BaseException):
    """A call that takes more than a minute."""


class Outcome(NamedTuple):
    """What became of one call.

    Fields:
      kind: "same": the answer of an undamaged run without a word; "told": an answer with a warning;
        "refused": one sentence; "changed": another answer without a word; "traceback": any other
        error, or no end within a minute.
      said: the warnings or the error.
      answer: what came back, if anything.
    """

    kind: Kind
    said: str = ""
    answer: Any = None


@dataclass
class Counts:
    """The outcomes of one fault.

    Args:
      fault: its name.
      kinds: how many calls had each outcome.
      short: the calls that fell short, in words.
    """

    fault: str
    kinds: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(RANKS, 0))
    short: list[str] = field(default_factory=list)

    def add(self, outcome: Outcome, what: str) -> None:
        """Counts one outcome; `what` says on standard error what fell short."""
        self.kinds[outcome.kind] += 1
        if outcome.kind in SHORT:
            self.short.append(what)
            said = outcome.said[-800:]
            print(f"{self.fault}, {what}: {outcome.kind}\n{said}", file=sys.stderr, flush=True)

    @property
    def has_failed(self) -> bool:
        """Whether a promise was broken."""
        return bool(self.short)

    def report(self) -> str:
        """The line of JSON."""
        tried = sum(self.kinds.values())
        short = self.short[:_SHOWN]
        return json.dumps({"fault": self.fault, "tried": tried, **self.kinds, "short": short})


def judged(call: Callable[[], Any], expected: Any) -> Outcome:
    """Calls a reader and compares its answer with that of an undamaged run."""
    from ut_tf.errors import UserError

    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), bounded(LONGEST):
            answer = call()
    except UserError as error:
        return Outcome("refused" if str(error).strip() else "traceback", str(error))
    except (Exception, TooSlow) as error:
        return Outcome("traceback", "".join(traceback.format_exception(error)[-3:]))
    if said.getvalue():
        return Outcome("told", said.getvalue(), answer)
    return Outcome("same" if answer == expected else "changed", "", answer)


def worst(outcomes: list[Outcome]) -> Outcome:
    """The outcome that counts, of several readers of the same damage."""
    return max(outcomes, key=lambda outcome: RANKS.index(outcome.kind))


class Call(NamedTuple):
    """What a command did in this process.

    Fields:
      status: its exit status; None: it raised an error.
      output: what it wrote to standard output.
      errors: what it wrote to standard error, or the trace.
    """

    status: int | None
    output: str
    errors: str


def called(main: Callable[[list[str]], int], argv: list[str], longest: float = LONGEST) -> Call:
    """Calls a command as the shell would, in this process."""
    output, errors = _Captured(), _Captured()
    try:
        with (
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(errors),
            bounded(longest),
        ):
            status: int | None = main(argv)
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except (Exception, TooSlow) as error:
        return Call(None, output.text, errors.text + "".join(traceback.format_exception(error)))
    return Call(status, output.text, errors.text)


class _Captured(io.TextIOWrapper):
    """A text stream in memory, which takes bytes through its buffer as standard output does."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", errors="surrogateescape")

    @property
    def text(self) -> str:
        """What was written."""
        self.flush()
        content: bytes = self.buffer.getvalue()  # type: ignore[attr-defined]
        return content.decode("utf-8", errors="replace")


def of_command(call: Call, expected: str | None = None) -> Outcome:
    """The outcome of a command's call.

    A refusal is status 1 or 2 and a line that names the command and begins with "error:"; only
    warnings and notes may stand before it.
    """
    lines = call.errors.splitlines()
    complaints = [line for line in lines if not line.startswith(("warning: ", "note: "))]
    is_trace = "Traceback" in call.errors or "not foreseen" in call.errors
    if call.status is None or is_trace:
        return Outcome("traceback", call.errors)
    if call.status == 0:
        is_same = expected is None or call.output == expected
        kind: Kind = "told" if len(lines) > len(complaints) else "same" if is_same else "changed"
        return Outcome(kind, call.errors, call.output)
    errors = [line for line in complaints if ": error: " in line]
    if call.status not in (1, 2) or len(errors) != 1 or errors[0] != lines[-1]:
        return Outcome("traceback", f"status {call.status}, {len(errors)} errors:\n{call.errors}")
    return Outcome("refused", call.errors)


@contextlib.contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """Raises TooSlow in the context after so many seconds."""

    def stop(*_: object) -> None:
        raise TooSlow(f"a call took more than {seconds:.0f} seconds")

    former = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
