"""The last lines of tables over tasks: the mean over the tasks, and how many of them failed."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from ut_tf.tables.kept_layout import Figure, ResultTable, Total
from ut_tf.tables.kept_lines import best_of, shown
from ut_tf.tables.record import ResultRecord


@dataclass(frozen=True)
class TotalLine:
    """All tasks of a row in one column.

    Args:
      row: what the records call the system.
      tasks: how many there are.
      best: mean over the tasks of the run that validation chose for each, of all sets and seeds,
        and how many failed; None: validation says nothing of a task.
      mean: the same of the mean over the seeds of the chosen set.
      seeds: the least and the most seeds of a task.
      chosen: the record of each task in `best`.
    """

    row: str
    tasks: int
    best: tuple[float, int] | None
    mean: tuple[float, int] | None
    seeds: tuple[int, int]
    chosen: tuple[ResultRecord, ...]


def make_totals(
    table: ResultTable, figure: Figure, total: Total, records: Iterable[ResultRecord]
) -> list[TotalLine]:
    """A total for each row that has several tasks in a column of a single metric; none for a column
    that has no totals.
    """
    if not figure.total:
        return []
    rows: dict[str, dict[str, list[ResultRecord]]] = {}
    for record in records:
        if table.fits(record, figure):
            by_task = rows.setdefault(record.row, {})
            by_task.setdefault(table.task_of(record.problem), []).append(record)
    return [
        _total(figure, total, row, by_task) for row, by_task in rows.items() if len(by_task) > 1
    ]


def _total(
    figure: Figure, total: Total, row: str, by_task: dict[str, list[ResultRecord]]
) -> TotalLine:
    every: list[ResultRecord] = []
    means: list[float] = []
    seeds: list[int] = []
    for records in by_task.values():
        judged = [record for record in records if record.selection is not None]
        chosen = best_of(judged or records)
        if chosen is None:
            continue
        of_set = [record for record in records if _training_of(record) == _training_of(chosen)]
        every.append(chosen)
        means.append(statistics.fmean(shown(figure, record.value) for record in of_set))
        seeds.append(len(of_set))
    known = len(every) == len(by_task)
    best = [shown(figure, record.value) for record in every]
    return TotalLine(
        row,
        len(by_task),
        _summed(best, total) if known else None,
        _summed(means, total) if known else None,
        (min(seeds, default=0), max(seeds, default=0)),
        tuple(every),
    )


def _training_of(record: ResultRecord) -> tuple[object, ...]:
    """What the seeds of a line have in common."""
    return (record.recipe, record.training, record.arguments)


def _summed(values: list[float], total: Total) -> tuple[float, int]:
    return statistics.fmean(values), sum(value > total.failed_above for value in values)
