"""Successive halving: the seeds of a recipe that validation puts last are not trained on.

::

    rung_step(share=0.25, train_steps=2000, eval_frequency=200)      # 600
    hopeless(scores, kept=kept_of(8, rung=0))                        # the worse four

At each share of the updates half of the seeds of a problem and set are left, at least one. Only
validation is asked. A run that goes on is the same, update for update, as one that was not stopped
on its way: rungs are at updates that are validated anyway.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ut_tf.evaluation.validations import judged
from ut_tf.storage.layout import METRICS_FILE
from ut_tf.storage.processes import HOPELESS, RUNG, read_processes, write_processes
from ut_tf.sweeping.grid import Cell


def rung_step(share: float, train_steps: int, eval_frequency: int) -> int:
    """The update of a rung: the first one that is validated at or after a share of all."""
    return min(train_steps, math.ceil(share * train_steps / eval_frequency) * eval_frequency)


def kept_of(seeds: int, rung: int) -> int:
    """How many of so many seeds go on after a rung, the first of which is 0."""
    return max(1, math.ceil(seeds / (2 << rung)))


def validation_score(place: Path, step: int) -> float | None:
    """The best score on the validation data up to an update, the higher the better; None: the run
    was not validated by then, or does not say by what.
    """
    processes = [process for process in read_processes(place) if process.selection]
    if not processes:
        return None
    selection = processes[-1].selection
    sign = 1.0 if selection["direction"] == "max" else -1.0
    curve = judged(place / METRICS_FILE, selection["metric"])
    return max((sign * value for at, value in curve if at <= step), default=None)


def hopeless(scores: Mapping[Cell, float], kept: int) -> list[Cell]:
    """The cells that are not among the best `kept`; of equals the lower seeds go on."""
    ranked = sorted(scores, key=lambda cell: (-scores[cell], cell.seed))
    return ranked[kept:]


def mark_rung(place: Path, step: int) -> None:
    """Notes in a run directory that a sweep has trained it to a rung: not to its end, unless early
    stopping ended it.
    """
    processes = read_processes(place)
    if processes and (processes[-1].ended, processes[-1].train_steps) == ("train_steps", step):
        write_processes(place, [*processes[:-1], replace(processes[-1], ended=RUNG)])


def mark_hopeless(place: Path) -> None:
    """Notes in a run directory that a sweep does not train it on, so that it never becomes a
    result.
    """
    processes = read_processes(place)
    if processes:
        write_processes(place, [*processes[:-1], replace(processes[-1], ended=HOPELESS)])
