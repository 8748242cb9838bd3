"""The layout of tables of kept results: ``tables.yaml`` beside the records.

::

    tables = read_tables(Path("results"))
    tables["lengths"].figures[0].metrics       # ("length_400/char_acc", "length_400/seq_acc")

::

    lengths:
      lines: [task, set]                       # what tells the lines apart
      task: algorithmic_(\\w+)_decimal40        # the task in the name of a problem
      facts: [parameters, updates, minutes]
      figures:
      - {title: "400", metrics: [length_400/char_acc, length_400/seq_acc], digits: 3,
         paper: {copy: 0.91 / 0.35}}
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ut_tf.errors import UserError, did_you_mean
from ut_tf.tables.record import ResultRecord

TABLES_FILE = "tables.yaml"
SEPARATOR = " / "
_LINE_FIELDS = (
    "task",
    "row",
    "set",
    "problem",
    "seed",
    "note",
    "group",
    "used_with",
    "split",
)
_FACTS = ("parameters", "updates", "minutes", "processor_minutes", "examples", "version")
T = TypeVar("T")


@dataclass(frozen=True)
class Figure:
    """A column of figures.

    Args:
      title: the heading.
      metrics: whose figures a cell has, with " / " between them.
      digits: after the point.
      where: regular expressions that fields of the column's records fit, such as "task", "split"
        or "test_problem" (which is empty where nothing else is said).
      interval: whether the last metric's interval is written.
      mean: whether the mean over the seeds has a column of its own.
      from_error: whether the metric is an error in percent that is shown as an accuracy.
      paper: the publication's figures as printed, by "task, row", task or row.
      paper_title: the heading of their column.
      total: whether the table's total, where it has one, has this column.
    """

    title: str
    metrics: tuple[str, ...]
    digits: int = 3
    where: Mapping[str, str] = field(default_factory=dict)
    interval: bool = True
    mean: bool = True
    from_error: bool = False
    paper: Mapping[str, str] = field(default_factory=dict)
    paper_title: str = "the paper's"
    total: bool = True

    def paper_of(self, metric: str, names: Sequence[str]) -> str | None:
        """The publication's figure of a metric for the first of the names that it has."""
        for name in names:
            if name in self.paper:
                parts = self.paper[name].split(SEPARATOR)
                number = self.metrics.index(metric)
                return parts[number] if number < len(parts) else None
        return None


@dataclass(frozen=True)
class Total:
    """A last line: the mean over the tasks, and how many of them failed.

    Args:
      tasks: how many there should be.
      failed_above: a task with a figure above it has failed.
      paper: the publication's, as printed, by row.
    """

    tasks: int
    failed_above: float
    paper: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SummaryLine:
    """A line of a table that shows the most telling figures of other tables.

    Args:
      text: what the figure is of.
      records: the table that its records belong to.
      figure: what is shown; its title stands before it.
      link: where it is told about.
      total: whether the total over the table's tasks is shown, of the row that the figure's `where`
        leaves.
    """

    text: str
    records: str
    figure: Figure
    link: str = ""
    total: bool = False


@dataclass(frozen=True)
class ResultTable:
    """The layout of a table.

    Args:
      name: by which pages name it.
      records: the table that its records belong to; empty: its own.
      lines: the fields of records that tell its lines apart: "task", "row", "set", "problem",
        "seed", "note", "group", "used_with", "split". Records of a line differ in their seeds
        alone.
      figures: columns; empty: one for each metric.
      facts: of the runs, columns before the figures.
      task: regular expression whose group is the task in the name of a problem.
      group: regular expression with the groups "metric" and "group", which split the names of
        metrics, where "group" is among `lines`.
      same_sets: a set with changes -> the set that has these changes today, which stands in its
        place, so that older and newer runs are seeds of one line.
      titles: headings of `lines`, where they are other than their names.
      order: values of the first field, in the order of the lines.
      total: a last line; None: there is none.
      others: title of the figure, an error in percent, whose greatest value on test questions that
        are not known from training has a column; empty: no such column.
      upright: whether lines and columns are exchanged.
      summary: lines of other tables' figures, in place of all the above.
    """

    name: str
    records: str = ""
    lines: tuple[str, ...] = ("problem", "row", "set")
    figures: tuple[Figure, ...] = ()
    facts: tuple[str, ...] = ("minutes",)
    task: str = ""
    group: str = ""
    same_sets: Mapping[str, str] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    total: Total | None = None
    others: str = ""
    upright: bool = False
    summary: tuple[SummaryLine, ...] = ()

    @property
    def source(self) -> str:
        """The table that its records belong to."""
        return self.records or self.name

    def task_of(self, problem: str) -> str:
        """The task in the name of a problem: the whole name where the expression does not fit."""
        match = re.fullmatch(self.task, problem) if self.task else None
        return match[1] if match else problem

    def value_of(self, record: ResultRecord, name: str) -> str:
        """A field of a record, as lines and `where` see it."""
        if name == "task":
            return self.task_of(record.problem)
        if name == "set":
            return record.recipe
        if name == "group":
            return self.split_metric(record.metric)[1]
        value = getattr(record, name)
        return "" if value is None else str(value)

    def with_todays_set(self, record: ResultRecord) -> ResultRecord:
        """The record, with the set of `same_sets` where it names what was trained."""
        if record.trained_recipe not in self.same_sets:
            return record
        todays = self.same_sets[record.trained_recipe]
        return dataclasses.replace(record, hparams_set=todays, overrides="")

    def split_metric(self, name: str) -> tuple[str, str]:
        """A metric's name without its group, and the group; it is empty where there is none."""
        match = re.fullmatch(self.group, name) if self.group else None
        return (match["metric"], match["group"]) if match else (name, "")

    def metric_in(self, figure: Figure, name: str) -> str:
        """The metric of a column that a record's metric is, with or without its group; empty: it
        is none of them.
        """
        names = (name, self.split_metric(name)[0])
        return next((metric for metric in names if metric in figure.metrics), "")

    def figures_of(self, metric: str, test_problem: str, split: str) -> list[Figure]:
        """The columns that a metric of an evaluation belongs to."""
        return [
            figure
            for figure in self.figures
            if self.metric_in(figure, metric)
            and re.fullmatch(figure.where.get("test_problem", ""), test_problem)
            and re.fullmatch(figure.where.get("split", ".*"), split)
        ]

    def fits(self, record: ResultRecord, figure: Figure) -> bool:
        """Whether a record is of a column."""
        where = {"test_problem": "", **figure.where}
        return bool(self.metric_in(figure, record.metric)) and all(
            re.fullmatch(pattern, self.value_of(record, name)) for name, pattern in where.items()
        )


def read_tables(folder: Path) -> dict[str, ResultTable]:
    """The tables that ``tables.yaml`` in a folder lays out, by name; none where it is missing.

    Raises:
      UserError: the file is no YAML, lays a table out twice, or lays out what is not known.
    """
    import yaml

    path = folder / TABLES_FILE
    try:
        text = path.read_text(encoding="utf-8")
        values, node = yaml.safe_load(text) or {}, yaml.compose(text, yaml.SafeLoader)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UserError(f"{path} cannot be read ({error}).") from error
    if not isinstance(values, dict):
        raise UserError(f"{path} holds no names of tables with their layouts.")
    # Of equal names YAML would take the last without a word.
    names = [key.value for key, _ in node.value] if node else []
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"{path} lays out {name} twice: remove one of the two.")
    return {name: _table(str(name), layout, f"{path}, {name}") for name, layout in values.items()}


def layout_of(tables: Mapping[str, ResultTable], records: str) -> ResultTable:
    """The layout by which a run is recorded: that of the records' table, with the figures of all
    tables that show them.
    """
    showing = [table for table in tables.values() if table.source == records]
    own = tables.get(records, showing[0] if showing else ResultTable(records))
    figures = tuple(figure for table in showing for figure in table.figures)
    groups = [table.group for table in showing if table.group]
    return dataclasses.replace(
        own, name=records, records="", figures=figures, group=groups[0] if groups else ""
    )


def _table(name: str, layout: Any, place: str) -> ResultTable:
    values = _fields(ResultTable, layout, place, hidden=("name",))
    for option, allowed in (("lines", _LINE_FIELDS), ("facts", _FACTS)):
        for value in values.get(option, ()):
            if value not in allowed:
                raise UserError(
                    f"{place}: {option} cannot have {value!r}{did_you_mean(value, allowed)}"
                    f" Expected some of {', '.join(allowed)}."
                )
    values["figures"] = tuple(
        _figure(part, f"{place}, figures") for part in values.get("figures", ())
    )
    if values.get("total") is not None:
        values["total"] = Total(**_fields(Total, values["total"], f"{place}, total"))
    values["summary"] = tuple(
        _summary_line(part, f"{place}, summary") for part in values.get("summary", ())
    )
    return ResultTable(name=name, **values)


def _summary_line(layout: Any, place: str) -> SummaryLine:
    values = _fields(SummaryLine, layout, place)
    for name in ("text", "records", "figure"):
        if name not in values:
            raise UserError(f"{place}: a line has no {name}.")
    return SummaryLine(**{**values, "figure": _figure(values["figure"], place)})


def _figure(layout: Any, place: str) -> Figure:
    values = _fields(Figure, layout, place)
    if not values.get("metrics"):
        raise UserError(f"{place}: a figure has no metrics: name one or several.")
    for option in ("where", "paper"):
        values[option] = {str(name): str(value) for name, value in values.get(option, {}).items()}
    return Figure(**{**values, "title": str(values.get("title", values["metrics"][0]))})


def _fields(kind: type, layout: Any, place: str, hidden: Sequence[str] = ()) -> dict[str, Any]:
    """The values of a mapping, lists as tuples; names that the kind lacks are refused."""
    if not isinstance(layout, dict):
        raise UserError(f"{place} is {layout!r}: expected names with values.")
    known = [item.name for item in dataclasses.fields(kind) if item.name not in hidden]
    for name in layout:
        if name not in known:
            raise UserError(
                f"{place}: unknown {name!r}{did_you_mean(str(name), known)} Expected some of"
                f" {', '.join(known)}."
            )
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in layout.items()
    }
