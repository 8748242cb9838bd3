"""The lines of TensorFlow's log that nobody asked for: those for information, and on a machine
without a GPU the error that there is none.

::

    with without_start_lines():
        import tensorflow       # says nothing of oneDNN and of the processor's instructions

The first ones ignore TF_CPP_MIN_LOG_LEVEL: TensorFlow writes them to file descriptor 2 while it is
imported, before its log is set up. It reads the variable at that moment only.
"""

import glob
import importlib.util
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


_NO_DRIVER_LINE = b"failed call to cuInit"
# The driver, that of Windows below WSL, and those of Jetson boards.
_NVIDIA_DRIVERS = ("/proc/driver/nvidia", "/dev/dxg", "/dev/nvhost-*", "/dev/nvmap")


def asks_for_all_lines() -> bool:
    """Whether the user asked for TensorFlow's log, by TF_CPP_MIN_LOG_LEVEL below 3."""
    return os.environ.get(LOG_LEVEL) in ("0", "1", "2")


@contextmanager
def without_start_lines() -> Iterator[None]:
    """Leaves out TensorFlow's lines for information where the body is the first to import it, and
    the user did not ask for them; where there is no GPU the error of CUDA's start, too. The
    environment is afterwards as it was.
    """
    if "tensorflow" in sys.modules or asks_for_all_lines():
        yield
        return
    is_set = LOG_LEVEL in os.environ
    os.environ.setdefault(LOG_LEVEL, _WARNINGS_AND_ERRORS)
    try:
        with held_back(_is_shown):
            yield
            if _lacks_gpu():
                _look_for_devices()
    finally:
        if not is_set:
            os.environ.pop(LOG_LEVEL, None)


def _is_shown(line: bytes) -> bool:
    is_of_cuda = _NO_DRIVER_LINE in line and _lacks_gpu()
    return _START_LINE.match(line) is None and not is_of_cuda


def _lacks_gpu() -> bool:
    """Whether this is a Linux machine with neither a driver of NVIDIA nor the library of TPUs."""
    has_none = sys.platform == "linux" and not any(map(glob.glob, _NVIDIA_DRIVERS))
    return has_none and importlib.util.find_spec("libtpu") is None


def _look_for_devices() -> None:
    """Lets TensorFlow look for devices now: it does so once, and tells then that CUDA does not
    start.
    """
    if "tensorflow" in sys.modules:
        sys.modules["tensorflow"].config.list_physical_devices()


@contextmanager
def held_back(is_shown: Callable[[bytes], bool]) -> Iterator[None]:
    """Holds back what is written to file descriptor 2 in the body of the ``with`` statement.

    Args:
      is_shown: whether a line is written after the body; if the body fails, all are, since they
        may say why, but none after Ctrl-C.
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
        except KeyboardInterrupt:
            has_failed = False
            raise
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
