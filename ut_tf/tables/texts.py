"""Texts of cells, and tables of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from ut_tf.errors import counted
from ut_tf.tables.cells import Interval
from ut_tf.tables.layout import NOTHING
from ut_tf.tables.record import ResultRecord


@dataclass(frozen=True)
class RenderedTable:
    """A table of kept records as texts.

    Args:
      name: of its layout.
      header: a text for each column.
      rows: likewise.
      below: sentences below the table.
      runs: a record of each run in it.
      links: cells that are links of its layout.
    """

    name: str
    header: list[str]
    rows: list[list[str]]
    below: Sequence[str] = ()
    runs: tuple[ResultRecord, ...] = ()
    links: frozenset[str] = frozenset()


def number(value: float | None, digits: int) -> str:
    """A number with its digits after the point."""
    return NOTHING if value is None else f"{value:.{digits}f}"


def with_deviation(mean: float | None, deviation: float | None, digits: int) -> str:
    """A mean and its deviation, if any."""
    return number(mean, digits) + ("" if deviation is None else f" ± {number(deviation, digits)}")


def bounds(interval: Interval | None, digits: int) -> str:
    """An interval; empty without one."""
    return f" [{interval[0]:.{digits}f}, {interval[1]:.{digits}f}]" if interval else ""


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
