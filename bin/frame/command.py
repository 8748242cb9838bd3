"""The frame of all commands: errors in one line, quiet libraries, and scores."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import functools
import importlib
import io
import logging as standard_logging
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from absl import logging

from ut_tf import registry
from ut_tf.bin.entry import EXIT_INTERRUPTED, Ending
from ut_tf.bin.frame import guard
from ut_tf.bin.frame.flags import Flag, FlagError, HelpAsked, hyperparameters
from ut_tf.bin.frame.shared_flags import in_flags
from ut_tf.data.text.line_ends import check_line_ends
from ut_tf.errors import UserError, marked_in
from ut_tf.keras_backend import choose_tensorflow
from ut_tf.notices import printable, worded, worded_by
from ut_tf.start_lines import LOG_LEVEL, asks_for_all_lines, held_back

EXIT_USER_ERROR = 1
EXIT_FLAG_ERROR = 2
EXIT_BROKEN_PIPE = 141


class InputError(UserError):
    """Standard input cannot be read: a command that survives a bad line ends with this one."""


def entry_point(
    command: str, flags: Sequence[Flag]
) -> Callable[[Callable[[list[str]], int | None]], Callable[..., int]]:
    """Decorates what a command does: the function made of it takes the words of a command line,
    those of the shell by default, and returns the exit status.

    Args:
      command: its name.
      flags: that it has.
    """
    return lambda body: functools.partial(execute, command, flags, body)


def execute(
    command: str,
    flags: Sequence[Flag],
    body: Callable[[list[str]], int | None],
    argv: Sequence[str] | None = None,
) -> int:
    """Runs `body` and returns the exit status: the body's own, or what its error deserves.

    A user's mistake becomes one line on standard error. It names `flags`, as all texts of the
    library do that `body` passes through ``worded``. Any other exception becomes one line, too: it
    says where the full report lies (``guard``).

    Args:
      command: its name.
      flags: that it has.
      body: does its work, given the words of the command line.
      argv: the words of its command line; None: those that the shell gave.
    """
    names = frozenset(flag.name for flag in flags)
    answer = _Answer()
    try:
        # User code imports TensorFlow at once.
        with (
            _interrupts_raised(),
            registry.before_user_code(import_tensorflow),
            worded_by(functools.partial(_with_flags, names)),
        ):
            choose_tensorflow()
            words = list(sys.argv[1:] if argv is None else argv)
            with _answered(command, _Frame(names, words), answer):
                _check_streams()
                answer.status = body(words) or 0
            return answer.status
    except KeyboardInterrupt:
        print(f"{command}: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has gone: nothing is left to say.
        _drop(sys.stdout)
        return answer.status or EXIT_BROKEN_PIPE
    finally:
        _drop_unread_errors()


@contextlib.contextmanager
def _interrupts_raised() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt in the context, where ``Ending`` ends the process outside."""
    ending = signal.getsignal(signal.SIGINT)
    if not isinstance(ending, Ending):
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, ending)


class _Frame(NamedTuple):
    """What is known of a call besides its command.

    Fields:
      flags: names of the command's flags.
      argv: the words of the command line.
    """

    flags: frozenset[str]
    argv: list[str]


@dataclasses.dataclass
class _Answer:
    """The exit status of a command, 0 unless something sets it."""

    status: int = 0


@contextlib.contextmanager
def _answered(command: str, frame: _Frame, answer: _Answer) -> Iterator[None]:
    """Turns errors in the context into a line on standard error and the answer's exit status."""
    try:
        try:
            yield
        except HelpAsked as asked:
            print(asked)
        sys.stdout.flush()
    except UserError as error:
        tell(command, f"error: {error}")
        answer.status = EXIT_FLAG_ERROR if isinstance(error, FlagError) else EXIT_USER_ERROR
    except BrokenPipeError:
        raise
    except Exception as error:
        if _is_of_lost_terminal(error):
            raise BrokenPipeError from error
        if guard.passes_traces() and marked_in(error) is None:
            raise
        tell(command, f"error: {_sentence(command, frame, error)}")
        answer.status = EXIT_USER_ERROR


def _is_of_lost_terminal(error: Exception) -> bool:
    """Whether a terminal was closed; a disk that fails has the same number."""
    if not isinstance(error, OSError) or error.errno != errno.EIO:
        return False
    # Late: Windows has none.
    import termios

    try:
        termios.tcgetattr(sys.stdout.fileno())
    except termios.error as refused:
        return bool(refused.args[0] == errno.EIO)
    except (OSError, ValueError):
        return False
    return False


def _sentence(command: str, frame: _Frame, error: Exception) -> str:
    # A check inside a graph, where no UserError can be raised.
    marked = marked_in(error)
    if marked is not None:
        return marked
    refusal = _refusal_of_output()
    if refusal is not None:
        return refusal
    return guard.sentence_of(error, command, frame.flags, frame.argv)


def _check_streams() -> None:
    """Raises UserError where standard output is closed: nothing could be answered."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if sys.stdout is None:
        raise UserError("standard output is closed: send it to a file, or to /dev/null.")
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        # A character that the terminal's encoding lacks is shown as its number.
        sys.stdout.reconfigure(errors="backslashreplace")


def _refusal_of_output() -> str | None:
    """Why standard output takes nothing more; None: it does."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _drop(sys.stdout)
        return f"the output cannot be written ({error.strerror or error}): make room for it."
    return None


def _drop_unread_errors() -> None:
    """Sends what standard error still holds nowhere where its reader or its terminal has gone."""
    try:
        sys.stderr.flush()
    except OSError:
        _drop(sys.stderr)


def _drop(stream: IO[str]) -> None:
    """Sends what a stream still holds nowhere: Python must not try again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def standard_input() -> Iterator[bytes]:
    """Yields the lines of standard input with their ends.

    Raises:
      InputError: it is closed, or cannot be read.
    """
    if sys.stdin is None:
        raise InputError("standard input is closed: name a file, or send text to it.")
    return _lines_of(sys.stdin.buffer)


def _lines_of(file: IO[bytes]) -> Iterator[bytes]:
    try:
        yield from check_line_ends(file, "standard input")
    except OSError as error:
        raise InputError(
            f"standard input cannot be read ({error.strerror or error}): send text to it, or name a"
            " file."
        ) from error


def is_typed() -> bool:
    """Whether standard input is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def prompted(lines: Iterable[str]) -> Iterator[str]:
    """The lines that somebody types, with a prompt before each."""
    source = iter(lines)
    while True:
        print("> ", end="", file=sys.stderr, flush=True)
        line = next(source, None)
        if line is None:
            print(file=sys.stderr)
            return
        yield line


def tell(command: str, message: str) -> None:
    """Prints a message, with texts of the library in it, as one line on standard error.

    What a terminal would take for orders is left out: a message may quote what others wrote.
    """
    line = printable(" ".join(worded(message).split()))
    print(f"{command}: {line}", file=sys.stderr, flush=True)


def _with_flags(names: frozenset[str], message: str) -> str:
    """A message of the library in the words of the command whose flags have these names."""
    return in_flags(message, names, hyperparameters() if "hparams" in names else frozenset())


def import_tensorflow() -> None:
    """Imports TensorFlow without what its libraries print at that moment, unless the user set
    TF_CPP_MIN_LOG_LEVEL below 3. A terminal is told first what is waited for.
    """
    # As git does it: whoever reads a log later waits for nothing.
    if "tensorflow" not in sys.modules and sys.stderr.isatty():
        print("loading TensorFlow ...", file=sys.stderr, flush=True)
    if asks_for_all_lines():
        return
    os.environ.setdefault(LOG_LEVEL, "3")
    logging.set_verbosity(logging.ERROR)  # tensorflow-datasets warns of each configuration of ours.
    with held_back(lambda _: False):
        importlib.import_module("tensorflow")
    # It warns of graphs that are traced again, as one of each rule of a sweep has to be.
    standard_logging.getLogger("tensorflow").setLevel(standard_logging.ERROR)


@contextlib.contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Sends what Python code prints to standard error: standard output holds the result alone."""
    with contextlib.redirect_stdout(sys.stderr):
        yield


def refuse_overwriting(flag: str, target: Path | None, sources: Iterable[Path]) -> None:
    """Raises FlagError where a file that is to be written is one of those that are read.

    Args:
      flag: name of the flag that says where to write.
      target: what it says; None: no file.
      sources: the files that are read.
    """
    if target is None or not target.exists():
        return
    for source in sources:
        if source.exists() and source.samefile(target):
            raise FlagError(f"--{flag}={target} is the file that is read: name another.")
