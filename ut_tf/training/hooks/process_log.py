"""The training processes of a run and their times: ``processes.jsonl``."""

import dataclasses
import time
from pathlib import Path

from ut_tf.errors import UserError
from ut_tf.notices import warn
from ut_tf.storage.disk_errors import disk_errors
from ut_tf.storage.processes import Point, TrainingProcess, read_processes, write_processes
from ut_tf.training.hooks.hook import Hook, Schedule
from ut_tf.training.state_values import TrainingState


class Stopwatch:
    """The time and the processor time of this process since the stopwatch was made."""

    def __init__(self) -> None:
        self._wall = time.monotonic()
        self._processor = time.process_time()

    def point(self, step: int) -> Point:
        """Returns the time used up to the update `step`, to a hundredth of a second."""
        return Point(
            step,
            round(time.monotonic() - self._wall, 2),
            round(time.process_time() - self._processor, 2),
        )


def _read(folder: Path) -> list[TrainingProcess]:
    """The processes before this one; none, with a warning, where their file is damaged."""
    try:
        return read_processes(folder)
    except UserError as error:
        warn(f"the minutes of the processes before this one are not known: {error}")
        return []


class ProcessLog(Hook):
    """Keeps the line of this process in ``processes.jsonl``.

    Args:
      folder: the run directory.
      process: as it begins.
      stopwatch: runs since it began.
      schedule: after which updates the line is written anew; it belongs behind validation.
    """

    def __init__(
        self, folder: Path, process: TrainingProcess, stopwatch: Stopwatch, schedule: Schedule
    ) -> None:
        self._folder = folder
        self._before = _read(folder)
        self._process = process
        self._stopwatch = stopwatch
        self._schedule = schedule

    def due(self, state: TrainingState) -> bool:
        return self._schedule(state.step)

    def after_update(self, state: TrainingState) -> None:
        self._write(state.step, "")

    def end(self, step: int, stopped_by: str) -> None:
        """Writes why the process ended; nothing where the run had ended before it began."""
        last = self._before[-1] if self._before else None
        told = last is not None and (last.train_steps, last.ended) == (
            self._process.train_steps,
            stopped_by,
        )
        if step > self._process.begun_at or not told:
            self._write(step, stopped_by)

    def _write(self, step: int, ended: str) -> None:
        points = [point for point in self._process.points if point.step < step]
        if step > self._process.begun_at:
            points.append(self._stopwatch.point(step))
        self._process = dataclasses.replace(self._process, points=tuple(points), ended=ended)
        with disk_errors(self._folder):
            write_processes(self._folder, [*self._before, self._process])
