"""Commands of ut-tf in processes that can be watched and killed.

::

    load()                                            # once: imports TensorFlow, computes nothing
    process = Process("trainer", ["--problem=...", ...], Path("errors.txt"))
    process.reaches("save", 2)                        # False: it ended before its second checkpoint
    process.kill(), process.phase                     # "save": where the kill hit it
    in_child(answers, Path("export/1"))               # the value of a function, computed in a child

A process is a fork of this one, which has imported TensorFlow and computed nothing: that saves
each of them ten seconds. It tells through a pipe which phase it enters and leaves. This process
must stay without threads, so whatever needs TensorFlow runs in a child, too.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import pickle
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

# The functions in which a process is in a phase, and the letter of the phase in the pipe.
_PHASES = {
    "step": ("s", "ut_tf.training.step", "TrainingStep.update"),
    "save": ("c", "ut_tf.storage.checkpoints", "CheckpointStore.save"),
    "evaluation": ("e", "ut_tf.evaluation.evaluator", "Evaluator.evaluate"),
    "data preparation": ("d", "ut_tf.bin.datagen", "prepare_data"),
    "averaging": ("a", "ut_tf.training.averaging", "average_checkpoints"),
    "export": ("x", "ut_tf.serving.export", "export_run"),
    "writing an export": ("w", "ut_tf.serving.export", "_write"),
}
_NAMES = {letter: name for name, (letter, _, _) in _PHASES.items()}
_LEFT = "."
_COMMANDS = ("trainer", "avg_checkpoints", "exporter", "datagen")
_IMPORTED = (
    *(f"ut_tf.bin.{command}" for command in _COMMANDS),
    *sorted({module for _, module, _ in _PHASES.values()}),
    "ut_tf.training.trainer",
    "ut_tf.models.universal_transformer.model",
    "ut_tf.data.text.subwords",
    "tensorflow_text",
)


def load() -> None:
    """Imports what the commands import."""
    # OpenBLAS starts a thread for each further core as soon as numpy is imported.
    os.environ.update(CUDA_VISIBLE_DEVICES="-1", TF_CPP_MIN_LOG_LEVEL="3", OPENBLAS_NUM_THREADS="1")
    sys.path.insert(0, str(ROOT))
    from ut_tf.bin.frame.command import import_tensorflow

    import_tensorflow()
    for module in _IMPORTED:
        importlib.import_module(module)
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        raise SystemExit(f"{threads} threads run after the imports: a fork would lose them.")


class Process:
    """A command in a process of its own.

    Args:
      command: name of its module in ``ut_tf.bin``.
      argv: its command line.
      messages: file that takes standard output and standard error.
      environment: variables besides those of this process.
      before: called in the process before the command, to change what it does.
    """

    def __init__(
        self,
        command: str,
        argv: Sequence[str],
        messages: Path,
        environment: Mapping[str, str] | None = None,
        before: Callable[[], None] | None = None,
    ) -> None:
        self.began = time.monotonic()
        self.status: int | None = None
        self.events: list[tuple[float, str]] = []
        self.messages = messages
        self._open: list[str] = []
        self._pipe, writer = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._pipe)
            _become(command, argv, messages, environment or {}, before, writer)
        os.close(writer)

    @property
    def is_open(self) -> bool:
        """Whether it has not been seen to end."""
        return self._pipe != -1

    @property
    def phase(self) -> str:
        """The innermost phase that it has entered and not left; "start" before the first."""
        if self._open:
            return self._open[-1]
        return "between" if self.events else "start"

    def reaches(self, phase: str, count: int = 1, deadline: float = float("inf")) -> bool:
        """Waits until the process enters a phase for the `count`-th time; False where it ends
        before that, or the time is over.
        """
        seen = 0
        while True:
            letter = self._read(deadline)
            if letter is None:
                return False
            if letter in _NAMES and _NAMES[letter] == phase:
                seen += 1
                if seen == count:
                    return True

    def ends(self, deadline: float = float("inf")) -> int | None:
        """Waits until the process ends; its status, or None where the time is over."""
        while self._read(deadline) is not None:
            pass
        return None if self.is_open else self._wait()

    def kill(self, number: int = signal.SIGKILL) -> int:
        """Kills the process and returns its status, negative where a signal ended it."""
        if self.status is None:
            os.kill(self.pid, number)
            while self._read(time.monotonic() + 60.0) is not None:
                pass
        return self._wait()

    def text(self) -> str:
        """What it has printed."""
        return self.messages.read_text(errors="replace") if self.messages.exists() else ""

    def durations(self) -> dict[str, list[float]]:
        """The seconds of each stay in each phase; of "start" those before the first."""
        stack: list[tuple[str, float]] = []
        durations: dict[str, list[float]] = {}
        for moment, letter in self.events:
            if not durations and not stack:
                durations["start"] = [moment - self.began]
            if letter in _NAMES:
                stack.append((_NAMES[letter], moment))
            else:
                name, entered = stack.pop()
                durations.setdefault(name, []).append(moment - entered)
        return durations

    def _read(self, deadline: float) -> str | None:
        """The next letter in the pipe; None where the process has ended or the time is over."""
        if not self.is_open:
            return None
        wait = None if deadline == float("inf") else max(deadline - time.monotonic(), 0.0)
        if not select.select([self._pipe], [], [], wait)[0]:
            return None
        letter = os.read(self._pipe, 1).decode()
        if not letter:
            os.close(self._pipe)
            self._pipe = -1
            return None
        self.events.append((time.monotonic(), letter))
        if letter == _LEFT:
            self._open.pop()
        else:
            self._open.append(_NAMES[letter])
        return letter

    def _wait(self) -> int:
        if self.status is None:
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status


def in_child(function: Callable[..., Any], *arguments: Any) -> Any:
    """The value of a function of a module, called in a process of its own."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        status = 1
        try:
            with os.fdopen(writer, "wb") as file:
                pickle.dump(function(*arguments), file)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        content = file.read()
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0:
        raise SystemExit(f"{function.__name__}{arguments} failed; its error stands above.")
    return pickle.loads(content)


@contextlib.contextmanager
def folder_of(keep: Path | None) -> Iterator[Path]:
    """A folder to work in; removed in the end unless it is named."""
    if keep is not None:
        shutil.rmtree(keep, ignore_errors=True)
        keep.mkdir(parents=True)
        yield keep.resolve()
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def cluster_environments(workers: int) -> list[dict[str, str]]:
    """TF_CONFIG of each of so many workers on this machine; alone a process has none."""
    if workers == 1:
        return [{}]
    sockets = [socket.create_server(("localhost", 0)) for _ in range(workers)]
    addresses = [f"localhost:{server.getsockname()[1]}" for server in sockets]
    for server in sockets:
        server.close()
    return [
        {
            "TF_CONFIG": json.dumps(
                {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
            )
        }
        for index in range(workers)
    ]


def _become(
    command: str,
    argv: Sequence[str],
    messages: Path,
    environment: Mapping[str, str],
    before: Callable[[], None] | None,
    writer: int,
) -> None:
    """Is the command, and ends the process."""
    status = 1
    try:
        output = os.open(messages, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.environ.update(environment)
        _mark_phases(writer)
        if before is not None:
            before()
        main = importlib.import_module(f"ut_tf.bin.{command}").main
        sys.argv = [command, *argv]
        status = main(list(argv))
    except SystemExit as ending:
        status = ending.code if isinstance(ending.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _mark_phases(writer: int) -> None:
    """Makes the functions of the phases tell when they begin and end."""
    for letter, module, path in _PHASES.values():
        owner: Any = importlib.import_module(module)
        *classes, name = path.split(".")
        for name_of_class in classes:
            owner = getattr(owner, name_of_class)
        setattr(owner, name, _marked(getattr(owner, name), letter, writer))


def _marked(function: Callable[..., Any], letter: str, writer: int) -> Callable[..., Any]:
    @functools.wraps(function)
    def marked(*arguments: Any, **named: Any) -> Any:
        os.write(writer, letter.encode())
        try:
            return function(*arguments, **named)
        finally:
            os.write(writer, _LEFT.encode())

    return marked
