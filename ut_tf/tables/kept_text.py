"""A table of kept results as texts, and as Markdown.

::

    rendered = render(table, records)
    as_markdown(rendered)
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from ut_tf.errors import UserError
from ut_tf.markdown import as_prose, as_table
from ut_tf.tables.cells import Cell, marks_of
from ut_tf.tables.kept_lines import (
    ResultLine,
    TotalLine,
    best_of,
    cell_of,
    make_lines,
    make_totals,
    seeds_of,
)
from ut_tf.tables.layout import SEPARATOR, Column, SummaryLine, Table, Total
from ut_tf.tables.overlaps import NO_OVERLAPS, Overlap, Overlaps, known_text
from ut_tf.tables.record import ResultRecord
from ut_tf.tables.texts import RenderedTable, bounds, number, processor_text, with_deviation

_TITLES = {"row": "system", "processor_minutes": "processor minutes"}
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
    marks = {} if "note" in table.lines else marks_of(note for line in lines for note in line.notes)
    columns: list[tuple[str, list[str]]] = [
        (
            table.titles.get(name, _TITLES.get(name, name)),
            [_key_text(name, line.values[place], line, marks, place == 0) for line in lines],
        )
        for place, name in enumerate(table.lines)
    ]
    seeds = [len({record.seed for record in line.runs}) for line in lines]
    if max(seeds, default=1) > 1:
        columns.append(("seeds", [str(count) for count in seeds]))
    for fact in table.facts:
        columns.append((_TITLES.get(fact, fact), [_fact(fact, line) for line in lines]))
    for figure in table.figures:
        columns += _figure_columns(figure, lines)
        if figure.title == table.others:
            columns += _other_columns(figure, lines, overlaps)
    rows = [list(row) for row in zip(*(texts for _, texts in columns), strict=True)]
    header = [title for title, _ in columns]
    rows += _total_rows(table, records, header)
    if table.upright:
        header, *rows = (list(column) for column in zip(header, *rows, strict=True))
    below = [f"{mark} {note}" for note, mark in marks.items()]
    runs = tuple(record for line in lines for record in line.runs)
    return RenderedTable(table.name, header, rows, [*below, *_measured_on(records)], runs)


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
    return [", ".join(sets), _fact("minutes", ResultLine((), runs, {}, ()))]


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
        return _best_text(column, cell)
    if cell.best is not None and not any(cell.deviation):
        return f"{_best_text(column, cell)} ({seeds} seeds)"
    best = f", the best {_best_text(column, cell)}" if cell.best else ""
    return f"{_mean_text(column, cell)} ({seeds} seeds{best})"


def as_markdown(rendered: RenderedTable) -> str:
    """The table as Markdown."""
    grid = as_table(rendered.header, rendered.rows, written=rendered.links)
    return "\n\n".join([grid, *map(as_prose, rendered.below)])


def _with_figures(table: Table, records: Iterable[ResultRecord]) -> Table:
    """The layout with a column for each metric where it names none."""
    if table.figures:
        return table
    metrics = dict.fromkeys(record.metric for record in records)
    figures = tuple(Column(metric, (metric,), where={"test_problem": ".*"}) for metric in metrics)
    return dataclasses.replace(table, figures=figures)


def _with_overlap(line: ResultLine, table: Table, overlaps: Overlaps) -> ResultLine:
    """The line, with a note on what its runs know of the test where no column says all of it."""
    overlap = overlaps.get(Overlap.key_of(line.runs[0]))
    if overlap is None or (table.others and not overlap.has_tasks):
        return line
    return dataclasses.replace(line, notes=(*line.notes, overlap.sentence()))


def _other_columns(
    column: Column, lines: Sequence[ResultLine], overlaps: Overlaps
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
    """What was measured on the questions that are not known, or a bound; empty where there are
    none.
    """
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


def _key_text(
    name: str, value: str, line: ResultLine, marks: dict[str, str], is_first: bool
) -> str:
    mark = "".join(marks.get(note, "") for note in line.notes) if is_first else ""
    return (f"`{value}`" if name in _CODE and value else value) + mark


def _fact(name: str, line: ResultLine) -> str:
    """A fact of a line's runs: one text, or the least and the greatest."""
    read, form = _FACTS[name]
    known = [value for record in line.runs if (value := read(record)) is not None]
    if not known:
        return ""
    if isinstance(known[0], str):
        return ", ".join(dict.fromkeys(map(str, known)))
    texts = dict.fromkeys(format(value, form) for value in (min(known), max(known)))
    return " to ".join(texts)


def _figure_columns(column: Column, lines: Sequence[ResultLine]) -> list[tuple[str, list[str]]]:
    cells = [line.cells.get(column.title) for line in lines]
    several = any(cell is not None and cell.deviation is not None for cell in cells)
    best_title = f"{column.title}, best seed" if several and column.mean else column.title
    columns = [(best_title, [_best_text(column, cell) for cell in cells])]
    if several and column.mean:
        columns.append((f"{column.title}, mean", [_mean_text(column, cell) for cell in cells]))
    if any(cell is not None and cell.paper for cell in cells):
        columns.append((column.paper_title, [cell.paper if cell else "" for cell in cells]))
    return columns


def _best_text(column: Column, cell: Cell | None) -> str:
    if cell is None or cell.best is None:
        return ""
    texts = [number(value, column.digits_of(place)) for place, value in enumerate(cell.best)]
    interval = cell.intervals[-1] if cell.intervals and column.interval else None
    return column.text(texts) + bounds(interval, column.digits_of(len(texts) - 1))


def _mean_text(column: Column, cell: Cell | None) -> str:
    if cell is None or cell.deviation is None:
        return ""
    figures = zip(cell.mean, cell.deviation, strict=True)
    return column.text(
        [with_deviation(*each, column.digits_of(place)) for place, each in enumerate(figures)]
    )


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
    for title, summed in (
        (column.title, line.best),
        (f"{column.title}, best seed", line.best),
        (f"{column.title}, mean", line.mean),
    ):
        if title in header and summed is not None:
            mean, failed = summed
            texts[header.index(title)] = f"**{mean:.2f}** ({failed} failed)"
    if "seeds" in header:
        texts[header.index("seeds")] = " to ".join(map(str, dict.fromkeys(line.seeds)))
    if column.paper_title in header and line.row in total.paper:
        texts[header.index(column.paper_title)] = total.paper[line.row]


def _measured_on(records: Sequence[ResultRecord]) -> list[str]:
    """A sentence on the processors and versions that the records name; nothing where none does."""
    processors = dict.fromkeys(processor_text(record) for record in records if record.processor)
    if not processors:
        return []
    versions = dict.fromkeys(f"ut-tf {record.version}" for record in records if record.processor)
    return [f"Measured on {'; '.join(processors)}; {', '.join(versions)}."]
