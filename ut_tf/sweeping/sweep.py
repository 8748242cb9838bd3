"""A sweep: every cell of a grid trained and evaluated in a run directory of its own.

::

    sweep = Sweep(folder, cells, commands, parallel=2)
    result = run_sweep(sweep, say=print)

How a cell is trained and evaluated says whoever makes the sweep (``Commands``).
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ut_tf.errors import UserError, counted
from ut_tf.evaluation.records import read_records
from ut_tf.reporting.rendering import summary_table
from ut_tf.reporting.runs import find_runs
from ut_tf.reporting.summary import headline, last_records, summarise
from ut_tf.storage.layout import CONFIG_FILE, RECORDS_FILE, SWEEP_LOG_FILE
from ut_tf.sweeping.grid import Cell, Progress, State
from ut_tf.sweeping.jobs import COMMAND_MARK, Command, Job, Jobs, Outcome

_PACKAGE_ROOT = Path(__file__).resolve().parent.parent.parent


class Commands(Protocol):
    """How the cells of a sweep are trained and evaluated."""

    @property
    def training_options(self) -> Sequence[str]:
        """The options of all trainings; a cell that was trained with others trains on."""

    @property
    def evaluation_options(self) -> Sequence[str]:
        """The options of all evaluations; a cell that was judged with others is judged again."""

    def training(self, cell: Cell, place: Path, threads: int | None) -> Command:
        """The command that trains a cell in the run directory `place`; `threads`: its share of the
        cores, None where it has all.
        """

    def evaluation(self, place: Path) -> Command:
        """The command that evaluates the run in `place`."""


@dataclass(frozen=True)
class Sweep:
    """The cells of a grid, their commands, and the folder of their runs.

    Args:
      folder: holds the run directories.
      cells: of the grid.
      commands: how they are trained and evaluated.
      parallel: cells at a time.
      progress: what was done before; without it what sweep.json says.
    """

    folder: Path
    cells: list[Cell]
    commands: Commands
    parallel: int
    progress: Progress = field(init=False)

    def __post_init__(self) -> None:
        self.read_progress()

    def read_progress(self) -> None:
        """Reads sweep.json, which another sweep in the folder may have written meanwhile."""
        object.__setattr__(self, "progress", Progress(self.folder))

    def place(self, cell: Cell) -> Path:
        """A cell's run directory."""
        return self.folder / cell.name

    def training(self, cell: Cell) -> Command:
        """The command that trains a cell."""
        threads = self._threads() if self.parallel > 1 else None
        return self.commands.training(cell, self.place(cell), threads)

    def reached(self, cell: Cell) -> State | None:
        """How far a cell has come, as sweep.json says, as long as its files are there."""
        options = self.commands.training_options, self.commands.evaluation_options
        reached = self.progress.reached(cell, *options)
        if not (self.place(cell) / CONFIG_FILE).is_file():
            return None
        return (
            "trained"
            if reached == "finished" and not (self.place(cell) / RECORDS_FILE).is_file()
            else reached
        )

    def open_commands(self, cell: Cell) -> list[Command]:
        """The commands that a cell still needs: none of a finished one."""
        training, evaluation = self.training(cell), self.commands.evaluation(self.place(cell))
        return {None: [training, evaluation], "trained": [evaluation]}.get(self.reached(cell), [])

    def described(self) -> list[str]:
        """The commands as they would be typed; finished cells as comments."""
        lines = []
        for cell in self.cells:
            typed = [
                shlex.join([command.name, *command.arguments])
                for command in self.open_commands(cell)
            ]
            lines += typed or [f"# {cell.name} is finished."]
        return lines

    def job(self, cell: Cell) -> Job:
        """The job of a cell that is not finished."""
        return Job(cell.name, tuple(self.open_commands(cell)), self.place(cell) / SWEEP_LOG_FILE)

    def environments(self) -> list[dict[str, str]]:
        """The variables that each of the runs at a time adds to its environment: the place of
        ut_tf, and a share of cores and GPUs.
        """
        path = os.pathsep.join(filter(None, [str(_PACKAGE_ROOT), os.environ.get("PYTHONPATH", "")]))
        common = {"PYTHONPATH": path} if (_PACKAGE_ROOT / "setup.py").is_file() else {}
        if self.parallel == 1:
            return [common]
        common |= {
            f"TF_NUM_{kind}_THREADS": str(self._threads()) for kind in ("INTRAOP", "INTEROP")
        }
        # Otherwise the first process would take a shared GPU's whole memory.
        common |= {"TF_FORCE_GPU_ALLOW_GROWTH": os.environ.get("TF_FORCE_GPU_ALLOW_GROWTH", "true")}
        gpus = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
        shares = [
            gpus[place :: self.parallel] or gpus[place % len(gpus) :][:1] if gpus else []
            for place in range(self.parallel)
        ]
        return [
            {**common, **({"CUDA_VISIBLE_DEVICES": ",".join(share)} if share else {})}
            for share in shares
        ]

    def _threads(self) -> int:
        cores = (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
        return max(1, cores // self.parallel)


@dataclass(frozen=True)
class SweepResult:
    """How a sweep ended.

    Args:
      failed: names of the cells that failed.
      stopped: whether a signal stopped it.
    """

    failed: list[str]
    stopped: bool


def run_sweep(sweep: Sweep, say: Callable[[str], None]) -> SweepResult:
    """Trains and evaluates the cells that are not finished.

    Args:
      sweep: what is to be done; it alone works in its folder.
      say: called with a line for each beginning and end.
    """
    open_cells = {cell.name: cell for cell in sweep.cells if sweep.reached(cell) != "finished"}
    finished = len(sweep.cells) - len(open_cells)
    say(
        f"{counted(len(sweep.cells), 'run')} in {sweep.folder}, {finished} of them finished before,"
        f" {sweep.parallel} at a time"
    )
    places = {
        name: f"[{number}/{len(open_cells)}] {name}" for number, name in enumerate(open_cells, 1)
    }
    failed: list[str] = []
    with Jobs(
        sweep.parallel, sweep.environments(), lambda job: say(f"{places[job.name]}: begun")
    ) as jobs:
        for outcome in jobs.run([sweep.job(cell) for cell in open_cells.values()]):
            cell = open_cells[outcome.job.name]
            state = _state(outcome)
            options = sweep.commands.training_options, sweep.commands.evaluation_options
            sweep.progress.note(cell, state, *options, outcome.seconds / 60)
            say(f"{places[cell.name]}: {_ending(sweep, cell, state, outcome)}")
            failed += [] if state == "finished" or outcome.stopped else [cell.name]
    return SweepResult(failed, jobs.stopping)


def _state(outcome: Outcome) -> State:
    commands_left = len(outcome.job.commands) - len(outcome.done)
    if outcome.status == 0 and not commands_left:
        return "finished"
    if commands_left <= 1:
        return "trained"  # The last command is the evaluation.
    return "stopped" if outcome.stopped else "failed"


def _ending(sweep: Sweep, cell: Cell, state: State, outcome: Outcome) -> str:
    minutes = f"{outcome.seconds / 60:.1f} min"
    if state == "finished":
        return f"{_headline(sweep.place(cell))}, {minutes}"
    if outcome.stopped:
        return f"stopped after {minutes}"
    return f"failed after {minutes}, {_clause(_reason(outcome))}; its log: {outcome.job.log}"


def _headline(folder: Path) -> str:
    """The figure that ut-eval has just measured, or why there is none."""
    try:
        records = read_records(folder)
    except UserError as error:
        return f"evaluated, but {_clause(error)}"
    if not records:
        return f"evaluated, but no record is kept; its log: {folder / SWEEP_LOG_FILE}"
    name = headline(records[-1])
    return f"{name} {records[-1].metrics[name]:.4g}" if name else "evaluated"


def _clause(message: object) -> str:
    """A message without its full stop: the line goes on behind it."""
    return str(message).rstrip(".")


def _reason(outcome: Outcome) -> str:
    """The last line of the last command's log that tells of an error, or its exit status."""
    if outcome.status < 0:
        return f"killed by signal {-outcome.status}"
    text = outcome.job.log.read_text(encoding="utf-8", errors="replace")
    lines = [
        line
        for line in text.rpartition(f"\n{COMMAND_MARK}")[2].splitlines()
        if re.search(r"(Error|Exception)\b|error:", line)
    ]
    return lines[-1].strip() if lines else f"exit status {outcome.status}"


def summary(folder: Path, say: Callable[[str], None]) -> str:
    """The table of a folder's evaluated runs; empty where there is none."""
    try:
        runs, warnings = find_runs([folder])
    except UserError:
        return ""  # Not one of the runs came so far as to write its configuration.
    for warning in warnings:
        say(f"warning: {warning}")
    rows = summarise(
        (run, record) for run in runs for record in last_records(run) if not record.test_problem
    )
    return summary_table(rows) if rows else ""
