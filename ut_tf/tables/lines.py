"""The lines of a filled table; of kept results records that differ in their seeds alone, made one.

::

    for line in make_lines(table, records):             # of kept results
        line.values                             # ("copy", "ut_length_generalization")
        cell = line.cells["400"]
        cell.best, cell.mean, cell.deviation, cell.intervals, cell.paper

The best seed is the one whose checkpoint was best on the validation data, never on the test data.
"""

import dataclasses
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ut_tf.errors import counted
from ut_tf.evaluation.selection import first
from ut_tf.ordering import natural_order
from ut_tf.tables.cells import Cell, Figure, Reading, make_cell
from ut_tf.tables.layout import SEPARATOR, Column, Table, Total
from ut_tf.tables.record import ResultRecord


@dataclass(frozen=True)
class Line:
    """A line of a table.

    Args:
      values: of the fields that tell the lines apart.
      cells: by the column's title; a column without all its metrics is missing.
      notes: what is other than in the publication's data, and than in lines of the same values.
      runs: a record of each kept run, for facts.
    """

    values: tuple[str, ...]
    cells: Mapping[str, Cell]
    notes: tuple[str, ...] = ()
    runs: tuple[ResultRecord, ...] = ()

    @property
    def folders(self) -> list[Path]:
        """The run directories of its cells, each once."""
        folders = (folder for cell in self.cells.values() for folder in cell.folders)
        return list(dict.fromkeys(folders))

    @property
    def seeds(self) -> tuple[int, int]:
        """How many seeds it has: the least and the most of its cells."""
        if self.runs:
            count = len({record.seed for record in self.runs})
            return count, count
        counts = [cell.seeds for cell in self.cells.values()]
        return min(counts), max(counts)


@dataclass(frozen=True)
class FilledTable:
    """A table with its lines.

    Args:
      table: its layout.
      lines: in their order.
      below: sentences below the table, such as which runs are left out.
      publication: whose rows stand above the lines; empty: the table has none.
    """

    table: Table
    lines: Sequence[Line]
    below: tuple[str, ...] = ()
    publication: str = ""


def make_lines(table: Table, records: Iterable[ResultRecord]) -> list[Line]:
    """The lines of a table in their order."""
    groups: dict[tuple[tuple[str, ...], object], list[ResultRecord]] = {}
    trainings: dict[tuple[str, ...], set[tuple[int | None, str]]] = {}
    for record in records:
        values = tuple(table.value_of(record, name) for name in table.lines)
        if "group" in table.lines and not values[table.lines.index("group")]:
            continue
        alike = (_data_of(table, record), record.training)
        groups.setdefault((values, alike), []).append(record)
        trainings.setdefault(values, set()).add(record.training)
    lines = []
    for (values, _), group in groups.items():
        training = _training_text(group[0]) if len(trainings[values]) > 1 else ""
        lines.append(_line(table, values, group, training))
    seen = [{line.values[place]: None for line in lines} for place in range(len(table.lines))]
    order = [_order(table, place, list(values)) for place, values in enumerate(seen)]
    return sorted(lines, key=lambda line: [order[n][text] for n, text in enumerate(line.values)])


def _training_text(record: ResultRecord) -> str:
    """What tells a line from another of the same values; empty: it was trained as its set says."""
    updates = record.train_steps
    texts = [f"trained for {counted(updates, 'update')}"] if updates is not None else []
    texts += [f"warm start from {record.warm_start}"] if record.warm_start else []
    return ", ".join(texts)


def _data_of(table: Table, record: ResultRecord) -> tuple[str, ...]:
    """What a line's runs were trained on, which is never joined; the problems are where columns
    choose among them.
    """
    chooses = any({"task", "problem"} & column.where.keys() for column in table.figures)
    return (record.arguments,) if chooses else (record.arguments, record.problem)


def best_of(records: Sequence[ResultRecord]) -> ResultRecord | None:
    """The record that validation puts first, or the only one; None where not all of them say what
    validation found, or not in the same metric. Of equals see ``ut_tf.evaluation.selection``.
    """
    in_order = sorted(records, key=lambda record: record.seed or 0)
    place = first([record.selection for record in in_order])
    return None if place is None else in_order[place]


def seeds_of(record: ResultRecord, records: Iterable[ResultRecord]) -> list[ResultRecord]:
    """The records that differ from one in their seeds alone."""
    return [other for other in records if other.recipe_key == record.recipe_key]


def _line(
    table: Table, values: tuple[str, ...], records: Sequence[ResultRecord], training: str
) -> Line:
    cells = {
        column.title: cell for column in table.figures if (cell := cell_of(table, column, records))
    }
    runs = {record.run_key: record for record in records}
    notes = dict.fromkeys([*(record.note for record in records), training])
    return Line(values, cells, tuple(filter(None, notes)), tuple(runs.values()))


def cell_of(table: Table, column: Column, records: Iterable[ResultRecord]) -> Cell | None:
    """The cell of the runs that have all the metrics of a column; None where there are none."""
    by_run: dict[tuple[object, ...], dict[str, ResultRecord]] = {}
    for record in records:
        if table.fits(record, column):
            metric = table.metric_in(column, record.metric)
            by_run.setdefault(record.run_key, {})[metric] = record
    whole = [
        [run[name] for name in column.metrics]
        for run in by_run.values()
        if all(name in run for name in column.metrics)
    ]
    if not whole:
        return None
    in_order = [_reading(column, run) for run in sorted(whole, key=lambda run: run[0].seed or 0)]
    cell = make_cell({"": dict(enumerate(in_order))})
    if len({tuple(record.value for record in run) for run in whole}) == 1:
        # Whichever validation puts first.
        any_one = make_cell({"": {0: _reading(column, whole[0])}})
        cell = dataclasses.replace(
            any_one, mean=cell.mean, deviation=cell.deviation, seeds=cell.seeds
        )
    papers = [record.paper for record in whole[0]]
    paper = "" if None in papers else SEPARATOR.join(filter(None, papers))
    return dataclasses.replace(cell, paper=paper)


def _reading(column: Column, run: Sequence[ResultRecord]) -> Reading:
    return Reading(tuple(_figure(column, record) for record in run), run[0].selection)


def _figure(column: Column, record: ResultRecord) -> Figure:
    figure = Figure(record.value, record.interval, record.others)
    return figure.as_accuracy() if column.from_error else figure


def _shown(column: Column, record: ResultRecord) -> float:
    value = _figure(column, record).value
    assert value is not None  # Records are finite.
    return value


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
    table: Table, column: Column, total: Total, records: Iterable[ResultRecord]
) -> list[TotalLine]:
    """A total for each row of several tasks in a column of one metric that has totals."""
    rows: dict[str, dict[str, list[ResultRecord]]] = {}
    for record in records:
        if column.total and table.fits(record, column):
            by_task = rows.setdefault(record.row, {})
            by_task.setdefault(table.task_of(record.problem), []).append(record)
    return [
        _total(column, total, row, by_task) for row, by_task in rows.items() if len(by_task) > 1
    ]


def _total(
    column: Column, total: Total, row: str, by_task: dict[str, list[ResultRecord]]
) -> TotalLine:
    chosen: list[ResultRecord] = []
    means: list[float] = []
    seeds: list[int] = []
    for records in by_task.values():
        best = best_of([record for record in records if record.selection is not None] or records)
        if best is not None:
            of_set = seeds_of(best, records)
            chosen.append(best)
            means.append(statistics.fmean(_shown(column, record) for record in of_set))
            seeds.append(len(of_set))

    def summed(values: list[float]) -> tuple[float, int] | None:
        if len(chosen) < len(by_task):
            return None
        return statistics.fmean(values), sum(value > total.failed_above for value in values)

    return TotalLine(
        row,
        len(by_task),
        summed([_shown(column, record) for record in chosen]),
        summed(means),
        (min(seeds, default=0), max(seeds, default=0)),
        tuple(chosen),
    )


def _order(table: Table, place: int, values: Sequence[str]) -> dict[str, int]:
    """The places of the values of a line's field: tasks and seeds by number, others as they came,
    the first field as the layout says.
    """
    key: Callable[[str], object] = values.index
    if place == 0 and table.order:
        known = [*table.order, *(value for value in values if value not in table.order)]
        key = known.index
    elif table.lines[place] in ("task", "seed", "problem"):
        key = natural_order
    ordered = sorted(values, key=key)  # type: ignore[arg-type]
    return {value: number for number, value in enumerate(ordered)}
