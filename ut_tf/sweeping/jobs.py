"""Jobs in child processes, a few at a time, each a series of commands with one log.

::

    with Jobs(2, environments=[{}, {}], started=print) as jobs:
        for outcome in jobs.run(all_jobs):      # as they end
            print(outcome.job.name, outcome.status)

Ctrl-C reaches this process alone: the children have process groups of their own. The first signal
lets no more jobs begin and terminates the children, on which ut-trainer saves a checkpoint. The
second reaches their own children too and ends them at once. The handler only counts; the loop
passes signals on, so that no child that is just beginning misses one.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Self

from ut_tf.errors import UserError, counted
from ut_tf.notices import note
from ut_tf.storage.files import open_to_append
from ut_tf.storage.locks import is_held
from ut_tf.training.signals import heard_signals, is_announcement

_PAUSE_SECONDS = 0.1
COMMAND_MARK = "$ "
"""What a line of a log begins with that names the command whose output follows."""


@dataclass(frozen=True)
class Command:
    """A command of a job.

    Args:
      name: for messages and logs.
      program: the words that its process begins with.
      arguments: the words behind them.
    """

    name: str
    program: tuple[str, ...]
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Job:
    """Commands that run one after the other as long as they succeed.

    Args:
      name: for messages.
      commands: at least one.
      log: file that their output is added to.
      run_dir: in which they train. The first begins when nobody else trains there: a sweep that was
        killed has left its children, which go on.
    """

    name: str
    commands: tuple[Command, ...]
    log: Path
    run_dir: Path | None = None


@dataclass(frozen=True)
class Outcome:
    """How a job ended.

    Args:
      job: which.
      status: exit status of its last command; below 0: the signal that killed it.
      done: names of the commands that succeeded.
      seconds: that it took.
      stopped: whether it ended because a signal told it to.
      pruned: whether it ended because it was behind others.
    """

    job: Job
    status: int
    done: tuple[str, ...]
    seconds: float
    stopped: bool
    pruned: bool = False


@dataclass
class _Running:
    job: Job
    slot: int
    began: float
    process: subprocess.Popen[bytes] | None = None
    done: list[str] = field(default_factory=list)
    told: int = 0  # How many signals its present process has got.
    pruned: bool = False


class Jobs:
    """A context in which jobs run and signals stop them.

    Args:
      parallel: jobs at a time.
      environments: what each of the `parallel` places adds to the environment of its children.
      started: called with each job when it begins.
      is_behind: asked again and again, whether a job that runs is to be ended.
    """

    def __init__(
        self,
        parallel: int,
        environments: Sequence[Mapping[str, str]],
        started: Callable[[Job], None],
        is_behind: Callable[[Job], bool] = lambda _: False,
    ) -> None:
        self._parallel = parallel
        self._environments = environments
        self._started = started
        self._is_behind = is_behind
        self._running: list[_Running] = []
        self._before: dict[int, Any] = {}
        self._asked = 0

    @property
    def stopping(self) -> bool:
        """Whether a signal has come: no more jobs and no more commands begin."""
        return self._asked > 0

    def __enter__(self) -> Self:
        heard = heard_signals(_interrupt)
        self._before = {number: signal.signal(number, self._stop) for number in heard}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        # Some are left only where an error ended the loop: no child is to outlive it.
        for running in self._running:
            self._asked = max(self._asked, 1)
            self._pass_on(running)
        for running in self._running:
            if running.process is not None:
                running.process.wait()

    def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        """Runs the jobs and yields how each ended, as they end; jobs that a signal kept from
        beginning are not among them. A job is taken only when it can begin.
        """
        waiting = iter(jobs)
        none_waits = False
        while self._running or not (none_waits or self.stopping):
            while len(self._running) < self._parallel and not (none_waits or self.stopping):
                job = next(waiting, None)
                none_waits = job is None
                if job is not None:
                    self._begin(job)
            for running in [*self._running]:
                running.pruned = running.pruned or self._is_behind(running.job)
                self._pass_on(running)
                outcome = self._look_after(running)
                if outcome is not None:
                    self._running.remove(running)
                    yield outcome
            if self._running:
                time.sleep(_PAUSE_SECONDS)

    def _begin(self, job: Job) -> None:
        free = min(set(range(self._parallel)) - {running.slot for running in self._running})
        running = _Running(job, free, time.monotonic())
        self._running.append(running)
        self._started(job)
        if _is_taken(job):
            note(f"{job.name} waits for the process that trains in {job.run_dir}.")
        else:
            self._next_command(running)

    def _next_command(self, running: _Running) -> None:
        command = running.job.commands[len(running.done)]
        running.told = 0
        try:
            running.job.log.parent.mkdir(parents=True, exist_ok=True)
            with open_to_append(running.job.log) as log:
                log.write(f"{COMMAND_MARK}{command.name}\n".encode())
                log.flush()
                running.process = subprocess.Popen(
                    (*command.program, *command.arguments),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **self._environments[running.slot]},
                    start_new_session=True,
                )
        except OSError as error:
            raise UserError(
                f"{command.name} of {running.job.name} cannot begin, with the log"
                f" {running.job.log}: {error.strerror or error}."
            ) from error

    def _pass_on(self, running: _Running) -> None:
        """Passes the signals that have come on to a job's process: the first to itself, the next to
        its children, too. A job that is behind gets a first one without them.
        """
        signals = max(self._asked, int(running.pruned))
        while (
            running.process is not None
            and running.process.poll() is None
            and running.told < signals
        ):
            with contextlib.suppress(ProcessLookupError):
                if running.told == 0:
                    running.process.terminate()
                else:
                    os.killpg(running.process.pid, signal.SIGTERM)
            running.told += 1

    def _look_after(self, running: _Running) -> Outcome | None:
        """Begins the next command of a job whose command has succeeded; returns how the job ended,
        None as long as it has not.
        """
        if running.process is None and not self.stopping:
            if not _is_taken(running.job):
                self._next_command(running)
            return None
        status = running.process.poll() if running.process is not None else -signal.SIGTERM
        if status is None:
            return None
        if status == 0 and not running.pruned:
            running.done.append(running.job.commands[len(running.done)].name)
            if len(running.done) < len(running.job.commands) and not self.stopping:
                self._next_command(running)
                return None
        stopped = self.stopping and len(running.done) < len(running.job.commands)
        seconds = time.monotonic() - running.began
        done, pruned = tuple(running.done), running.pruned
        return Outcome(running.job, status, done, seconds, stopped and not pruned, pruned)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if self.stopping and is_announcement(number):
            return
        how = (
            "each saves a checkpoint after its current update or evaluation; a second signal"
            " stops them at once"
        )
        if self.stopping:
            how = "at once"
        self._asked += 1
        # Not print: the signal may have interrupted a print. There may be no terminal any more.
        with contextlib.suppress(OSError):
            os.write(
                sys.__stderr__.fileno() if sys.__stderr__ else 2,
                f"\nstopping {counted(len(self._running), 'run')}: {how}\n".encode(),
            )


def _is_taken(job: Job) -> bool:
    return job.run_dir is not None and is_held(job.run_dir)


def _interrupt(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise KeyboardInterrupt
