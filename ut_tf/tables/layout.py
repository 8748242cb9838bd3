"""The layout of a table of results: columns, published rows, and the runs that fill a column.

::

    error = Measure("error")
    column = Column("10k single", (Source(tasks, (error,)),), "{}", digits=2)
    table = Table("1", "bAbI, error in percent", (column,), (PublishedRow("Transformer",
        ("15.2",)),))

Nothing here computes. The tables themselves are data and lie beside the problems
(``ut_tf.tables.paper_tables``); ``filling`` puts the figures of runs in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Measure:
    """One figure of a cell.

    Args:
      metric: its name in a run's evaluations; "{length}" stands for the source's length.
      over: how the figures of several problems become one: their mean, or how many of them are
        above `limit`.
      limit: see `over`.
      from_error: whether the metric is an error in percent that the table prints as an accuracy, 1
        - error / 100.
    """

    metric: str
    over: Literal["mean", "count above limit"] = "mean"
    limit: float = 0.0
    from_error: bool = False


@dataclass(frozen=True)
class Source:
    """Which runs fill a cell.

    Args:
      problems: names of the problems whose figures make the cell, all of them together (bAbI's
        twenty single tasks), or patterns ("lte_*").
      measures: one for each place in the column's form.
      split: the split that the table is about.
      length: the length that the table is about, for metrics of a length; 0: none.
      note: in a few words, what is other than in the table; empty: nothing. "{problem}" stands for
        the problem's name.
      variant: the setting, in tables whose rows are of a model in a setting.
    """

    problems: tuple[str, ...]
    measures: tuple[Measure, ...]
    split: str = "test"
    length: int = 0
    note: str = ""
    variant: str = ""


@dataclass(frozen=True)
class Column:
    """A column: its heading, what fills it, and how a cell is written.

    Args:
      title: the heading.
      sources: what may fill a cell; at most one of them without a note for each variant.
      form: the cell with "{}" for each measure: "{}/{}".
      digits: after the point, for each measure.
      deviations: whether a mean over seeds is written with its deviation, and a single figure with
        its interval.
    """

    title: str
    sources: tuple[Source, ...]
    form: str = "{}"
    digits: tuple[int, ...] = (2,)
    deviations: bool = True


@dataclass(frozen=True)
class PublishedRow:
    """A row as it was printed: texts, one for each column ("-": nothing).

    Args:
      model: which model.
      cells: its figures.
      seeds: how many seeds they are from, in words.
      variant: the setting, see ``Source``.
    """

    model: str
    cells: tuple[str, ...]
    seeds: str = ""
    variant: str = ""


@dataclass(frozen=True)
class Table:
    """A table of a publication.

    Args:
      number: "1"; parts of the same table are "1a", "1b".
      title: what it shows.
      columns: its columns.
      published: its rows as printed.
      unit: what the problems of a source are, where there are several ("tasks").
      upright: whether the columns are written below each other, and the rows side by side (many
        columns, few rows).
    """

    number: str
    title: str
    columns: tuple[Column, ...]
    published: tuple[PublishedRow, ...]
    unit: str = "problems"
    upright: bool = False


@dataclass(frozen=True)
class Tables:
    """All tables of a publication.

    Args:
      publication: its name, for the heading of its rows.
      tables: the tables in their order.
      same_problems: other names of a problem -> the name that the sources have.
      neutral_arguments: arguments of problems that change how much is generated, not what.
    """

    publication: str
    tables: tuple[Table, ...]
    same_problems: dict[str, str] = field(default_factory=dict)
    neutral_arguments: frozenset[str] = frozenset()
