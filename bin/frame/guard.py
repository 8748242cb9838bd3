"""What a command says of an error that nobody foresaw: one line, and a file with the full report.

The report holds the trace, versions, the command line and the processor. It lies beside the run
directory or, where nothing can be written there, in the temporary folder.
"""

import errno
import itertools
import os
import platform
import re
import shlex
import tempfile
import time
import traceback
from collections.abc import Collection, Sequence
from pathlib import Path

from ut_tf.config.processor import describe_processor
from ut_tf.run_config import installed_versions

TRACEBACK_VARIABLE = "UT_TF_TRACEBACK"
"""Environment variable of developers: with 1, errors pass with their trace."""
# What a machine refuses, whatever the program does.
_REFUSALS = frozenset(
    {
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
        errno.ENAMETOOLONG,
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EFBIG,
        errno.ELOOP,
        errno.ENOTDIR,
        errno.ESTALE,
    }
)
_FAULTS = {
    errno.EMFILE: "raise the limit of open files of a program (ulimit -n)",
    errno.ENFILE: "close other programs, or raise the machine's limit of open files",
    errno.EIO: "the disk or the file system failed, look at the machine's log",
}
_OUT_OF_MEMORY = ("OOM when allocating", "out of memory", "failed to allocate", "bad_alloc")
_VARIABLES = ("TF_", "CUDA_", "XLA_", "UT_TF_", "KERAS_", "OMP_")
_RUN_FLAGS = ("--output_dir", "--model_dir")
_SHOWN = 300


def passes_traces() -> bool:
    """Whether a developer wants errors with their trace."""
    return os.environ.get(TRACEBACK_VARIABLE, "") not in ("", "0")


def sentence_of(
    error: BaseException, command: str, flags: Collection[str], argv: Sequence[str]
) -> str:
    """The message about an error; writes its report where a user cannot mend it alone.

    Args:
      error: that a command ends with.
      command: its name.
      flags: names of its flags.
      argv: the words of its command line.
    """
    if isinstance(error, OSError) and error.errno in _REFUSALS:
        if not error.filename:
            return f"the output cannot be written ({error.strerror}): make room for it."
        return (
            f"{_name(error.filename)} cannot be used ({error.strerror}): check the name, the"
            " permissions and the room there."
        )
    if isinstance(error, OSError) and error.errno in _FAULTS:
        name = f"{_name(error.filename)}: " if error.filename else ""
        return f"{name}the machine refused ({error.strerror}): {_FAULTS[error.errno]}."
    reason = _reason(error)
    report = _told(write_report(error, command, argv))
    if is_out_of_memory(error):
        return f"out of memory ({reason}): {_remedy(flags)}; {report}"
    kind = f"{type(error).__name__} ({_place(error, argv)}{reason})"
    return f"an error that was not foreseen, {kind}; {report}"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory was not enough, of the machine or of a device."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & {"MemoryError", "ResourceExhaustedError"}:
        return True
    text = _text(error).lower()
    is_of_library = isinstance(error, RuntimeError) or "OpError" in names
    return is_of_library and any(words.lower() in text for words in _OUT_OF_MEMORY)


def write_report(error: BaseException, command: str, argv: Sequence[str]) -> Path | None:
    """The file with all that is known of an error; None: it can be written nowhere."""
    name = f"{command}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.error.txt"
    content = _report(error, command, argv).encode("utf-8", errors="backslashreplace")
    run = _run_folder(argv)
    beside = [] if run is None else [run.with_name(f"{run.name}.{name}")]
    for path in (*beside, Path(tempfile.gettempdir()) / name):
        try:
            # In a folder of all users a file or link of this name may be another's.
            with path.open("xb") as file:
                file.write(content)
        except (OSError, ValueError):
            continue
        return path
    return None


def _told(report: Path | None) -> str:
    if report is None:
        return f"no report could be written; {TRACEBACK_VARIABLE}=1 shows the trace."
    return f"the full report is in {report}."


def _remedy(flags: Collection[str]) -> str:
    remedies = [
        words
        for flag, words in (
            ("hparams_set", "batch_size, hidden_size or max_length in --hparams"),
            ("decode_hparams", "batch_size, beam_size or max_input_length in --decode_hparams"),
            ("lengths", "--lengths"),
            ("batch_size", "--batch_size"),
        )
        if flag in flags
    ]
    if not remedies:
        return "give it less at once, or use a machine with more memory"
    return f"lower {' or '.join(remedies)}"


def _run_folder(argv: Sequence[str]) -> Path | None:
    """The run directory that a command line names, where there is a folder to write beside it."""
    for word, value in zip(argv, [*argv, ""][1:], strict=True):
        flag, equals, given = word.partition("=")
        if flag in _RUN_FLAGS:
            try:
                path = Path(os.path.abspath(os.path.expanduser(given if equals else value)))
            except OSError:  # The working folder is gone.
                return None
            return path if path.name and path.parent.is_dir() else None
    return None


def _report(error: BaseException, command: str, argv: Sequence[str]) -> str:
    versions = " ".join(f"{name} {version}" for name, version in installed_versions().items())
    variables = [
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if name.startswith(_VARIABLES)
    ]
    processor = describe_processor()
    try:
        trace = "".join(traceback.format_exception(error))
    except (MemoryError, RecursionError):
        trace = f"{type(error).__name__}, whose trace cannot be written\n"
    return (
        f"command line: {shlex.join([command, *argv])}\n"
        f"folder: {_working_folder()}\n"
        f"time: {time.strftime('%Y-%m-%dT%H:%M:%S%z')}\n"
        f"versions: {versions}\n"
        f"system: {platform.platform()}\n"
        f"processor: {processor['model'] or platform.machine()}, {processor['cores']} cores,"
        f" {' '.join(processor['flags'])}\n"
        f"variables: {' '.join(variables)}\n\n"
        f"{trace}"
    )


def _working_folder() -> str:
    try:
        return os.getcwd()
    except OSError as error:
        return str(error)


def _name(filename: str | bytes | int) -> str:
    text = os.fsdecode(filename) if isinstance(filename, bytes) else str(filename)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ..."


def _reason(error: BaseException) -> str:
    """The first line of what an error says, without what Keras puts around it."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", _text(error)).strip()
    line = re.sub(r"^Exception encountered when calling [^\n]*\n+", "", text).partition("\n")[0]
    return (line[:_SHOWN] + (" ..." if len(line) > _SHOWN else "")) or "without a message"


def _place(error: BaseException, argv: Sequence[str]) -> str:
    """Where the code of the user's own failed, "in FILE:LINE: "; nothing where it did not."""
    words = [part for word in argv for part in word.split("=", 1)]
    folder = dict(itertools.pairwise(words)).get("--usr_dir", "")
    if not folder:
        return ""
    root = os.path.realpath(os.path.expanduser(folder))
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if os.path.realpath(frame.filename).startswith(root + os.sep):
            return f"in {frame.filename}:{frame.lineno}: "
    return ""


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return ""
