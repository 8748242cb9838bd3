"""Texts of cells, and tables of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ut_tf.errors import counted
from ut_tf.tables.cells import Cell
from ut_tf.tables.layout import NOTHING, Column
from ut_tf.tables.record import ResultRecord


@dataclass(frozen=True)
class RenderedTable:
    """A filled table as texts.

    Args:
      name: its heading.
      header: a text for each column.
      rows: likewise.
      below: sentences below the table.
      runs: a record of each run in it.
      links: cells that are links of its layout.
      folders: the run directories of each row, where the rows are of some.
    """

    name: str
    header: list[str]
    rows: list[list[str]]
    below: Sequence[str] = ()
    runs: tuple[ResultRecord, ...] = ()
    links: frozenset[str] = frozenset()
    folders: Sequence[Sequence[Path]] = ()


def number(value: float | None, digits: int | None) -> str:
    """A number with its digits after the point; with four in all where `digits` is None."""
    if value is None:
        return NOTHING
    return f"{value:.4g}" if digits is None else f"{value:.{digits}f}"


def best_text(column: Column, cell: Cell | None, unit: str = "") -> str:
    """The figures of the seed that validation chose; empty where there is none.

    Args:
      column: whose cell it is.
      cell: the figures.
      unit: what the problems of a cell are, where some of them may be missing.
    """
    if cell is None or cell.best is None:
        return ""
    texts = [number(value, column.digits_of(place)) for place, value in enumerate(cell.best)]
    last = cell.intervals[-1] if cell.intervals and column.interval else None
    digits = column.digits_of(len(texts) - 1)
    bounds = "" if last is None else f" [{number(last[0], digits)}, {number(last[1], digits)}]"
    return column.text(texts) + bounds + _part_text(cell, unit)


def mean_text(column: Column, cell: Cell | None, unit: str = "") -> str:
    """As ``best_text``, of the mean over the seeds and its deviation; empty for one seed."""
    if cell is None or cell.seeds == 1 or set(cell.mean) == {None}:
        return ""
    texts = []
    for place, mean in enumerate(cell.mean):
        deviation = cell.deviation[place] if cell.deviation else None
        digits = column.digits_of(place)
        # A count is a whole number, its mean is not.
        digits = None if digits is None else max(digits, 1)
        spread = "" if deviation is None else f" ± {number(deviation, digits)}"
        texts.append(number(mean, digits) + spread)
    return column.text(texts) + _part_text(cell, unit)


def _part_text(cell: Cell, unit: str) -> str:
    if cell.problems == cell.of_problems:
        return ""
    return f" ({cell.problems} of {cell.of_problems} {unit})"


def processor_text(record: ResultRecord) -> str:
    """The processor of a record in words; empty where it is not known."""
    processor = record.processor
    if not processor:
        return ""
    devices = processor.get("devices") or ""
    name = processor.get("model") or "a processor without a name"
    flags = ", ".join(processor.get("flags") or ["flags unknown"])
    cores = processor.get("cores")
    count = f", {counted(int(cores), 'core')}" if cores else ""
    others = "" if devices in ("", "the CPU") else f" with {devices}"
    return f"{name} ({flags}){count}{others}"
