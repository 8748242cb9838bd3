"""A cell of a table: the figures of one or several seeds, on one or several problems, made one.

::

    readings = {"lte_copy": {0: Reading(...), 1: Reading(...)}}     # by problem and seed
    cell = make_cell(readings)
    cell.best, cell.mean, cell.deviation, cell.seeds

The best seed of a problem is the one whose checkpoint was best on the validation data, never on the
test data. The figures of several problems are joined (their mean, or how many are above a limit):
the best seeds' for ``best``, each seed's for ``mean`` and ``deviation``.
"""

import itertools
import math
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ut_tf.evaluation.records import Record
from ut_tf.evaluation.selection import first

Values = tuple[float | None, ...]
Interval = tuple[float, float]
_MARKS = "†‡§¶"


@dataclass(frozen=True)
class Figure:
    """A number.

    Args:
      value: None: not known.
      interval: between which two it lies with a confidence of 95 %; None: not known.
      others: the same on test questions that are not known from training; None: not measured.
    """

    value: float | None
    interval: Interval | None = None
    others: float | None = None

    def as_accuracy(self) -> "Figure":
        """The accuracy, of an error in percent."""
        if self.value is None:
            return self
        bounds = self.interval and sorted(1.0 - bound / 100.0 for bound in self.interval)
        return Figure(
            1.0 - self.value / 100.0, (bounds[0], bounds[1]) if bounds else None, self.others
        )


@dataclass(frozen=True)
class Reading:
    """The figures of a cell from one evaluation of one run.

    Args:
      figures: one for each metric.
      selection: what validation found of the checkpoint.
      folder: of the run; None: it is a kept record.
      time: of the evaluation.
    """

    figures: tuple[Figure, ...]
    selection: Mapping[str, Any] | None
    folder: Path | None = None
    time: str = ""


@dataclass(frozen=True)
class Cell:
    """The figures of a cell, one for each metric; None where there is no such number.

    Args:
      best: of the seed that validation chose, or of the only one; None: validation says nothing.
      mean: over the seeds.
      deviation: standard deviation over the seeds (n - 1); None: there is only one seed, or the
        problems have different seeds.
      intervals: of the best seed's figures, on a single problem.
      others: of the best seed's last figure, on a single problem.
      seeds: how many seeds each problem has at most.
      problems: how many problems' figures are joined.
      of_problems: how many should be.
      folders: of the runs, each once.
      paper: the publication's figures, as printed; empty: none.
    """

    best: Values | None
    mean: Values
    deviation: Values | None
    intervals: tuple[Interval | None, ...] | None
    others: float | None
    seeds: int
    problems: int
    of_problems: int
    folders: tuple[Path, ...] = ()
    paper: str = ""


def figure_of(record: Record, name: str) -> Figure:
    """A metric of an evaluation; what is not there, or not finite, is None. That of
    "length_>40/accuracy" is the mean over the lengths above 40.
    """
    if match := re.fullmatch(r"(\w+_)>(\d+)(/.+)", name):
        sizes = (re.fullmatch(rf"{match[1]}(\d+){match[3]}", other) for other in record.metrics)
        names = [size[0] for size in sizes if size and int(size[1]) > int(match[2])]
        return Figure(statistics.fmean(map(record.metrics.__getitem__, names)) if names else None)
    value = record.metrics.get(name, math.nan)
    low, high = record.intervals.get(name, (math.nan, math.nan))
    known = math.isfinite(low) and math.isfinite(high)
    return Figure(value if math.isfinite(value) else None, (low, high) if known else None)


def make_cell(
    readings: Mapping[str, Mapping[int, Reading]],
    of_problems: int = 1,
    limits: Sequence[float | None] = (),
) -> Cell:
    """The cell of readings.

    Args:
      readings: by problem and seed; at least one.
      of_problems: how many problems there should be.
      limits: for each figure: of several problems how many are above it, in place of their mean
        (None); empty: the means of all.
    """
    seeds = [set(by_seed) for by_seed in readings.values()]
    common = seeds[0] if all(of_problem == seeds[0] for of_problem in seeds) else set()
    per_seed = [
        _join(limits, [_values(by_seed[seed]) for by_seed in readings.values()])
        for seed in sorted(common)
    ]
    by_problem = [
        _columns(map(_values, by_seed.values()), statistics.fmean) for by_seed in readings.values()
    ]
    chosen = [best_seed(by_seed) for by_seed in readings.values()]
    best = [reading for reading in chosen if reading is not None]
    only = best[0] if best and of_problems == 1 else None
    folders = [reading.folder for by_seed in readings.values() for reading in by_seed.values()]
    return Cell(
        best=_join(limits, [_values(reading) for reading in best]) if all(chosen) else None,
        mean=_columns(per_seed, statistics.fmean) if per_seed else _join(limits, by_problem),
        deviation=_columns(per_seed, statistics.stdev) if len(per_seed) > 1 else None,
        intervals=tuple(figure.interval for figure in only.figures) if only else None,
        others=only.figures[-1].others if only else None,
        seeds=max(map(len, seeds)),
        problems=len(readings),
        of_problems=of_problems,
        folders=tuple(dict.fromkeys(folder for folder in folders if folder)),
    )


def best_seed(by_seed: Mapping[int, Reading]) -> Reading | None:
    """The reading of the seed that validation puts first, or the only one; None where there are
    several and not all of them say what validation found.
    """
    in_order = [by_seed[seed] for seed in sorted(by_seed)]
    place = first([reading.selection for reading in in_order])
    return None if place is None else in_order[place]


def marks_of(notes: Iterable[str]) -> dict[str, str]:
    """The mark of each note, in their order."""
    return {
        note: _MARKS[number % len(_MARKS)] * (1 + number // len(_MARKS))
        for number, note in enumerate(dict.fromkeys(filter(None, notes)))
    }


def _values(reading: Reading) -> Values:
    return tuple(figure.value for figure in reading.figures)


def _join(limits: Sequence[float | None], by_problem: Sequence[Values]) -> Values:
    """The figures of several problems as one."""
    return tuple(
        _over(values, statistics.fmean if limit is None else _count_above(limit))
        for values, limit in itertools.zip_longest(zip(*by_problem, strict=True), limits)
    )


def _count_above(limit: float) -> Callable[[list[float]], float]:
    return lambda values: float(sum(value > limit for value in values))


def _columns(rows: Iterable[Values], function: Callable[[list[float]], float]) -> Values:
    return tuple(_over(column, function) for column in zip(*rows, strict=True))


def _over(values: Sequence[float | None], function: Callable[[list[float]], float]) -> float | None:
    known = [value for value in values if value is not None]
    return function(known) if len(known) == len(values) else None
