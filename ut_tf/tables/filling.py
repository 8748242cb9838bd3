"""Tables filled from runs: which evaluation belongs in which cell, with which notes.

::

    runs, warnings = find_runs(places)
    report = make_report(PAPER_TABLES, runs, numbers=("1", "4"))

Each evaluation of a run is compared with each source of each column. One that fits
becomes a reading, with a note where its data, its arguments, its length or its split are not the
table's. Readings of one model, one recipe and one note make a row, so that no cell joins figures
that may be compared with the published ones and figures that may not.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import NamedTuple

from ut_tf.errors import UserError
from ut_tf.evaluation.records import Record
from ut_tf.tables.cells import Cell, Figure, Reading, figure_of, make_cell
from ut_tf.tables.layout import Column, Measure, Source, Table, Tables
from ut_tf.tables.runs import FOLD, FoundRun, Repetition, without_fold
from ut_tf.tables.summary import Summary, last_records, summarise

LENGTH = "{length}"
JOINED = "the best set for each"
_UNTRAINED = "{} has no checkpoint yet."
_HOPELESS = "{} was stopped early by ut-sweep and is no result."


@dataclass(frozen=True)
class Row:
    """A row of ours: a model with a recipe.

    Args:
      system: what the model is.
      recipe: its set and overrides.
      variant: the setting, where the table has settings.
      note: what is other than in the table; empty: nothing.
      cells: by the column's title.
      joins_recipes: whether each problem of a cell has the recipe that validation put first;
        `recipe` then says so.
    """

    system: str
    recipe: str
    variant: str
    note: str
    cells: Mapping[str, Cell]
    joins_recipes: bool = False


@dataclass(frozen=True)
class FilledTable:
    """A table with our rows.

    Args:
      table: as published.
      rows: ours.
      left_out: which runs are not in it, and why.
      signatures: the scorers' accounts of their settings, of the figures in it.
    """

    table: Table
    rows: Sequence[Row]
    left_out: Sequence[str]
    signatures: Sequence[str]


@dataclass(frozen=True)
class Report:
    """The report that ut-report prints.

    Args:
      publication: whose tables they are.
      tables: filled.
      not_evaluated: (run, the command that evaluates it or, where it has no checkpoint, a sentence
        that says so).
      others: the runs that belong to no table, and what runs did on the data of another problem
        than their own.
    """

    publication: str
    tables: Sequence[FilledTable]
    not_evaluated: Sequence[tuple[FoundRun, str]]
    others: Sequence[Summary]


def make_report(
    tables: Tables,
    runs: Sequence[FoundRun],
    numbers: Sequence[str] = (),
    how_to_evaluate: Callable[[Path], str] = "evaluate {} with ut-eval".format,
) -> Report:
    """Fills tables from runs.

    Args:
      tables: a publication's.
      runs: as ``find_runs`` gives them.
      numbers: of the tables that are wanted, with or without runs ("1" means its parts too), and
        nothing else; empty: all that have a run, and the runs that are in none.
      how_to_evaluate: says of the folder of a run without an evaluation how to evaluate it.

    Raises:
      UserError: there is no table of such a number.
    """
    wanted = [
        table
        for table in tables.tables
        if not numbers or any(is_number(table, number) for number in numbers)
    ]
    for number in numbers:
        if not any(is_number(table, number) for table in tables.tables):
            known = ", ".join(table.number for table in tables.tables)
            raise UserError(
                f"there is no table {number!r}: the {tables.publication}'s tables are {known}."
            )
    used: set[int] = set()
    filled = [_fill(table, tables, runs, used) for table in wanted]
    without = [
        (run, _what_is_left(run, how_to_evaluate))
        for run in runs
        if _is_unjudged(run) and _is_wanted(run, tables, wanted, bool(numbers))
    ]
    others = (
        []
        if numbers
        else summarise(
            [*_own(run for run in runs if id(run) not in used), *_of_other_problems(runs)]
        )
    )
    return Report(
        tables.publication, [table for table in filled if table.rows or numbers], without, others
    )


def _what_is_left(run: FoundRun, how_to_evaluate: Callable[[Path], str]) -> str:
    if run.hopeless:
        return _HOPELESS.format(run.folder)
    return how_to_evaluate(run.folder) if run.trained else _UNTRAINED.format(run.folder)


def _own(runs: Iterable[FoundRun]) -> list[tuple[FoundRun, Record]]:
    return [
        (run, record) for run in runs for record in last_records(run) if not record.test_problem
    ]


def _of_other_problems(runs: Iterable[FoundRun]) -> list[tuple[FoundRun, Record]]:
    return [(run, record) for run in runs for record in last_records(run) if record.test_problem]


def _is_unjudged(run: FoundRun) -> bool:
    """Whether the run's own sets were never judged, whatever it did on another problem's
    data; of another use nothing is missed.
    """
    return all(record.test_problem and not record.used_with for record in run.records)


def is_number(table: Table, number: str) -> bool:
    """Whether `number` means the table: "1" means 1, 1a and 1b."""
    return table.number == number or table.number.rstrip("abcdefgh") == number


def _is_wanted(run: FoundRun, tables: Tables, wanted: Sequence[Table], chosen: bool) -> bool:
    if not chosen:
        return True
    sources = [source for table in wanted for column in table.columns for source in column.sources]
    return any(_problem_in(source, _known_problem(run, tables)) is not None for source in sources)


class _Key(NamedTuple):
    """The key of a row: all that its readings have in common."""

    variant: str
    note: str
    system: str
    recipe: str
    use: str


_BySeed = dict[Repetition, Reading]
# Column -> what fills it, and the readings by problem and seed.
_Cells = dict[str, tuple[Source, dict[str, _BySeed]]]


def _fill(table: Table, tables: Tables, runs: Sequence[FoundRun], used: set[int]) -> FilledTable:
    """The table with its rows; adds the runs that are in it to `used`."""
    left_out: list[str] = []
    signatures: dict[str, None] = {}
    rows: dict[_Key, _Cells] = {}
    for column, source, problem, reading in _readings(table, tables, runs):
        used.add(id(reading.run))
        texts = [reading.record.signatures.get(measure.metric) for measure in source.measures]
        signatures.update(dict.fromkeys(text for text in texts if text))
        key = _Key(
            source.variant,
            reading.note,
            reading.run.system,
            reading.run.recipe,
            reading.record.used_with,
        )
        _, cell = rows.setdefault(key, {}).setdefault(column.title, (source, {}))
        _keep(cell.setdefault(problem, {}), reading, left_out)
    filled = [Row(key.system, key.recipe, key.variant, key.note, _made(rows[key])) for key in rows]
    order = {variant: number for number, variant in enumerate(_variants(table))}
    ordered = sorted(
        [*filled, *_joined_rows(rows)],
        key=lambda row: (
            order[row.variant],
            bool(row.note),
            row.system,
            row.joins_recipes,
            row.recipe,
            row.note,
        ),
    )
    return FilledTable(table, ordered, left_out, list(signatures))


def _made(cells: _Cells) -> dict[str, Cell]:
    return {title: make_cell(source, by_problem) for title, (source, by_problem) in cells.items()}


def _joined_rows(rows: Mapping[_Key, _Cells]) -> Iterator[Row]:
    """Yields a row for each model some of whose recipes were trained on one, some on other problems
    of the same cell.
    """
    groups: dict[_Key, _Cells] = {}
    most: dict[tuple[_Key, str], int] = {}
    for key, cells in rows.items():
        if key.use:
            # The same weights as in another row: not one more seed.
            continue
        group = key._replace(recipe=JOINED)
        for title, (source, by_problem) in cells.items():
            most[group, title] = max(most.get((group, title), 0), len(by_problem))
            _, joined = groups.setdefault(group, {}).setdefault(title, (source, {}))
            for problem, by_seed in by_problem.items():
                # Seeds of several recipes: numbered anew, since they only choose among each other.
                readings = [*joined.get(problem, {}).values(), *by_seed.values()]
                joined[problem] = {(number, ""): reading for number, reading in enumerate(readings)}
    for group, cells in groups.items():
        wider = {title: cell for title, cell in cells.items() if len(cell[1]) > most[group, title]}
        if wider:
            made = {
                title: dataclasses.replace(cell, mean=(None,) * len(cell.mean), deviation=None)
                for title, cell in _made(wider).items()
            }
            yield Row(group.system, JOINED, group.variant, group.note, made, joins_recipes=True)


def _variants(table: Table) -> list[str]:
    return list(
        dict.fromkeys(source.variant for column in table.columns for source in column.sources)
    )


def _keep(by_seed: _BySeed, reading: Reading, left_out: list[str]) -> None:
    """Adds a reading; of two with the same seed the one evaluated last counts, and the other is
    told.
    """
    seed = reading.run.repetition
    other = by_seed.get(seed)
    if other is None:
        by_seed[seed] = reading
        return
    first, last = sorted((other, reading), key=lambda candidate: candidate.record.time)
    by_seed[seed] = last
    text = (
        f"{first.run.folder}: the same seed ({seed[0]}) as {last.run.folder}, which was evaluated"
        " later."
    )
    if text not in left_out:
        left_out.append(text)


def _readings(
    table: Table, tables: Tables, runs: Sequence[FoundRun]
) -> Iterator[tuple[Column, Source, str, Reading]]:
    """Yields every reading of the table, with the problem as the source has it."""
    for run in runs:
        for column in table.columns:
            variants: set[str] = set()
            for source in column.sources:
                best = max(
                    _candidates(run, source, table, tables),
                    key=lambda candidate: candidate.order,
                    default=None,
                )
                # The first source that fits counts: a pattern after it stands for all the others.
                if best is not None and source.variant not in variants:
                    variants.add(source.variant)
                    yield column, source, best.problem, best.reading


@dataclass(frozen=True)
class _Candidate:
    """A reading that fits a source; `order` puts the one last that fits best."""

    order: tuple[float, ...]
    problem: str
    reading: Reading


def _candidates(
    run: FoundRun, source: Source, table: Table, tables: Tables
) -> Iterator[_Candidate]:
    """Yields the readings of a run: those with the table's split and length, of the best
    checkpoint, and later ones, come last in order.
    """
    for number, record in enumerate(run.records):
        problem = _problem_in(source, _known_problem(run, tables))
        if (
            record.test_problem
            or problem is None
            or _belongs_elsewhere(run, record, source, problem, table)
        ):
            continue
        for length in _lengths(source, record):
            figures = tuple(_figure(measure, record, length) for measure in source.measures)
            if figures[0].value is not None:
                evaluated = _evaluation_notes(run, source, record, length)
                note = "; ".join(
                    [
                        *_data_notes(run, source, record, tables),
                        *evaluated,
                        *_checkpoint_notes(run, record),
                    ]
                )
                order = (-len(evaluated), record.checkpoint == "best", number, length)
                yield _Candidate(order, problem, Reading(run, record, figures, note))


def _belongs_elsewhere(
    run: FoundRun, record: Record, source: Source, problem: str, table: Table
) -> bool:
    """Whether the record's split is that of another column, so that it has no place in this
    one.
    """
    if source.split in _splits(run, record):
        return False
    others = [
        other_source
        for column in table.columns
        for other_source in column.sources
        if _problem_in(other_source, problem) is not None
    ]
    return any(other_source.split in _splits(run, record) for other_source in others)


def _splits(run: FoundRun, record: Record) -> list[str]:
    """The splits that were judged, as tables have them: the folds of a cross-validation are
    parts of the development data.
    """
    return ["validation"] if run.repetition[1] else record.split.split(",")


def _known_problem(run: FoundRun, tables: Tables) -> str:
    """The run's problem, as the sources name it."""
    return tables.same_problems.get(run.problem, run.problem)


def _problem_in(source: Source, problem: str) -> str | None:
    return next((pattern for pattern in source.problems if fnmatchcase(problem, pattern)), None)


def _lengths(source: Source, record: Record) -> list[int]:
    """The lengths that the record has figures of; [0] for a source without a length."""
    if not source.length:
        return [0]
    pattern = re.escape(source.measures[0].metric).replace(re.escape(LENGTH), r"(\d+)")
    return [
        int(match[1]) for match in (re.fullmatch(pattern, name) for name in record.metrics) if match
    ]


def _figure(measure: Measure, record: Record, length: int) -> Figure:
    name = measure.metric.replace(LENGTH, str(length))
    figure = figure_of(record, name)
    if figure.value is None or not measure.from_error:
        return figure
    low_high = figure.interval and (
        1.0 - figure.interval[1] / 100.0,
        1.0 - figure.interval[0] / 100.0,
    )
    return Figure(1.0 - figure.value / 100.0, low_high)


def _data_notes(run: FoundRun, source: Source, record: Record, tables: Tables) -> list[str]:
    notes = [source.note.format(problem=run.problem)] if source.note else []
    arguments = {
        name: value
        for name, value in run.problem_args.items()
        if name not in tables.neutral_arguments | {FOLD}
    }
    if arguments:
        notes.append(
            ", ".join(f"{name}={_shown(value)}" for name, value in sorted(arguments.items()))
        )
    data_note = without_fold(record.data_note)
    if data_note and data_note not in notes:
        notes.append(data_note)
    return notes


def _shown(value: object) -> str:
    """An argument as the command line has it; of a file only its name."""
    if isinstance(value, list | tuple):
        return "+".join(map(_shown, value))
    return PurePath(value).name if isinstance(value, str) else str(value)


def _evaluation_notes(run: FoundRun, source: Source, record: Record, length: int) -> list[str]:
    notes = []
    if length != source.length:
        notes.append(f"length {length} instead of {source.length}")
    if source.split not in _splits(run, record):
        notes.append(f"{record.split} data instead of {source.split}")
    return notes


def _checkpoint_notes(run: FoundRun, record: Record) -> list[str]:
    """Which checkpoint was judged, where it is not the one that validation chose."""
    if record.checkpoint == "best" or any(
        other.checkpoint == "best" and other.step == record.step for other in run.records
    ):
        return []
    return [f"{PurePath(record.checkpoint).name} checkpoint instead of best"]
