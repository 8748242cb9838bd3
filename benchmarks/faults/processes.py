"""Commands of ut-tf in processes that can be watched and killed.

::

    load()                                            # once: imports TensorFlow, computes nothing
    process = Process("trainer", ["--problem=...", ...], Path("messages.txt"))
    process.waits_for(lambda: file.exists())          # False: it ended before
    process.kill()
    in_child(answers, Path("export/1"))               # the value of a function, computed in a child

A process is a fork of this one, which has imported TensorFlow and computed nothing: that saves each
of them ten seconds. This process must stay without threads, so whatever needs TensorFlow runs in a
child, too.
"""

import importlib
import json
import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

_FORK = multiprocessing.get_context("fork")
_IMPORTED = (
    *(f"ut_tf.bin.{command}" for command in ("trainer", "avg_checkpoints", "exporter", "datagen")),
    *("ut_tf.training.trainer", "ut_tf.training.averaging", "ut_tf.serving.export"),
    *("ut_tf.models.universal_transformer.model", "ut_tf.data.text.subwords", "tensorflow_text"),
)
_LOOK_SECONDS = 0.001


def load() -> None:
    """Imports what the commands import."""
    # OpenBLAS starts a thread for each further core as soon as numpy is imported.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    from ut_tf.bin.frame.command import import_tensorflow

    import_tensorflow()
    for module in _IMPORTED:
        importlib.import_module(module)
    if (threads := len(os.listdir("/proc/self/task"))) > 1:
        raise SystemExit(f"{threads} threads run after the imports: a fork would lose them.")


class Process:
    """A command in a process of its own.

    Args:
      command: name of its module in ``ut_tf.bin``.
      argv: its command line.
      messages: file that takes standard output and standard error.
      environment: variables besides those of this process.
    """

    def __init__(
        self,
        command: str,
        argv: Sequence[str],
        messages: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._messages = messages
        arguments = (command, list(argv), messages, environment or {})
        self._process = _FORK.Process(target=_become, args=arguments)
        self.began = time.monotonic()
        self._process.start()

    @property
    def status(self) -> int | None:
        """Its exit status, negative if a signal ended it; None while it runs."""
        return self._process.exitcode

    @property
    def text(self) -> str:
        """The text that it has printed."""
        exists = self._messages.exists()
        return self._messages.read_text(errors="replace") if exists else ""

    def waits_for(self, is_so: Callable[[], bool], seconds: float = 300.0) -> bool:
        """Waits until something is so; False if the process ends before, or the time is over."""
        deadline = time.monotonic() + seconds
        while not is_so():
            if self.status is not None or time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_SECONDS)
        return self.status is None

    def ends(self, seconds: float = 300.0) -> int | None:
        """Waits until the process ends; its status, or None if the time is over."""
        self._process.join(max(seconds, 0.0))
        return self.status

    def send(self, number: int) -> None:
        """Sends a signal."""
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def kill(self) -> int | None:
        """Kills the process, if it still runs, and returns its status."""
        if self.status is None:
            self.send(signal.SIGKILL)
        return self.ends()


def in_child(function: Callable[..., Any], *arguments: Any) -> Any:
    """The value of a function of a module, called in a process of its own."""
    reader, writer = _FORK.Pipe(duplex=False)
    child = _FORK.Process(target=lambda: writer.send(function(*arguments)))
    child.start()
    writer.close()
    try:
        return reader.recv()
    except EOFError:
        raise SystemExit(
            f"{function.__name__}{arguments} failed; its error stands above."
        ) from None
    finally:
        child.join()


def cluster_environments(workers: int) -> list[dict[str, str]]:
    """TF_CONFIG of each of so many workers on this machine."""
    sockets = [socket.create_server(("localhost", 0)) for _ in range(workers)]
    addresses = [f"localhost:{server.getsockname()[1]}" for server in sockets]
    for server in sockets:
        server.close()
    tasks = [{"type": "worker", "index": index} for index in range(workers)]
    return [
        {"TF_CONFIG": json.dumps({"cluster": {"worker": addresses}, "task": task})}
        for task in tasks
    ]


def _become(command: str, argv: list[str], messages: Path, environment: Mapping[str, str]) -> None:
    """Is the command, and ends the process."""
    output = os.open(messages, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.update(environment)
    sys.argv = [command, *argv]
    sys.exit(importlib.import_module(f"ut_tf.bin.{command}").main(argv))
