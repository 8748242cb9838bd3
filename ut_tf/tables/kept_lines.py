"""The lines of a table of kept results: records that differ in their seeds alone, made one.

::

    for line in make_lines(table, records):
        line.values                             # ("copy", "ut_length_generalization")
        cell = line.cells["400"]
        cell.best, cell.mean, cell.deviation, cell.interval, cell.paper

The best seed is the one whose checkpoint was best on the validation data, never on the test data.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ut_tf.errors import counted
from ut_tf.evaluation.selection import first
from ut_tf.tables.kept_layout import Figure, ResultTable
from ut_tf.tables.record import ResultRecord

Values = tuple[float, ...]


@dataclass(frozen=True)
class ResultCell:
    """The figures of a line in a column, one for each of its metrics.

    Args:
      best: of the seed that validation chose, or of the only one; None: validation says nothing.
      interval: of the last metric of that seed; None: it has none.
      mean: over the seeds.
      deviation: standard deviation over the seeds (n - 1); None: there is only one.
      paper: the publication's, as printed; empty: none.
      others: as of the record of the last metric of that seed.
    """

    best: Values | None
    interval: tuple[float, float] | None
    mean: Values
    deviation: Values | None
    paper: str
    others: float | None = None


@dataclass(frozen=True)
class ResultLine:
    """A line of a table.

    Args:
      values: of the fields that tell the lines apart.
      runs: a record of each run, for facts.
      cells: by the column's title; a column without all its metrics is missing.
      notes: what is other than in the publication's data, and than in lines of the same values.
    """

    values: tuple[str, ...]
    runs: tuple[ResultRecord, ...]
    cells: Mapping[str, ResultCell]
    notes: tuple[str, ...]


def make_lines(table: ResultTable, records: Iterable[ResultRecord]) -> list[ResultLine]:
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
    first = [{line.values[place]: None for line in lines} for place in range(len(table.lines))]
    order = [_order(table, place, list(values)) for place, values in enumerate(first)]

    def place_of(line: ResultLine) -> list[int]:
        return [order[place][value] for place, value in enumerate(line.values)]

    return sorted(lines, key=place_of)


def _training_text(record: ResultRecord) -> str:
    """What tells a line from another of the same values; empty: it was trained as its set says."""
    updates = record.train_steps
    texts = [f"trained for {counted(updates, 'update')}"] if updates is not None else []
    texts += [f"warm start from {record.warm_start}"] if record.warm_start else []
    return ", ".join(texts)


def _data_of(table: ResultTable, record: ResultRecord) -> tuple[str, ...]:
    """What a line's runs were trained on, which is never joined; the problems are where columns
    choose among them.
    """
    chooses = any({"task", "problem"} & figure.where.keys() for figure in table.figures)
    return (record.arguments,) if chooses else (record.arguments, record.problem)


def best_of(records: Sequence[ResultRecord]) -> ResultRecord | None:
    """The record that validation puts first, or the only one; None where not all of them say what
    validation found, or not in the same metric. Of equals see ``ut_tf.evaluation.selection``.
    """
    in_order = sorted(records, key=lambda record: record.seed or 0)
    place = first([record.selection for record in in_order])
    return None if place is None else in_order[place]


def _line(
    table: ResultTable, values: tuple[str, ...], records: Sequence[ResultRecord], training: str
) -> ResultLine:
    cells = {
        figure.title: cell
        for figure in table.figures
        if (cell := make_cell(table, figure, records))
    }
    runs = {record.run_key: record for record in records}
    notes = dict.fromkeys([*(record.note for record in records), training])
    return ResultLine(values, tuple(runs.values()), cells, tuple(filter(None, notes)))


def make_cell(
    table: ResultTable, figure: Figure, records: Iterable[ResultRecord]
) -> ResultCell | None:
    """The cell of the runs that have all the metrics of a column; None where there are none."""
    by_run: dict[tuple[object, ...], dict[str, ResultRecord]] = {}
    for record in records:
        if table.fits(record, figure):
            metric = table.metric_in(figure, record.metric)
            by_run.setdefault(record.run_key, {})[metric] = record
    whole = [
        [run[name] for name in figure.metrics]
        for run in by_run.values()
        if all(name in run for name in figure.metrics)
    ]
    if not whole:
        return None
    chosen = best_of([run[0] for run in whole])
    if len({tuple(record.value for record in run) for run in whole}) == 1:
        chosen = whole[0][0]  # Whichever validation puts first.
    best = next((run for run in whole if run[0] is chosen), None)
    columns = [
        [shown(figure, record.value) for record in column] for column in zip(*whole, strict=True)
    ]
    papers = [record.paper for record in whole[0]]
    return ResultCell(
        best=None if best is None else tuple(shown(figure, record.value) for record in best),
        interval=None if best is None else _interval(figure, best[-1]),
        mean=tuple(map(statistics.fmean, columns)),
        deviation=tuple(map(statistics.stdev, columns)) if len(whole) > 1 else None,
        paper="" if None in papers else " / ".join(filter(None, papers)),
        others=None if best is None else best[-1].others,
    )


def shown(figure: Figure, value: float) -> float:
    """A figure as its column shows it."""
    return 1.0 - value / 100.0 if figure.from_error else value


def _interval(figure: Figure, record: ResultRecord) -> tuple[float, float] | None:
    if record.interval is None or not figure.interval:
        return None
    low, high = sorted(shown(figure, bound) for bound in record.interval)
    return low, high


def _order(table: ResultTable, place: int, values: Sequence[str]) -> dict[str, int]:
    """The places of the values of a line's field: tasks and seeds by number, others as they came,
    the first field as the layout says.
    """
    key: Callable[[str], object] = values.index
    if place == 0 and table.order:
        known = [*table.order, *(value for value in values if value not in table.order)]
        key = known.index
    elif table.lines[place] in ("task", "seed", "problem"):
        key = _natural
    ordered = sorted(values, key=key)  # type: ignore[arg-type]
    return {value: number for number, value in enumerate(ordered)}


def _natural(text: str) -> list[tuple[int, str]]:
    return [
        (int(part or 0), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", text)
    ]
