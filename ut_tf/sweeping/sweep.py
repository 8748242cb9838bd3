"""A sweep: every cell of a grid trained and evaluated in a run directory of its own.

::

    sweep = Sweep(folder, cells, commands, parallel=2)
    result = run_sweep(sweep, say=print)

How a cell is trained and evaluated says whoever makes the sweep (``Commands``).
"""

import os
import re
import shlex
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ut_tf.config.processor import usable_cores
from ut_tf.errors import UserError, counted
from ut_tf.evaluation.records import read_records
from ut_tf.storage.files import MOST_LINES_BYTES, read_bounded
from ut_tf.storage.layout import CONFIG_FILE, RECORDS_FILE, SWEEP_LOG_FILE
from ut_tf.sweeping.grid import Cell, Progress, State
from ut_tf.sweeping.jobs import COMMAND_MARK, Command, Job, Jobs, Outcome
from ut_tf.tables.rendered import as_markdown, as_texts
from ut_tf.tables.runs import find_runs
from ut_tf.tables.summary import headline, last_records, summarise

_PACKAGE_ROOT = Path(__file__).resolve().parent.parent.parent


class Search(Protocol):
    """What makes the cells of a sweep one after the other, from how others ended."""

    @property
    def trials(self) -> int:
        """Its cells, with those of other processes."""

    def cells(self) -> Iterator[tuple[int, Cell]]:
        """Yields each next cell with its number, from 1."""

    def is_behind(self, cell: Cell) -> bool:
        """Whether a cell that is being trained is to be ended."""

    def end(self, cell: Cell, state: State) -> None:
        """Takes in how a cell ended."""


class Commands(Protocol):
    """How the cells of a sweep are trained and evaluated."""

    @property
    def training_options(self) -> Sequence[str]:
        """The options of all trainings; a cell that was trained with others trains on."""

    @property
    def evaluation_options(self) -> Sequence[str]:
        """The options of all evaluations; a cell that was judged with others is judged again."""

    def training(self, cell: Cell, place: Path, threads: int | None) -> Command:
        """The command that trains a cell in the run directory `place`, with `threads` as its share
        of the cores; None: all.
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
        if reached == "finished" and not (self.place(cell) / RECORDS_FILE).is_file():
            return "trained"
        return reached

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
            lines += typed or [f"# {cell.name} is {self.reached(cell)}."]
        return lines

    def job(self, cell: Cell) -> Job:
        """The job of a cell that is not finished."""
        place = self.place(cell)
        return Job(cell.name, tuple(self.open_commands(cell)), place / SWEEP_LOG_FILE, place)

    def environments(self) -> list[dict[str, str]]:
        """The variables that each of the runs at a time adds to its environment: the place of
        ut_tf, and a share of cores and GPUs.
        """
        path = os.pathsep.join(filter(None, [str(_PACKAGE_ROOT), os.environ.get("PYTHONPATH", "")]))
        common = {"PYTHONPATH": path} if (_PACKAGE_ROOT / "setup.py").is_file() else {}
        # The trainings of several tasks of one job step do not train together.
        common |= {"SLURM_STEP_NUM_TASKS": "1"} if "SLURM_STEP_NUM_TASKS" in os.environ else {}
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
        return max(1, usable_cores() // self.parallel)


@dataclass(frozen=True)
class SweepResult:
    """How a sweep ended.

    Args:
      failed: names of the cells that failed.
      stopped: whether a signal stopped it.
    """

    failed: list[str]
    stopped: bool


def run_sweep(
    sweep: Sweep, say: Callable[[str], None], search: Search | None = None
) -> SweepResult:
    """Trains and evaluates the cells that are not finished.

    Args:
      sweep: what is to be done; it alone trains these cells.
      say: called with a line for each beginning and end.
      search: makes the cells, in the place of the sweep's own.
    """
    return _Runner(sweep, say, search).run()


class _Runner:
    """One call of ut-sweep.

    Args:
      sweep: what is to be done.
      say: called with each line.
      search: makes the cells; None: they are the sweep's own.
    """

    def __init__(self, sweep: Sweep, say: Callable[[str], None], search: Search | None) -> None:
        self._sweep = sweep
        self._say = say
        self._search = search
        self._waiting = [cell for cell in sweep.cells if sweep.reached(cell) != "finished"]
        self._total = search.trials if search else len(self._waiting)
        self._open: dict[str, Cell] = {}
        self._begun = 0
        self._places: dict[str, str] = {}
        self._failed: list[str] = []
        self._minutes: list[float] = []

    def run(self) -> SweepResult:
        """Trains and evaluates; returns how it ended."""
        sweep, waiting = self._sweep, len(self._waiting)
        runs, done = counted(len(sweep.cells), "run"), len(sweep.cells) - waiting
        what = f"{runs} in {sweep.folder}, {done} of them finished before"
        if self._search:
            what = f"a search of {counted(self._total, 'trial')} in {sweep.folder}"
        self._say(f"{what}, {sweep.parallel} at a time")
        with Jobs(sweep.parallel, sweep.environments(), self._begin, self._is_behind) as jobs:
            for outcome in jobs.run(self._jobs()):
                self._end(outcome)
        return SweepResult(self._failed, jobs.stopping)

    def _jobs(self) -> Iterator[Job]:
        """Yields the jobs in turn."""
        numbered = self._search.cells() if self._search else enumerate(self._waiting, 1)
        for self._begun, cell in numbered:
            if self._search and self._sweep.reached(cell) == "finished":
                self._search.end(cell, "finished")
                continue
            self._open[cell.name] = cell
            yield self._sweep.job(cell)

    def _begin(self, job: Job) -> None:
        self._places[job.name] = f"[{self._begun}/{self._total}] {job.name}"
        self._say(f"{self._places[job.name]}: begun{self._time_left()}")

    def _is_behind(self, job: Job) -> bool:
        return self._search is not None and self._search.is_behind(self._open[job.name])

    def _time_left(self) -> str:
        """The minutes of all that is open, as the end of a line; empty before a run has ended."""
        if not self._minutes:
            return ""
        runs = self._total - self._begun + len(self._open)
        left = statistics.fmean(self._minutes) * runs / self._sweep.parallel
        return f", about {left:.0f} min left for all"

    def _end(self, outcome: Outcome) -> None:
        sweep, cell = self._sweep, self._open.pop(outcome.job.name)
        state, minutes = _state(outcome), outcome.seconds / 60
        options = sweep.commands.training_options, sweep.commands.evaluation_options
        sweep.progress.note(cell, state, *options, minutes)
        self._say(f"{self._places[cell.name]}: {_ending(sweep, cell, state, outcome)}")
        if outcome.stopped:
            return
        if self._search:
            self._search.end(cell, state)
        if state in ("finished", "pruned"):
            self._minutes.append(minutes)
        else:
            self._failed.append(cell.name)


def _state(outcome: Outcome) -> State:
    """How far a cell came whose job ended so; its last command is the evaluation."""
    if outcome.pruned:
        return "pruned"
    left = len(outcome.job.commands) - len(outcome.done)
    if outcome.status == 0 and not left:
        return "finished"
    if left <= 1:
        return "trained"
    return "stopped" if outcome.stopped else "failed"


def _ending(sweep: Sweep, cell: Cell, state: State, outcome: Outcome) -> str:
    minutes = f"{outcome.seconds / 60:.1f} min"
    if state == "finished":
        return f"{_headline(sweep.place(cell))}, {minutes}"
    if state == "pruned":
        return f"ended after {minutes}, behind others by validation"
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
    """Strips the final full stop: the line goes on behind it."""
    return str(message).rstrip(".")


def _reason(outcome: Outcome) -> str:
    """The last line of the last command's log that tells of an error, or its exit status."""
    if outcome.status < 0:
        return f"killed by signal {-outcome.status}"
    text = read_bounded(outcome.job.log, MOST_LINES_BYTES).decode(errors="replace")
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
    filled = summarise(
        (run, record) for run in runs for record in last_records(run) if not record.test_problem
    )
    return as_markdown(as_texts(filled), padded=True) if filled.lines else ""
