"""A publication's tables filled from runs: which evaluation belongs in which cell, and its notes.

::

    runs, warnings = find_runs(places)
    report = make_report(paper_tables(), runs, numbers=("1", "4"))

Each evaluation of a run is compared with each source of each column. One that fits
becomes a reading, with a note where its data, its arguments, its length or its split are not the
table's. Readings of one model, one recipe and one note make a line, so that no cell joins figures
that may be compared with the published ones and figures that may not.
"""

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import NamedTuple

from ut_tf.errors import UserError, did_you_mean
from ut_tf.evaluation.records import Record
from ut_tf.tables.cells import Figure, Reading, figure_of, make_cell
from ut_tf.tables.layout import ABOVE, LENGTH, Column, Publication, Source, Table
from ut_tf.tables.layout_files import PUBLICATIONS
from ut_tf.tables.lines import FilledTable, Line
from ut_tf.tables.runs import FoundRun
from ut_tf.tables.summary import last_records, summarise

_JOINED = "{}, the best set for each"
_LINES = ("row", "set")
_UNTRAINED = "{} has no checkpoint yet."
_HOPELESS = "{} was stopped early by ut-sweep and is no result."


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
    others: FilledTable


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
        if not numbers or any(_is_number(table, number) for number in numbers)
    ]
    for number in numbers:
        if not any(_is_number(table, number) for table in wanted):
            known = [table.name for table in publication.tables]
            raise UserError(
                f"there is no table {number!r}"
                + (
                    did_you_mean(number, [*known, *PUBLICATIONS[1:]])
                    or f": the {publication.publication}'s tables are {', '.join(known)}."
                )
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
    others = [item for item in last if item[1].test_problem or id(item[0]) not in used]
    shown = [table for table in filled if table.lines or numbers]
    return Report(publication.publication, shown, not_evaluated, summarise(others))


def _what_is_left(run: FoundRun, how_to_evaluate: Callable[[Path], str]) -> str:
    if run.hopeless:
        return _HOPELESS.format(run.folder)
    return how_to_evaluate(run.folder) if run.trained else _UNTRAINED.format(run.folder)


def _is_number(table: Table, number: str) -> bool:
    """Whether `number` means the table: "1" and "1a" mean "1a 10k joint", too."""
    whole, digits = table.name.split()[0], re.split(r"\D", table.name)[0]
    return number in (table.name, whole, digits)


class _Key(NamedTuple):
    """The key of a line: all that its readings have in common, in the order of the lines."""

    note: str
    system: str
    recipe: str
    use: str = ""


_BySeed = dict[int, Reading]
_Cells = dict[str, dict[str, _BySeed]]
"""Readings by column, problem and seed."""


class _Candidate(NamedTuple):
    """An evaluation that fits a source of a column; `order` puts the one last that fits best."""

    order: tuple[float, ...]
    source: Source
    problem: str
    record: Record
    figures: tuple[Figure, ...]
    note: str


def _fill(
    table: Table, publication: Publication, runs: Sequence[FoundRun], used: set[int]
) -> FilledTable:
    """The table with its lines; adds the runs that are in it to `used`."""
    below: dict[str, None] = {}
    lines: dict[_Key, _Cells] = {}
    for run in runs:
        for column in table.figures:
            found = _best_fitting(run, column, table, publication)
            if found is None:
                continue
            used.add(id(run))
            record = found.record
            signatures = map(record.signatures.get, column.metrics_of(found.source))
            below |= dict.fromkeys(f"Signature: {text}" for text in signatures if text)
            key = _Key(found.note, run.system, run.recipe, record.used_with)
            by_problem = lines.setdefault(key, {}).setdefault(column.title, {})
            reading = Reading(found.figures, record.selection, run.folder, record.time)
            _keep(by_problem.setdefault(found.problem, {}), run.seed, reading, below)
    made = [_line(key, cells, table) for key, cells in sorted((lines | _joined(lines)).items())]
    laid_out = dataclasses.replace(table, lines=_LINES, facts=())
    return FilledTable(laid_out, made, tuple(below), publication.publication)


def _line(key: _Key, cells: _Cells, table: Table) -> Line:
    made = {}
    for column in table.figures:
        if by_problem := cells.get(column.title):
            source = column.sources[0]
            cell = make_cell(by_problem, len(source.problems), column.limits_of(source))
            if not key.recipe:
                # Of several recipes there is only the best.
                cell = dataclasses.replace(cell, mean=(None,) * len(cell.mean), deviation=None)
            made[column.title] = cell
    return Line((key.system, key.recipe), made, (key.note,) if key.note else ())


def _joined(lines: dict[_Key, _Cells]) -> dict[_Key, _Cells]:
    """A line for each model some of whose recipes were trained on one, some on other problems of
    the same cell.
    """
    groups: dict[_Key, _Cells] = {}
    most: dict[tuple[_Key, str], int] = {}
    for key, cells in lines.items():
        if key.use:
            # The same weights as in another line: not one more seed.
            continue
        group = key._replace(system=_JOINED.format(key.system), recipe="")
        for title, by_problem in cells.items():
            most[group, title] = max(most.get((group, title), 0), len(by_problem))
            joined = groups.setdefault(group, {}).setdefault(title, {})
            for problem, by_seed in by_problem.items():
                # Seeds of several recipes: numbered anew, since they only choose among each other.
                readings = [*joined.get(problem, {}).values(), *by_seed.values()]
                joined[problem] = dict(enumerate(readings))
    wider = {
        group: {title: found for title, found in cells.items() if len(found) > most[group, title]}
        for group, cells in groups.items()
    }
    return {group: cells for group, cells in wider.items() if cells}


def _keep(by_seed: _BySeed, seed: int, reading: Reading, below: dict[str, None]) -> None:
    """Adds a reading; of two with the same seed the last evaluated counts, the other is told."""
    other = by_seed.setdefault(seed, reading)
    if other is reading:
        return
    first, last = sorted((other, reading), key=lambda candidate: candidate.time)
    by_seed[seed] = last
    below[
        f"Left out: {first.folder}: the same seed ({seed}) as {last.folder}, which was"
        " evaluated later."
    ] = None


def _best_fitting(
    run: FoundRun, column: Column, table: Table, publication: Publication
) -> _Candidate | None:
    """The evaluation of a run that fits a column best; None where none does."""
    for source in column.sources:
        found = list(_candidates(run, column, source, table, publication))
        # The first source that fits counts: a pattern after it stands for all the others.
        if found:
            return max(found, key=lambda candidate: candidate.order)
    return None


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
            or _belongs_elsewhere(record, source, problem, table)
        ):
            continue
        for length in _lengths(metrics[0], source, record):
            figures = tuple(_figure(metric, source, record, length) for metric in metrics)
            if figures[0].value is not None:
                evaluated = _evaluation_notes(source, record, length)
                data = _data_notes(run, source, record, publication)
                note = "; ".join([*data, *evaluated, *_checkpoint_notes(run, record)])
                order = (-len(evaluated), record.checkpoint == "best", number, length)
                yield _Candidate(order, source, problem, record, figures, note)


def _belongs_elsewhere(record: Record, source: Source, problem: str, table: Table) -> bool:
    """Whether the record's split is that of another column, so that it has no place here."""
    splits = record.split.split(",")
    return source.split not in splits and any(
        other.split in splits and _problem_in(other, problem) is not None
        for column in table.figures
        for other in column.sources
    )


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
        if name not in publication.neutral_arguments
    }
    if arguments:
        notes.append(
            ", ".join(f"{name}={_shown(value)}" for name, value in sorted(arguments.items()))
        )
    if record.data_note and record.data_note not in notes:
        notes.append(record.data_note)
    return notes


def _shown(value: object) -> str:
    """An argument as the command line has it; of a file only its name."""
    if isinstance(value, list | tuple):
        return "+".join(map(_shown, value))
    return PurePath(value).name if isinstance(value, str) else str(value)


def _evaluation_notes(source: Source, record: Record, length: int) -> list[str]:
    notes = []
    if length != source.length:
        notes.append(f"length {length} instead of {source.length}")
    if source.split not in record.split.split(","):
        notes.append(f"{record.split} data instead of {source.split}")
    return notes


def _checkpoint_notes(run: FoundRun, record: Record) -> list[str]:
    """Which checkpoint was judged, where it is not the one that validation chose."""
    if record.checkpoint == "best" or any(
        other.checkpoint == "best" and other.step == record.step for other in run.records
    ):
        return []
    return [f"{PurePath(record.checkpoint).name} checkpoint instead of best"]
