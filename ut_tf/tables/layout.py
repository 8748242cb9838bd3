"""The layout of tables, as YAML files have it (``ut_tf.tables.layout_files``).

::

    error = Column("10k single", ("error", "error > 5"), (2, 0), form="{} ({})", sources=(single,))
    Table("1", title="bAbI, error in percent", figures=(error,), published=(row,))
    Table("lengths", lines=("task", "set"), figures=(Column("400", ("length_400/seq_acc",)),))

A table of a publication has sources and published rows, and is filled from run directories
(``ut_tf.tables.publication``). A table of kept records has lines (``ut_tf.tables.lines``). A metric
"error > 5" counts the problems whose error is above 5.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ut_tf.tables.record import ResultRecord

SEPARATOR = " / "
NOTHING = "-"
LENGTH = "{length}"
ABOVE = " > "
LINE_FIELDS = ("task", "row", "set", "problem", "seed", "note", "group", "used_with", "split")
FACTS = ("parameters", "updates", "minutes", "processor_minutes", "examples", "version")


@dataclass(frozen=True)
class Source:
    """The runs that fill a cell of a publication's table.

    Args:
      problems: names of the problems whose figures make the cell, all of them together (bAbI's
        twenty single tasks), or patterns ("lte_*").
      metrics: names in a run's evaluations, "{length}" for the length; empty: the column's.
      from_error: whether the metrics are errors in percent that the table prints as accuracies.
      split: the split that the table is about.
      length: the length that the table is about, for metrics of a length; 0: none.
      note: in a few words, what is other than in the table; empty: nothing. "{problem}" stands for
        the problem's name.
    """

    problems: tuple[str, ...]
    metrics: tuple[str, ...] = ()
    from_error: bool = False
    split: str = "test"
    length: int = 0
    note: str = ""


@dataclass(frozen=True)
class Column:
    """A column of figures.

    Args:
      title: the heading.
      metrics: whose figures a cell has.
      digits: after the point, of each metric, the last of all further ones; empty: as many as an
        interval supports.
      form: the cell with "{}" for each metric; empty: " / " between them.
      where: regular expressions that fields of the column's records fit, such as "task", "split"
        or "test_problem" (which is empty where nothing else is said).
      interval: whether the last metric's interval is written.
      mean: whether the mean over the seeds has a column of its own.
      from_error: whether the metric is an error in percent that is shown as an accuracy.
      paper: the publication's figures as printed, by "task, row", task or row.
      paper_title: the heading of their column.
      total: whether the table's total, where it has one, has this column.
      sources: what may fill a cell from run directories; at most one of them without a note, all of
        equally many problems.
    """

    title: str
    metrics: tuple[str, ...]
    digits: tuple[int, ...] = (3,)
    form: str = ""
    where: Mapping[str, str] = field(default_factory=dict)
    interval: bool = True
    mean: bool = True
    from_error: bool = False
    paper: Mapping[str, str] = field(default_factory=dict)
    paper_title: str = "the paper's"
    total: bool = True
    sources: tuple[Source, ...] = ()

    def text(self, values: Sequence[str]) -> str:
        """A cell of the metrics' texts."""
        return self.form.format(*values) if self.form else SEPARATOR.join(values)

    def digits_of(self, place: int) -> int | None:
        """The digits of a metric; None: as many as an interval supports."""
        return self.digits[min(place, len(self.digits) - 1)] if self.digits else None

    def metrics_of(self, source: Source) -> tuple[str, ...]:
        """The metrics of a source."""
        return source.metrics or self.metrics

    def limits_of(self, source: Source) -> list[float | None]:
        """Of each metric of a source the limit above which problems are counted; None: none."""
        limits = (metric.partition(ABOVE)[2] for metric in self.metrics_of(source))
        return [float(limit) if limit else None for limit in limits]

    def paper_of(self, metric: str, names: Sequence[str]) -> str | None:
        """The publication's figure of a metric for the first of the names that it has."""
        for name in names:
            if name in self.paper:
                parts = self.paper[name].split(SEPARATOR)
                number = self.metrics.index(metric)
                return parts[number] if number < len(parts) else None
        return None


@dataclass(frozen=True)
class PublishedRow:
    """A row as it was printed: texts, one for each column ("-": nothing).

    Args:
      model: which model.
      cells: its figures.
      seeds: how many seeds they are from, in words.
    """

    model: str
    cells: tuple[str, ...]
    seeds: str = ""


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
    figure: Column
    link: str = ""
    total: bool = False


@dataclass(frozen=True)
class Table:
    """The layout of a table.

    Args:
      name: by which pages name it; of a publication its number ("1"; parts of it "1a 10k joint").
      title: what a publication's table shows.
      published: its rows as printed.
      unit: what the problems of a source are, where there are several ("tasks").
      figures: columns; empty: one for each metric.
      upright: whether lines and columns are exchanged (many columns, few lines).
      records: the table that its records belong to; empty: its own.
      lines: the fields of records that tell its lines apart: "task", "row", "set", "problem",
        "seed", "note", "group", "used_with", "split". Records of a line differ in their seeds
        alone.
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
      summary: lines of other tables' figures, in place of all the above.
    """

    name: str
    title: str = ""
    published: tuple[PublishedRow, ...] = ()
    unit: str = "problems"
    figures: tuple[Column, ...] = ()
    upright: bool = False
    records: str = ""
    lines: tuple[str, ...] = ("problem", "row", "set")
    facts: tuple[str, ...] = ("minutes",)
    task: str = ""
    group: str = ""
    same_sets: Mapping[str, str] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    total: Total | None = None
    others: str = ""
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

    def metric_in(self, column: Column, name: str) -> str:
        """The metric of a column that a record's metric is, with or without group; empty: none."""
        names = (name, self.split_metric(name)[0])
        return next((metric for metric in names if metric in column.metrics), "")

    def figures_of(self, metric: str, test_problem: str, split: str) -> list[Column]:
        """The columns that a metric of an evaluation belongs to."""
        return [
            column
            for column in self.figures
            if self.metric_in(column, metric)
            and re.fullmatch(column.where.get("test_problem", ""), test_problem)
            and re.fullmatch(column.where.get("split", ".*"), split)
        ]

    def fits(self, record: ResultRecord, column: Column) -> bool:
        """Whether a record is of a column."""
        where = {"test_problem": "", **column.where}
        return bool(self.metric_in(column, record.metric)) and all(
            re.fullmatch(pattern, self.value_of(record, name)) for name, pattern in where.items()
        )


@dataclass(frozen=True)
class Publication:
    """All tables of a publication.

    Args:
      publication: its name, for the heading of its rows.
      tables: the tables in their order.
      same_problems: other names of a problem -> the name that the sources have.
      neutral_arguments: arguments of problems that change how much is generated, not what.
    """

    publication: str
    tables: tuple[Table, ...]
    same_problems: Mapping[str, str] = field(default_factory=dict)
    neutral_arguments: tuple[str, ...] = ()
