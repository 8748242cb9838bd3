"""Frame of the fault campaigns: the outcome of a call, outcomes counted by fault, and the script
around a campaign.

::

    counts = Counts("file cut: vocabulary")
    counts.add(judge(read, expected), "words.txt, 8 bytes")
    run(__doc__, campaign, seconds=120.0)      # the command line, and the report at the end
"""

import argparse
import contextlib
import dataclasses
import io
import json
import os
import random
import re
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
# The scripts try the checkout that they are of.
sys.path.insert(0, str(ROOT))

Kind = Literal["same", "told", "refused", "short"]
KINDS: tuple[Kind, ...] = ("same", "told", "refused", "short")
LONGEST = 60.0
_WARNING = re.compile(r"(ut-[\w-]+: )?(warning|note): ")
_COLUMNS = ("fault", "tried", "as without it", "told", "refused", "fell short", "")


class TooSlow(BaseException):
    """A call that takes more than a minute."""


class Outcome(NamedTuple):
    """The outcome of one call.

    Fields:
      kind: "same": the answer of an undamaged run without a word; "told": an answer with a warning;
        "refused": one sentence; "short": a promise was broken, by another answer without a word,
        any other error, or no end within a minute.
      said: the warnings or the error.
    """

    kind: Kind
    said: str = ""


@dataclass
class Counts:
    """The outcomes of one fault.

    Args:
      fault: its name.
      note: what else the report says of it.
      kinds: how many calls had each outcome.
      short: the calls that fell short, in words.
    """

    fault: str
    note: str = ""
    kinds: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    short: list[str] = field(default_factory=list)

    def add(self, outcome: Outcome, what: str) -> None:
        """Counts one outcome; `what` names the call on standard error if it fell short."""
        self.kinds[outcome.kind] += 1
        if outcome.kind == "short":
            self.short.append(what)
            tell(f"{self.fault}, {what}: fell short\n{outcome.said[-800:]}")


@dataclass(frozen=True)
class Plan:
    """The limits of a campaign.

    Args:
      seconds: after which nothing new is tried.
      seed: of all that is random.
      only: part of the names of the faults to try.
    """

    seconds: float
    seed: int
    only: str

    def chosen(self, names: Iterable[str]) -> list[str]:
        """Those of the names that are to be tried."""
        return [name for name in names if self.only in name]

    def generator(self, name: str) -> random.Random:
        """The chance of one fault, whichever others are tried."""
        return random.Random(f"{self.seed} {name}")


Campaign = Callable[[Path, Plan], Iterable[Counts]]


def tell(line: str) -> None:
    """Prints a line to standard error."""
    print(line, file=sys.stderr, flush=True)


def judge(call: Callable[[], Any], expected: Any) -> Outcome:
    """Calls a reader and compares its answer with that of an undamaged run."""
    from ut_tf.errors import UserError

    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), limit_time(LONGEST):
            answer = call()
    except UserError as error:
        return Outcome("refused" if str(error).strip() else "short", str(error))
    except (Exception, TooSlow) as error:
        return Outcome("short", "".join(traceback.format_exception(error)[-3:]))
    if said.getvalue():
        return Outcome("told", said.getvalue())
    if answer == expected:
        return Outcome("same")
    return Outcome("short", f"another answer without a word: {answer!r}")


class Call(NamedTuple):
    """The result of a command in this process.

    Fields:
      status: its exit status; None: it raised an error.
      output: what it wrote to standard output.
      errors: what it wrote to standard error, or the trace.
    """

    status: int | None
    output: str
    errors: str


def call_command(
    main: Callable[[list[str]], int], argv: list[str], longest: float = LONGEST
) -> Call:
    """Calls a command as the shell would, in this process."""
    output, errors = _Captured(), _Captured()
    try:
        with (
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(errors),
            limit_time(longest),
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
        """The text that was written."""
        self.flush()
        content: bytes = self.buffer.getvalue()  # type: ignore[attr-defined]
        return content.decode("utf-8", errors="replace")


def of_command(call: Call) -> Outcome:
    """The outcome of a command's call.

    A refusal is status 1 or 2 and a line that names the command and begins with "error:"; only
    warnings and notes may stand before it.
    """
    lines = call.errors.splitlines()
    if call.status is None or "Traceback" in call.errors or "not foreseen" in call.errors:
        return Outcome("short", call.errors)
    if call.status == 0:
        is_told = any(_WARNING.match(line) for line in lines)
        return Outcome("told" if is_told else "same", call.errors)
    errors = [line for line in lines if ": error: " in line and not _WARNING.match(line)]
    if call.status not in (1, 2) or len(errors) != 1 or errors[0] != lines[-1]:
        return Outcome("short", f"status {call.status}, {len(errors)} errors:\n{call.errors}")
    return Outcome("refused", call.errors)


@contextlib.contextmanager
def limit_time(seconds: float) -> Iterator[None]:
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


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The counts as a Markdown table."""
    from ut_tf.markdown import as_table

    counts = [[row["kinds"][kind] for kind in KINDS] for row in rows]
    lines = [
        [row["fault"], *map(str, (sum(kinds), *kinds)), row["note"]]
        for row, kinds in zip(rows, counts, strict=True)
    ]
    return as_table(_COLUMNS, lines)


def run(documentation: str | None, campaign: Campaign, seconds: float) -> None:
    """Runs a campaign as a script; the exit status is 1 if something fell short.

    Args:
      documentation: of the script.
      campaign: yields the counts of each fault.
      seconds: that it takes unless told otherwise.
    """
    command = argparse.ArgumentParser(description=(documentation or "").partition("\n\n")[0])
    command.add_argument("--seconds", type=float, default=seconds, help="default: %(default)s")
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--only", default="", help="part of the names of faults to try")
    command.add_argument("--json", action="store_true", help="prints lines of JSON")
    flags = command.parse_args()
    os.environ.update(CUDA_VISIBLE_DEVICES="-1", TF_CPP_MIN_LOG_LEVEL="3")
    # A command that reads standard input must not wait for it.
    sys.stdin = open(os.devnull)  # noqa: SIM115
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for counts in campaign(Path(folder), Plan(flags.seconds, flags.seed, flags.only)):
            rows.append(dataclasses.asdict(counts))
            if flags.json:
                print(json.dumps(rows[-1]), flush=True)
    if not flags.json:
        print(table(rows))
    sys.exit(any(row["short"] for row in rows))
