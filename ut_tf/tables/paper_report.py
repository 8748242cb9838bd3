"""A publication's tables filled from runs: which evaluation belongs in which cell, and its notes.

::

    runs, warnings = find_runs(places)
    report = make_report(paper_tables(), runs, numbers=("1", "4"))

Each evaluation of a run is compared with each source of each column. One that fits
becomes a reading, with a note where its data, its arguments, its length or its split are not the
table's. Readings of one model, one recipe and one note make a row, so that no cell joins figures
that may be compared with the published ones and figures that may not.
"""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import NamedTuple

from ut_tf.errors import UserError
from ut_tf.evaluation.records import Record
from ut_tf.tables.cells import Cell, Figure, Reading, Repetition, figure_of, make_cell
from ut_tf.tables.layout import ABOVE, LENGTH, Column, Publication, Source, Table
from ut_tf.tables.runs import FOLD, FoundRun, without_fold
from ut_tf.tables.summary import Summary, last_records, summarise

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
    publication: Publication,
    runs: Sequence[FoundRun],
    numbers: Sequence[str] = (),
    how_to_evaluate: Callable[[Path], str] = "evaluate {} with ut-eval".format,
) -> Report:
    """Fills tables from runs.

    Args:
      publication: whose tables.
      runs: as ``find_runs`` gives them.
      numbers: of the tables that are wanted, with or without runs ("1" means its parts too), and
        nothing else; empty: all that have a run, and the runs that are in none.
      how_to_evaluate: says of the folder of a run without an evaluation how to evaluate it.

    Raises:
      UserError: there is no table of such a number.
    """
    wanted = [
        table
        for table in publication.tables
        if not numbers or any(is_number(table, number) for number in numbers)
    ]
    for number in numbers:
        if not any(is_number(table, number) for table in wanted):
            known = ", ".join(table.name for table in publication.tables)
            raise UserError(
                f"there is no table {number!r}: the {publication.publication}'s tables are {known}."
            )
    used: set[int] = set()
    filled = [_fill(table, publication, runs, used) for table in wanted]
    sources = [source for table in wanted for column in table.figures for source in column.sources]
    not_evaluated = [
        (run, _what_is_left(run, how_to_evaluate))
        for run in runs
        # Whatever it did on another problem's data; of another use nothing is missed.
        if all(record.test_problem and not record.used_with for record in run.records)
        and (not numbers or any(_problem_of(run, one, publication) for one in sources))
    ]
    last = [] if numbers else [(run, record) for run in runs for record in last_records(run)]
    own = [item for item in last if not item[1].test_problem and id(item[0]) not in used]
    others = summarise([*own, *(item for item in last if item[1].test_problem)])
    shown = [table for table in filled if table.rows or numbers]
    return Report(publication.publication, shown, not_evaluated, others)


def _what_is_left(run: FoundRun, how_to_evaluate: Callable[[Path], str]) -> str:
    if run.hopeless:
        return _HOPELESS.format(run.folder)
    return how_to_evaluate(run.folder) if run.trained else _UNTRAINED.format(run.folder)


def is_number(table: Table, number: str) -> bool:
    """Whether `number` means the table: "1" means 1, 1a and 1b."""
    return number in (table.name, table.name.rstrip("abcdefgh"))


class _Key(NamedTuple):
    """The key of a row: all that its readings have in common."""

    variant: str
    note: str
    system: str
    recipe: str
    use: str


@dataclass(frozen=True)
class _Candidate:
    """An evaluation that fits a source of a column; `order` puts the one last that fits best."""

    order: tuple[float, ...]
    column: Column
    source: Source
    problem: str
    run: FoundRun
    record: Record
    figures: tuple[Figure, ...]
    note: str


_BySeed = dict[Repetition, Reading]
# Column -> what fills it, and the readings by problem and seed.
_Cells = dict[str, tuple[_Candidate, dict[str, _BySeed]]]


def _fill(
    table: Table, publication: Publication, runs: Sequence[FoundRun], used: set[int]
) -> FilledTable:
    """The table with its rows; adds the runs that are in it to `used`."""
    left_out: dict[str, None] = {}
    signatures: dict[str, None] = {}
    rows: dict[_Key, _Cells] = {}
    for found in (item for run in runs for item in _fitting(run, table, publication)):
        run, record, source = found.run, found.record, found.source
        used.add(id(run))
        texts = map(record.signatures.get, found.column.metrics_of(source))
        signatures |= dict.fromkeys(filter(None, texts))
        key = _Key(source.variant, found.note, run.system, run.recipe, record.used_with)
        _, by_problem = rows.setdefault(key, {}).setdefault(found.column.title, (found, {}))
        reading = Reading(found.figures, record.selection, run.folder, record.time)
        _keep(by_problem.setdefault(found.problem, {}), run.repetition, reading, left_out)
    filled = [Row(key.system, key.recipe, key.variant, key.note, _made(rows[key])) for key in rows]
    order = table.variants
    ordered = sorted(
        [*filled, *_joined_rows(rows)],
        key=lambda row: (
            order.index(row.variant),
            bool(row.note),
            row.system,
            row.joins_recipes,
            row.recipe,
            row.note,
        ),
    )
    return FilledTable(table, ordered, list(left_out), list(signatures))


def _made(cells: _Cells) -> dict[str, Cell]:
    return {
        title: make_cell(
            by_problem, len(found.source.problems), found.column.limits_of(found.source)
        )
        for title, (found, by_problem) in cells.items()
    }


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
        for title, (found, by_problem) in cells.items():
            most[group, title] = max(most.get((group, title), 0), len(by_problem))
            _, joined = groups.setdefault(group, {}).setdefault(title, (found, {}))
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


def _keep(
    by_seed: _BySeed, repetition: Repetition, reading: Reading, left_out: dict[str, None]
) -> None:
    """Adds a reading; of two with the same seed the one evaluated last counts, and the other is
    told.
    """
    other = by_seed.setdefault(repetition, reading)
    if other is reading:
        return
    first, last = sorted((other, reading), key=lambda candidate: candidate.time)
    by_seed[repetition] = last
    left_out[
        f"{first.folder}: the same seed ({repetition[0]}) as {last.folder}, which was evaluated"
        " later."
    ] = None


def _fitting(run: FoundRun, table: Table, publication: Publication) -> Iterator[_Candidate]:
    """Yields the evaluation of a run that fits a column best, for each variant."""
    for column in table.figures:
        variants: set[str] = set()
        for source in column.sources:
            found = list(_candidates(run, column, source, table, publication))
            # The first source that fits counts: a pattern after it stands for all the others.
            if found and source.variant not in variants:
                variants.add(source.variant)
                yield max(found, key=lambda candidate: candidate.order)


def _candidates(
    run: FoundRun, column: Column, source: Source, table: Table, publication: Publication
) -> Iterator[_Candidate]:
    """Yields the readings of a run: those with the table's split and length, of the best
    checkpoint, and later ones, come last in order.
    """
    problem = _problem_of(run, source, publication)
    metrics = column.metrics_of(source)
    for number, record in enumerate(run.records):
        if (
            record.test_problem
            or problem is None
            or _belongs_elsewhere(run, record, source, problem, table)
        ):
            continue
        for length in _lengths(metrics[0], source, record):
            figures = tuple(_figure(metric, source, record, length) for metric in metrics)
            if figures[0].value is not None:
                evaluated = _evaluation_notes(run, source, record, length)
                data = _data_notes(run, source, record, publication)
                note = "; ".join([*data, *evaluated, *_checkpoint_notes(run, record)])
                order = (-len(evaluated), record.checkpoint == "best", number, length)
                yield _Candidate(order, column, source, problem, run, record, figures, note)


def _belongs_elsewhere(
    run: FoundRun, record: Record, source: Source, problem: str, table: Table
) -> bool:
    """Whether the record's split is that of another column, so that it has no place in this
    one.
    """
    splits = _splits(run, record)
    return source.split not in splits and any(
        other.split in splits and _problem_in(other, problem) is not None
        for column in table.figures
        for other in column.sources
    )


def _splits(run: FoundRun, record: Record) -> list[str]:
    """The splits that were judged, as tables have them: the folds of a cross-validation are
    parts of the development data.
    """
    return ["validation"] if run.repetition[1] else record.split.split(",")


def _problem_of(run: FoundRun, source: Source, publication: Publication) -> str | None:
    """The run's problem as the source names it; None: the source has it not."""
    return _problem_in(source, publication.same_problems.get(run.problem, run.problem))


def _problem_in(source: Source, problem: str) -> str | None:
    return next((pattern for pattern in source.problems if fnmatchcase(problem, pattern)), None)


def _lengths(metric: str, source: Source, record: Record) -> list[int]:
    """The lengths that the record has figures of; [0] for a source without a length."""
    if not source.length:
        return [0]
    pattern = re.escape(metric).replace(re.escape(LENGTH), r"(\d+)")
    return [
        int(match[1]) for match in (re.fullmatch(pattern, name) for name in record.metrics) if match
    ]


def _figure(metric: str, source: Source, record: Record, length: int) -> Figure:
    figure = figure_of(record, metric.partition(ABOVE)[0].replace(LENGTH, str(length)))
    return figure.as_accuracy() if source.from_error else figure


def _data_notes(
    run: FoundRun, source: Source, record: Record, publication: Publication
) -> list[str]:
    notes = [source.note.format(problem=run.problem)] if source.note else []
    arguments = {
        name: value
        for name, value in run.problem_args.items()
        if name not in (*publication.neutral_arguments, FOLD)
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
