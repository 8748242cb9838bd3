"""A filled table as texts, and as Markdown.

::

    rendered = render(table, records)       # of kept results
    rendered = as_texts(filled)             # of any lines
    as_markdown(rendered)

With several seeds a figure has two columns: the best seed with its interval, and the mean over the
seeds. The words of a line's mark stand below the table.
"""

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from ut_tf.errors import UserError
from ut_tf.markdown import as_prose, as_table
from ut_tf.tables.cells import Cell, marks_of
from ut_tf.tables.layout import NOTHING, SEPARATOR, Column, PublishedRow, SummaryLine, Table, Total
from ut_tf.tables.lines import (
    FilledTable,
    Line,
    TotalLine,
    best_of,
    cell_of,
    make_lines,
    make_totals,
    seeds_of,
)
from ut_tf.tables.overlaps import NO_OVERLAPS, Overlap, Overlaps, known_text
from ut_tf.tables.record import ResultRecord
from ut_tf.tables.texts import RenderedTable, best_text, mean_text, number, processor_text

_TITLES = {"row": "system", "processor_minutes": "processor minutes"}
_SEEDS = "seeds"
_CODE = ("set", "problem")
_FACTS: dict[str, tuple[Callable[[ResultRecord], float | str | None], str]] = {
    "parameters": (lambda record: record.parameters, ",.0f"),
    "updates": (lambda record: record.step, ",.0f"),
    "minutes": (lambda record: record.minutes, ".1f"),
    "processor_minutes": (lambda record: record.processor_minutes, ".1f"),
    "examples": (lambda record: record.examples, ",.0f"),
    "version": (lambda record: record.version, ""),
}


def render(
    table: Table, records: Sequence[ResultRecord], overlaps: Overlaps = NO_OVERLAPS
) -> RenderedTable:
    """A table with the lines of its records; `overlaps`: of their training with their test data."""
    table = _with_figures(table, records)
    lines = [_with_overlap(line, table, overlaps) for line in make_lines(table, records)]
    filled = FilledTable(table, lines, tuple(_measured_on(records)))
    return as_texts(filled, records, overlaps)


def as_texts(
    filled: FilledTable, records: Sequence[ResultRecord] = (), overlaps: Overlaps = NO_OVERLAPS
) -> RenderedTable:
    """The texts of a table.

    Args:
      filled: the table.
      records: what totals are made of.
      overlaps: of the runs' training with their test data.
    """
    table, lines = filled.table, filled.lines
    marks = {} if "note" in table.lines else marks_of(note for line in lines for note in line.notes)
    columns: list[tuple[str, list[str]]] = [
        (
            _title(table, name),
            [_key_text(name, line.values[place], line, marks, place == 0) for line in lines],
        )
        for place, name in enumerate(table.lines)
        if filled.publication or any(line.values[place] for line in lines)
    ]
    if filled.publication or any(line.seeds[-1] > 1 for line in lines):
        columns.append((_SEEDS, [_range_text(line.seeds) for line in lines]))
    for fact in table.facts:
        columns.append((_TITLES.get(fact, fact), [_fact(fact, line) for line in lines]))
    for figure in table.figures:
        columns += _figure_columns(figure, lines, table.unit)
        if figure.title == table.others:
            columns += _other_columns(figure, lines, overlaps)
    header = [title for title, _ in columns]
    published = [_published_row(row, filled, header) for row in table.published]
    ours = [list(row) for row in zip(*(texts for _, texts in columns), strict=True)]
    totals = _total_rows(table, records, header)
    rows = [*published, *ours, *totals]
    folders = [*(() for _ in published), *(line.folders for line in lines), *(() for _ in totals)]
    if table.upright:
        header, *rows = (list(column) for column in zip(header, *rows, strict=True))
    below = [*(f"{mark} {note}" for note, mark in marks.items()), *filled.below]
    runs = tuple(record for line in lines for record in line.runs)
    name = f"Table {table.name}. {table.title}" if table.title else table.name
    return RenderedTable(name, header, rows, below, runs, folders=folders)


def _title(table: Table, name: str) -> str:
    return table.titles.get(name, _TITLES.get(name, name))


def _range_text(seeds: tuple[int, int]) -> str:
    return " to ".join(map(str, dict.fromkeys(seeds)))


def _published_row(row: PublishedRow, filled: FilledTable, header: Sequence[str]) -> list[str]:
    """The texts of a row as printed, under our titles."""
    named, source = (_title(filled.table, name) for name in filled.table.lines)
    texts = {named: row.model, source: filled.publication, _SEEDS: row.seeds}
    for column, text in zip(filled.table.figures, row.cells, strict=True):
        best, mean = _titles(column, header)
        is_mean = row.seeds.startswith("mean") and mean in header
        texts[mean if is_mean else best] = "" if text == NOTHING else text
    return [texts.get(title, "") for title in header]


def _titles(column: Column, header: Collection[str]) -> tuple[str, str]:
    """The titles of a column's best seeds and means, as the header has them."""
    best = f"{column.title}, best seed"
    return best if best in header else column.title, f"{column.title}, mean"


def render_summary(
    table: Table,
    tables: Mapping[str, Table],
    records: Sequence[ResultRecord],
    overlaps: Overlaps = NO_OVERLAPS,
) -> RenderedTable:
    """A table of the most telling figures of other tables.

    Args:
      table: its layout.
      tables: the other tables, by name.
      records: of all tables.
      overlaps: of their training with their test data.

    Raises:
      UserError: no record is of a line.
    """
    rows = []
    for line in table.summary:
        source = tables.get(line.records, Table(line.records))
        kept = [
            item
            for item in records
            if item.table == source.source and source.fits(item, line.figure)
        ]
        summary = _total_summary if line.total else _summary
        cells = summary(line, source, kept, overlaps)
        if cells is None:
            raise UserError(f"{table.name}: no record of {line.records!r} is of {line.text!r}.")
        rows.append([line.text, *cells, line.link])
    header = ["task", "set", "minutes", "score, with 95% interval", "the paper's UT", "details"]
    if not any(line.link for line in table.summary):
        header, rows = header[:-1], [row[:-1] for row in rows]
    links = frozenset(line.link for line in table.summary)
    return RenderedTable(table.name, header, rows, [], links=links)


def _summary(
    line: SummaryLine, source: Table, records: Sequence[ResultRecord], overlaps: Overlaps
) -> list[str] | None:
    """Set, minutes, score and the publication's of the best recipe."""
    fitting = _best_recipe(records)
    cell = cell_of(source, line.figure, fitting)
    if cell is None:
        return None
    seeds = len({item.run_key for item in fitting})
    known = _known(fitting[:1], overlaps)
    score = f"{line.figure.title} {_score(line.figure, cell, seeds)}{known}"
    paper = cell.paper or _published(line, source, fitting[0])
    return [*_sets_and_minutes(fitting), score, paper]


def _total_summary(
    line: SummaryLine, source: Table, records: Sequence[ResultRecord], overlaps: Overlaps
) -> list[str] | None:
    """Sets, minutes, mean error, failed tasks and the publication's of all tasks."""
    if source.total is None:
        return None
    total = next(iter(make_totals(source, line.figure, source.total, records)), None)
    if total is None or total.best is None:
        return None
    mean, failed = total.best
    missing = "" if total.tasks == source.total.tasks else f", {total.tasks} tasks"
    known = _known(total.chosen, overlaps)
    score = f"{line.figure.title} {mean:.2f}, {failed} failed{missing}{known}"
    return [*_sets_and_minutes(records), score, source.total.paper.get(total.row, "")]


def _known(records: Iterable[ResultRecord], overlaps: Overlaps) -> str:
    """How many test questions the runs know from training; empty where nobody counted."""
    keys = map(Overlap.key_of, records)
    known = known_text([overlaps[key] for key in keys if key in overlaps])
    return f"; {known}" if known else ""


def _sets_and_minutes(records: Sequence[ResultRecord]) -> list[str]:
    runs = tuple({item.run_key: item for item in records}.values())
    sets = dict.fromkeys(f"`{item.hparams_set}`" for item in runs)
    return [", ".join(sets), _fact("minutes", Line((), {}, runs=runs))]


def _best_recipe(records: Sequence[ResultRecord]) -> list[ResultRecord]:
    """The records of the recipe that validation puts first or, where it says nothing, of the one
    that was recorded last.
    """
    judged = [record for record in records if record.selection is not None]
    chosen = best_of(judged) if judged else None
    chosen = chosen or (records[-1] if records else None)
    return seeds_of(chosen, records) if chosen else []


def _published(line: SummaryLine, source: Table, record: ResultRecord) -> str:
    """The publication's figures by the line's own layout; empty where it has none."""
    task = source.task_of(record.problem)
    names = (f"{task}, {record.row}", task, record.row)
    texts = [line.figure.paper_of(metric, names) for metric in line.figure.metrics]
    return "" if None in texts else SEPARATOR.join(filter(None, texts))


def _score(column: Column, cell: Cell, seeds: int) -> str:
    if cell.deviation is None:
        return best_text(column, cell)
    if cell.best is not None and not any(cell.deviation):
        return f"{best_text(column, cell)} ({seeds} seeds)"
    best = f", the best {best_text(column, cell)}" if cell.best else ""
    return f"{mean_text(column, cell)} ({seeds} seeds{best})"


def as_markdown(rendered: RenderedTable, padded: bool = False) -> str:
    """The table as Markdown; `padded`: for readers in a terminal."""
    grid = as_table(rendered.header, rendered.rows, padded, rendered.links)
    return "\n\n".join([grid, *map(as_prose, rendered.below)])


def _with_figures(table: Table, records: Iterable[ResultRecord]) -> Table:
    """The layout with a column for each metric where it names none."""
    if table.figures:
        return table
    metrics = dict.fromkeys(record.metric for record in records)
    figures = tuple(Column(metric, (metric,), where={"test_problem": ".*"}) for metric in metrics)
    return dataclasses.replace(table, figures=figures)


def _with_overlap(line: Line, table: Table, overlaps: Overlaps) -> Line:
    """The line, with a note on what its runs know of the test where no column says all of it."""
    overlap = overlaps.get(Overlap.key_of(line.runs[0]))
    if overlap is None or (table.others and not overlap.has_tasks):
        return line
    return dataclasses.replace(line, notes=(*line.notes, overlap.sentence()))


def _other_columns(
    column: Column, lines: Sequence[Line], overlaps: Overlaps
) -> list[tuple[str, list[str]]]:
    known, others, title = [], [], f"{column.title} on the others"
    for line in lines:
        overlap, cell = overlaps.get(Overlap.key_of(line.runs[0])), line.cells.get(column.title)
        known.append("{:,} of {:,}".format(*overlap.total) if overlap else "")
        others.append(_others_text(column, overlap, cell) if overlap and cell else "")
        if overlap and overlap.has_tasks:
            # Tasks have different numbers of other questions: it is no mean over the tasks.
            title = "error on the others together"
    return [("known test questions", known), (title, others)]


def _others_text(column: Column, overlap: Overlap, cell: Cell) -> str:
    """What was measured on the questions not known, or a bound; empty where there are none."""
    if cell.others is not None:
        return number(cell.others, column.digits[0])
    error = (cell.best or cell.mean)[-1]
    most = None if error is None else overlap.most_of_others(error)
    if most is None:
        return ""
    # Rounded up, to stay a bound.
    unit = 10 ** column.digits[0]
    bound = math.ceil(most * unit - 1e-9) / unit
    is_exact = not (overlap.total[0] and bound)
    return f"{'' if is_exact else 'at most '}{number(bound, column.digits[0])}"


def _key_text(name: str, value: str, line: Line, marks: dict[str, str], is_first: bool) -> str:
    mark = "".join(marks.get(note, "") for note in line.notes) if is_first else ""
    return (f"`{value}`" if name in _CODE and value else value) + mark


def _fact(name: str, line: Line) -> str:
    """A fact of a line's runs: one text, or the least and the greatest."""
    read, form = _FACTS[name]
    known = [value for record in line.runs if (value := read(record)) is not None]
    if not known:
        return ""
    if isinstance(known[0], str):
        return ", ".join(dict.fromkeys(map(str, known)))
    texts = dict.fromkeys(format(value, form) for value in (min(known), max(known)))
    return " to ".join(texts)


def _figure_columns(
    column: Column, lines: Sequence[Line], unit: str
) -> list[tuple[str, list[str]]]:
    cells = [line.cells.get(column.title) for line in lines]
    means = [mean_text(column, cell, unit) for cell in cells] if column.mean else []
    best_title = f"{column.title}, best seed" if any(means) else column.title
    columns = [(best_title, [best_text(column, cell, unit) for cell in cells])]
    if any(means):
        columns.append((f"{column.title}, mean", means))
    if any(cell is not None and cell.paper for cell in cells):
        columns.append((column.paper_title, [cell.paper if cell else "" for cell in cells]))
    return columns


def _total_rows(
    table: Table, records: Sequence[ResultRecord], header: Sequence[str]
) -> list[list[str]]:
    """A line for each row of which all tasks are summed up."""
    if table.total is None:
        return []
    rows: dict[str, list[str]] = {}
    names_rows = len({record.row for record in records}) > 1
    for figure in table.figures:
        for line in make_totals(table, figure, table.total, records):
            if line.best is None:
                continue
            texts = rows.setdefault(line.row, [""] * len(header))
            texts[0] = _all_tasks(table.total, line) + (f" ({line.row})" if names_rows else "")
            _fill_total(table.total, figure, line, header, texts)
    return list(rows.values())


def _all_tasks(total: Total, line: TotalLine) -> str:
    if line.tasks == total.tasks:
        return f"**all {total.tasks}**"
    return f"**{line.tasks} of {total.tasks}**"


def _fill_total(
    total: Total, column: Column, line: TotalLine, header: Sequence[str], texts: list[str]
) -> None:
    for title, summed in zip(_titles(column, header), (line.best, line.mean), strict=True):
        if title in header and summed is not None:
            mean, failed = summed
            texts[header.index(title)] = f"**{mean:.2f}** ({failed} failed)"
    if _SEEDS in header:
        texts[header.index(_SEEDS)] = _range_text(line.seeds)
    if column.paper_title in header and line.row in total.paper:
        texts[header.index(column.paper_title)] = total.paper[line.row]


def _measured_on(records: Sequence[ResultRecord]) -> list[str]:
    """A sentence on the processors and versions that the records name; nothing where none does."""
    processors = dict.fromkeys(processor_text(record) for record in records if record.processor)
    if not processors:
        return []
    versions = dict.fromkeys(f"ut-tf {record.version}" for record in records if record.processor)
    return [f"Measured on {'; '.join(processors)}; {', '.join(versions)}."]
