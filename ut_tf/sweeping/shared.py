"""A sweep by several processes, on any machines that share its folder: each claims a cell, trains
and evaluates it, and claims the next.

::

    result = run_shared(sweep, Claims(sweep.folder / CLAIMS_FOLDER), say=print)
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ut_tf.errors import UserError, counted
from ut_tf.sweeping.claims import Claims
from ut_tf.sweeping.grid import Cell, State
from ut_tf.sweeping.jobs import Jobs, Outcome
from ut_tf.sweeping.sweep import Sweep, SweepResult

CLAIMS_FOLDER = "claims"
_PROGRESS = "sweep"
_PAUSE_SECONDS = 0.2
_MOST_SECONDS = 120.0


def run_shared(sweep: Sweep, claims: Claims, say: Callable[[str], None]) -> SweepResult:
    """Trains and evaluates cells that nobody else works on, until none is left.

    At the end it waits as long as a claim lasts, to take over the cells of processes that are gone.

    Args:
      sweep: what is to be done, one cell at a time.
      claims: on its cells.
      say: called with a line for each beginning and end.
    """
    failed: list[str] = []
    open_cells = list(sweep.cells)
    last_done = time.monotonic()
    while open_cells:
        elsewhere = []
        for cell in open_cells:
            with claims.take(cell.name) as claim:
                if claim is None:
                    elsewhere.append(cell)
                    continue
                sweep.read_progress()
                if sweep.reached(cell) == "finished":
                    continue
                state, stopped = _run(sweep, cell, claims, say)
                last_done = time.monotonic()
            if stopped:
                return SweepResult(failed, stopped=True)
            failed += [] if state == "finished" else [cell.name]
        open_cells = elsewhere
        if time.monotonic() - last_done > claims.patience + claims.beat:
            break
        if open_cells:
            time.sleep(min(claims.beat, 5.0))
    if open_cells:
        say(f"others work on {', '.join(cell.name for cell in open_cells)}")
    return SweepResult(failed, stopped=False)


def _run(
    sweep: Sweep, cell: Cell, claims: Claims, say: Callable[[str], None]
) -> tuple[State, bool]:
    """Runs a cell's commands; returns how far it came, and whether a signal stopped it."""
    with Jobs(1, sweep.environments(), lambda job: say(f"{job.name}: begun")) as jobs:
        (outcome,) = jobs.run([sweep.job(cell)])
    state = state_of(outcome)
    with _alone(claims):
        sweep.read_progress()
        options = sweep.commands.training_options, sweep.commands.evaluation_options
        sweep.progress.note(cell, state, *options, outcome.seconds / 60)
    say(f"{cell.name}: {state} after {outcome.seconds / 60:.1f} min; its log: {outcome.job.log}")
    return state, outcome.stopped


def state_of(outcome: Outcome) -> State:
    """How far a cell came whose job ended so; its last command is the evaluation."""
    left = len(outcome.job.commands) - len(outcome.done)
    if outcome.status == 0 and not left:
        return "finished"
    if left <= 1:
        return "trained"
    return "stopped" if outcome.stopped else "failed"


class _alone:
    """A context in which no other process writes the sweep's progress."""

    def __init__(self, claims: Claims) -> None:
        self._claims = claims

    def __enter__(self) -> None:
        began = time.monotonic()
        while True:
            self._claim = self._claims.take(_PROGRESS)
            if self._claim.__enter__() is not None:
                return
            self._claim.__exit__(None, None, None)
            if time.monotonic() - began > _MOST_SECONDS:
                raise UserError(
                    f"{self._claims.owner(_PROGRESS)} has been writing the sweep's progress for"
                    f" {counted(int(_MOST_SECONDS), 'second')}: start the same command again."
                )
            time.sleep(_PAUSE_SECONDS)

    def __exit__(self, *error: object) -> None:
        self._claim.__exit__(None, None, None)
