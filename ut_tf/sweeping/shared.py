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
from ut_tf.sweeping.jobs import Jobs
from ut_tf.sweeping.sweep import Sweep, SweepResult, state_of

CLAIMS_FOLDER = "claims"
_PROGRESS = "sweep"
_PAUSE_SECONDS = 0.2


def run_shared(
    sweep: Sweep, claims: Claims, say: Callable[[str], None], begun: float | None = None
) -> SweepResult:
    """Trains and evaluates cells that nobody else works on, until none is left.

    At the end it waits as long as a claim lasts, to take over the cells of processes that are gone.

    Args:
      sweep: what is to be done, one cell at a time.
      claims: on its cells.
      say: called with a line for each beginning and end.
      begun: when all processes began, in seconds since 1970; cells that have failed since are
        passed over. None: now.
    """
    begun = time.time() if begun is None else begun
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
                if sweep.progress.failed_since(cell, begun):
                    say(f"{cell.name}: passed over, it failed elsewhere; its log tells why")
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
        has_failed = state != "finished" and not outcome.stopped
        sweep.progress.note(cell, state, *options, outcome.seconds / 60, has_failed)
    say(f"{cell.name}: {state} after {outcome.seconds / 60:.1f} min; its log: {outcome.job.log}")
    return state, outcome.stopped


class _alone:
    """A context in which no other process writes the sweep's progress."""

    def __init__(self, claims: Claims) -> None:
        self._claims = claims

    def __enter__(self) -> None:
        began = time.monotonic()
        # Long enough to take over the claim of a process that is gone.
        most = self._claims.patience + self._claims.beat
        while True:
            self._claim = self._claims.take(_PROGRESS)
            if self._claim.__enter__() is not None:
                return
            self._claim.__exit__(None, None, None)
            if time.monotonic() - began > most:
                raise UserError(
                    f"{self._claims.owner(_PROGRESS)} has been writing the sweep's progress for"
                    f" {counted(round(most), 'second')}: start the same command again."
                )
            time.sleep(_PAUSE_SECONDS)

    def __exit__(self, *error: object) -> None:
        self._claim.__exit__(None, None, None)
