"""A cell of a table: the figures of one or several seeds, on one or several problems, made one.

::

    readings = {"lte_copy": {0: Reading(...), 1: Reading(...)}}  # by problem and seed
    cell = make_cell(source, readings)
    cell.best, cell.mean, cell.deviation, cell.seeds

The best seed of a problem is the one whose checkpoint was best on the validation data, never on the
test data. The figures of several problems are joined (their mean, or how many are above a limit):
the best seeds' for ``best``, each seed's for ``mean`` and ``deviation``.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ut_tf.evaluation.records import Record
from ut_tf.evaluation.selection import first
from ut_tf.tables.layout import Measure, Source
from ut_tf.tables.runs import FoundRun, Repetition

Values = tuple[float | None, ...]


@dataclass(frozen=True)
class Figure:
    """A number, and between which two it lies with a confidence of 95 % (None: not known)."""

    value: float | None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Reading:
    """The figures of a cell from one evaluation of one run.

    Args:
      run: the run.
      record: its evaluation.
      figures: one for each measure.
      note: in a few words, what is other than in the table; empty: nothing.
    """

    run: FoundRun
    record: Record
    figures: tuple[Figure, ...]
    note: str = ""


@dataclass(frozen=True)
class Cell:
    """The figures of a cell, one for each measure; None where there is no such number.

    Args:
      best: of the seed that validation chose, or of the only one; None: validation says nothing.
      mean: over the seeds.
      deviation: standard deviation over the seeds (n - 1); None: there is only one seed, or the
        problems have different seeds.
      intervals: of a single seed's figures on a single problem.
      seeds: how many seeds each problem has at most.
      problems: how many problems' figures are joined.
      of_problems: how many should be.
      folders: of the runs, each once.
    """

    best: Values | None
    mean: Values
    deviation: Values | None
    intervals: tuple[tuple[float, float] | None, ...] | None
    seeds: int
    problems: int
    of_problems: int
    folders: tuple[Path, ...] = ()


def figure_of(record: Record, name: str) -> Figure:
    """A metric of an evaluation; what is not there, or not finite, is None."""
    value, interval = (
        record.metrics.get(name, math.nan),
        record.intervals.get(name, (math.nan, math.nan)),
    )
    known = all(math.isfinite(bound) for bound in interval)
    return Figure(
        value if math.isfinite(value) else None, (interval[0], interval[1]) if known else None
    )


def make_cell(source: Source, readings: Mapping[str, Mapping[Repetition, Reading]]) -> Cell:
    """The cell of a source.

    Args:
      source: what is measured.
      readings: by problem and repetition; at least one.
    """
    seeds = [set(by_seed) for by_seed in readings.values()]
    common = seeds[0] if all(of_problem == seeds[0] for of_problem in seeds) else set()
    per_seed = [
        _joined(source.measures, [by_seed[seed] for by_seed in readings.values()])
        for seed in sorted(common)
    ]
    mean_by_problem = [
        _means([_values(reading) for reading in by_seed.values()]) for by_seed in readings.values()
    ]
    chosen = [best_seed(by_seed) for by_seed in readings.values()]
    alone = len(source.problems) == 1 and len(seeds[0]) == 1
    single = next(iter(readings[next(iter(readings))].values())) if alone else None
    return Cell(
        best=(
            None
            if None in chosen
            else _joined(source.measures, [reading for reading in chosen if reading is not None])
        ),
        mean=_means(per_seed) if per_seed else _join(source.measures, mean_by_problem),
        deviation=_deviations(per_seed) if len(per_seed) > 1 else None,
        intervals=tuple(figure.interval for figure in single.figures) if single else None,
        seeds=max(map(len, seeds)),
        problems=len(readings),
        of_problems=len(source.problems),
        folders=tuple(
            dict.fromkeys(
                reading.run.folder for by_seed in readings.values() for reading in by_seed.values()
            )
        ),
    )


def best_seed(by_seed: Mapping[Repetition, Reading]) -> Reading | None:
    """The reading of the seed (or fold) that validation puts first, or the only one.

    None where there are several and not all of them say what validation found, or where they are
    the folds of a cross-validation, none of which stands for the others.
    """
    if len(by_seed) > 1 and len({fold for _, fold in by_seed}) > 1:
        return None
    in_order = [by_seed[seed] for seed in sorted(by_seed)]
    place = first([reading.record.selection for reading in in_order])
    return None if place is None else in_order[place]


def _values(reading: Reading) -> Values:
    return tuple(figure.value for figure in reading.figures)


def _joined(measures: Sequence[Measure], readings: Sequence[Reading]) -> Values:
    return _join(measures, [_values(reading) for reading in readings])


def _join(measures: Sequence[Measure], by_problem: Sequence[Values]) -> Values:
    """The figures of several problems as one, for each measure."""
    joined: list[float | None] = []
    for number, measure in enumerate(measures):
        values = [values_of_problem[number] for values_of_problem in by_problem]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            joined.append(None)
        elif measure.over == "mean":
            joined.append(statistics.fmean(known))
        else:
            joined.append(float(sum(value > measure.limit for value in known)))
    return tuple(joined)


def _means(rows: Sequence[Values]) -> Values:
    return tuple(_over(column, statistics.fmean) for column in zip(*rows, strict=True))


def _deviations(rows: Sequence[Values]) -> Values:
    return tuple(_over(column, statistics.stdev) for column in zip(*rows, strict=True))


def _over(values: Sequence[float | None], function: Callable[[list[float]], float]) -> float | None:
    known = [value for value in values if value is not None]
    return function(known) if len(known) == len(values) else None
