"""The frame of all commands: errors in one line, quiet libraries, and scores."""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging as standard_logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from absl import logging

from ut_tf import registry
from ut_tf.bin.flags import Flag, FlagError, HelpAsked, hyperparameters
from ut_tf.bin.shared_flags import in_flags
from ut_tf.errors import UserError, marked_in
from ut_tf.notices import worded, worded_by
from ut_tf.start_lines import LOG_LEVEL, asks_for_all_lines, held_back

if TYPE_CHECKING:
    from ut_tf.metrics.bleu import Score

EXIT_USER_ERROR = 1
EXIT_FLAG_ERROR = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


def execute(command: str, flags: Sequence[Flag], body: Callable[[], int | None]) -> int:
    """Runs `body` and returns the exit status: the body's own, or what its error deserves.

    A user's mistake becomes one line on standard error. It names `flags`, as all texts of the
    library do that `body` passes through ``worded``. Any other exception passes, with its trace: it
    is a bug, and the trace is what a report needs.
    """
    names = frozenset(flag.name for flag in flags)
    try:
        # User code imports TensorFlow at once.
        with (
            registry.before_user_code(import_tensorflow),
            worded_by(functools.partial(_with_flags, names)),
        ):
            return _answer(command, body)
    except KeyboardInterrupt:
        print(f"{command}: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has gone: nothing is left to say, and Python must not try at exit
        # either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE


def _answer(command: str, body: Callable[[], int | None]) -> int:
    status = 0
    try:
        status = body() or 0
    except HelpAsked as asked:
        print(asked)
    except UserError as error:
        tell(command, f"error: {error}")
        status = EXIT_FLAG_ERROR if isinstance(error, FlagError) else EXIT_USER_ERROR
    except Exception as error:
        # A check inside a graph, where no UserError can be raised.
        sentence = marked_in(error)
        if sentence is None:
            raise
        tell(command, f"error: {sentence}")
        status = EXIT_USER_ERROR
    sys.stdout.flush()
    return status


def tell(command: str, message: str) -> None:
    """Prints a message, with texts of the library in it, as one line on standard error."""
    print(f"{command}: {' '.join(worded(message).split())}", file=sys.stderr, flush=True)


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
    """Sends what Python code prints to standard error, so that standard output holds the command's
    result alone.
    """
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


def scores_table(scores: Mapping[str, Score]) -> str:
    """One line for each figure, with sacrebleu's details and signature."""
    titles = {
        name: f"BLEU_{name.removeprefix('bleu_')}" if name.startswith("bleu_") else score.name
        for name, score in scores.items()
    }
    width = max(map(len, titles.values()), default=0)
    lines = []
    for name, score in scores.items():
        details = f"  {score.details}" if score.details else ""
        lines.append(f"{titles[name]:<{width}} = {score.value:6.2f}{details}  [{score.signature}]")
    return "\n".join(lines)
