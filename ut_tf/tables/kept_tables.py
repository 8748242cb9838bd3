"""All tables of kept results, and the pages that show them.

::

    kept = KeptTables.read([Path("results/babi.jsonl")])
    as_markdown(kept.render("babi_10k_single"))
    written_anew(page.read_text(), str(page), kept)

::

    <!-- table: babi_10k_single -->
    <!-- end -->

A section of a page begins with the name of a table; what stands between its markers is generated.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from ut_tf.errors import UserError, did_you_mean
from ut_tf.tables.layout import Table
from ut_tf.tables.layout_files import read_tables
from ut_tf.tables.overlaps import Overlap, Overlaps, read_overlaps
from ut_tf.tables.record import ResultRecord, read_records
from ut_tf.tables.rendered import as_markdown, render, render_summary
from ut_tf.tables.texts import RenderedTable

_BEGIN = re.compile(r"^<!-- table:\s*(\S*)", re.MULTILINE)
_END = re.compile(r"^<!-- end -->$", re.MULTILINE)
_SECTION = re.compile(r"^<!-- table: (\S+) -->\n.*?^<!-- end -->$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class KeptTables:
    """Records and the tables that show them.

    Args:
      records: of all tables, with the sets that are named so today.
      layouts: of the tables that have one, by name.
      overlaps: of training with test data, by their keys.
    """

    records: Sequence[ResultRecord]
    layouts: Mapping[str, Table]
    overlaps: Overlaps = field(default_factory=dict)

    @classmethod
    def read(cls, files: Iterable[Path]) -> Self:
        """The records in files, with the layouts beside them.

        Raises:
          UserError: a file cannot be read.
        """
        files = list(files)
        layouts: dict[str, Table] = {}
        overlaps: dict[tuple[str, ...], Overlap] = {}
        for folder in dict.fromkeys(file.parent for file in files):
            layouts |= read_tables(folder)
            overlaps |= read_overlaps(folder)
        records = [
            layouts.get(record.table, Table(record.table)).with_todays_set(record)
            for record in read_records(files)
        ]
        return cls(records, layouts, overlaps)

    @property
    def names(self) -> list[str]:
        """The names of the tables that have records, those with a layout first; of a summary, those
        of all its lines.
        """
        recorded = dict.fromkeys(record.table for record in self.records)
        laid_out = [
            name
            for name, table in self.layouts.items()
            if all(source in recorded for source in self._sources(table))
        ]
        return list(dict.fromkeys([*laid_out, *recorded]))

    def _sources(self, table: Table) -> list[str]:
        """The tables whose records a table shows."""
        if not table.summary:
            return [table.source]
        shown = (line.records for line in table.summary)
        return [self.layouts.get(name, Table(name)).source for name in shown]

    def render(self, name: str) -> RenderedTable:
        """A table with its records."""
        table = self.layouts.get(name, Table(name))
        if table.summary:
            return render_summary(table, self.layouts, self.records, self.overlaps)
        records = [item for item in self.records if item.table == table.source]
        return render(table, records, self.overlaps)


def written_anew(text: str, place: str, kept: KeptTables) -> str:
    """A page with every section between markers written anew.

    Args:
      text: of the page.
      place: its name, for messages.
      kept: the tables that there are.

    Raises:
      UserError: the page has no section, one without an end, or names a table without records.
    """
    _check_ends(text, place)
    names = [match[1] for match in _SECTION.finditer(text)]
    if not names:
        raise UserError(
            f"{place} has no table: write <!-- table: NAME --> and, on a line below it,"
            " <!-- end -->."
        )
    for name in names:
        if name not in kept.names:
            near = did_you_mean(name, kept.names) or "."
            raise UserError(f"{place}: no record is of a table {name!r}{near}")

    def section(match: re.Match[str]) -> str:
        table = as_markdown(kept.render(match[1]))
        return f"<!-- table: {match[1]} -->\n\n{table}\n\n<!-- end -->"

    return _SECTION.sub(section, text)


def _check_ends(text: str, place: str) -> None:
    """Raises UserError where a section has no end before the next: prose would be lost in it."""
    sections = list(_BEGIN.finditer(text))
    stops = [*(match.start() for match in sections[1:]), len(text)]
    for match, stop in zip(sections, stops, strict=False):
        if not _END.search(text, match.end(), stop):
            line = text.count("\n", 0, match.start()) + 1
            raise UserError(
                f"{place}:{line}: the table {match[1]!r} has no end before the next one: write"
                " <!-- end --> on a line below it."
            )
