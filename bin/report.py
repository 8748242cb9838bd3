"""ut-report: fills the paper's tables from run directories.

``ut-report runs``
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from ut_tf.bin import flags
from ut_tf.bin.command import execute, tell
from ut_tf.bin.flags import Flag, FlagError
from ut_tf.errors import UserError, did_you_mean
from ut_tf.reporting.filling import make_report
from ut_tf.reporting.paper_tables import PAPER_TABLES
from ut_tf.reporting.rendering import as_csv, as_json, as_markdown
from ut_tf.reporting.runs import find_runs
from ut_tf.storage.files import write_text

COMMAND = "ut-report"
DESCRIPTION = """ut-report: fills the tables of "Universal Transformers" (arXiv 1807.03819) from run
directories.

  ut-report runs
  ut-report runs/copy runs/reverse --tables=4 --format=csv --output=table4.csv

It reads what ut-eval found; runs without an evaluation are listed with the command that evaluates
them. Rows of ours stand beneath the paper's; where several runs differ in their seed alone, the
best by validation and the mean are given. Figures of other data than the table's have a mark."""

FLAGS = (
    Flag(
        "runs",
        "Run directories, or folders with runs at any depth.",
        "What",
        "words",
        required=True,
        positional=True,
    ),
    Flag(
        "tables",
        "Numbers of the tables to print, such as 1,4 (1 is 1, 1a and 1b), whether or not there are"
        " runs.",
        "What",
        default="",
        shown_default="all with runs",
    ),
    Flag("format", "markdown, csv (one figure a line) or json.", "How", default="markdown"),
    Flag("output", "File to write to.", "How", default="", shown_default="standard output"),
)
_FORMATS = {"markdown": as_markdown, "csv": as_csv, "json": as_json}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    return execute(COMMAND, FLAGS, lambda: _main(flags.command_line(argv)))


def _main(argv: list[str]) -> None:
    values = flags.parse(COMMAND, DESCRIPTION, FLAGS, argv)
    if values.format not in _FORMATS:
        raise FlagError(
            f"--format={values.format}: expected one of"
            f" {', '.join(_FORMATS)}{did_you_mean(values.format, _FORMATS).rstrip('?')}."
        )
    numbers = [number.strip() for number in values.tables.split(",") if number.strip()]
    runs, warnings = find_runs([Path(place).expanduser() for place in values.runs])
    for warning in warnings:
        tell(COMMAND, f"warning: {warning}")
    if not runs:
        raise UserError("no run could be read, see the warnings: name other folders.")
    text = _FORMATS[values.format](make_report(PAPER_TABLES, runs, numbers, _evaluation))
    if values.output:
        _write(Path(values.output).expanduser(), text.rstrip("\n") + "\n")
    else:
        print(text.rstrip("\n"))


def _evaluation(folder: Path) -> str:
    return f"ut-eval --output_dir={shlex.quote(str(folder))}"


def _write(path: Path, text: str) -> None:
    try:
        write_text(path, text)
    except OSError as error:
        raise UserError(
            f"--output={path} cannot be written: {error.strerror or error}; name another file."
        ) from error


if __name__ == "__main__":
    sys.exit(main())
