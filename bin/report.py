"""ut-report: fills the paper's tables from run directories.

``ut-report runs``
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from ut_tf.bin import report_results
from ut_tf.bin.frame import flags
from ut_tf.bin.frame.command import entry_point, tell
from ut_tf.bin.frame.declarations import declaration
from ut_tf.bin.frame.flags import FlagError
from ut_tf.bin.frame.readable_run import evaluation_line
from ut_tf.errors import UserError, did_you_mean, file_errors
from ut_tf.paths import expanded
from ut_tf.run_config import read_values
from ut_tf.storage.files import write_text
from ut_tf.tables.by import BY, panels_by, panels_text
from ut_tf.tables.exports import as_csv, as_json, report_markdown
from ut_tf.tables.layout_files import PUBLICATIONS, paper_tables
from ut_tf.tables.publication import Report, make_report
from ut_tf.tables.runs import FoundRun, find_runs

COMMAND, DESCRIPTION, FLAGS = declaration("report")

_MAIN_CURVES = "main"
_FORMATS = {"markdown": report_markdown, "csv": as_csv, "json": as_json, "md": report_markdown}
_HTML = "html"


@entry_point(COMMAND, FLAGS)
def main(argv: list[str]) -> None:
    """Runs the command, given the words of its command line."""
    values = flags.parse(COMMAND, DESCRIPTION, FLAGS, argv)
    formats = (*_FORMATS, _HTML)
    if values.format not in formats:
        raise FlagError(
            f"--format={values.format}: expected one of"
            f" {', '.join(formats)}{did_you_mean(values.format, formats).rstrip('?')}."
        )
    if values.by not in ("", *BY):
        raise FlagError(f"--by={values.by}: expected one of {', '.join(BY)}.")
    report_results.check(values)
    output = expanded(values.output) if values.output else None
    if report_results.are_records(values.runs):
        text = report_results.tables_of_records(values)
        _show(text, output)
        return
    numbers = [number.strip() for number in values.tables.split(",") if number.strip()]
    runs, warnings = find_runs([expanded(place) for place in values.runs])
    for warning in warnings:
        tell(COMMAND, f"warning: {warning}")
    if not runs:
        raise UserError("no run could be read, see the warnings: name other folders.")
    if values.record:
        report_results.record(runs, values)
        return
    if values.curves:
        _draw_curves(runs, values.curves, output or Path("curves"))
        return
    if values.by:
        _show_by(runs, values.by, output)
        return
    (publication,) = {*PUBLICATIONS[1:]}.intersection(numbers) or PUBLICATIONS[:1]
    report = make_report(paper_tables(publication), runs, numbers, _evaluation)
    _show(
        _as_html(report, output) if values.format == _HTML else _FORMATS[values.format](report),
        output,
    )


def _show(text: str, output: Path | None) -> None:
    if output is not None:
        _write(output, text.rstrip("\n") + "\n")
    elif text:
        print(text.rstrip("\n"))


def _as_html(report: Report, output: Path | None) -> str:
    from ut_tf.tables.html import report_page

    return report_page(report, Path() if output is None else output.parent)


def _draw_curves(runs: Sequence[FoundRun], names: str, output: Path) -> None:
    from ut_tf.figures.curves import learning_curves, main_curves, matching_curves
    from ut_tf.figures.style import check_installed, save
    from ut_tf.tables.curves import curves_of_runs

    check_installed()
    curves = curves_of_runs(runs)
    if not curves:
        raise UserError("none of the runs has learning curves: train one with ut-trainer.")
    is_main = names == _MAIN_CURVES
    chosen = main_curves(curves) if is_main else matching_curves(curves, names.split(","))
    for file in save(learning_curves(curves, chosen), output):
        tell(COMMAND, f"drawn: {file}")


def _show_by(runs: Sequence[FoundRun], by: str, output: Path | None) -> None:
    from ut_tf.figures.by import curves_by, regret_bars
    from ut_tf.figures.style import IMAGES, save

    panels = panels_by(runs, by)
    if output is None or output.suffix not in IMAGES:
        _show(panels_text(panels), output)
        return
    figure = regret_bars(panels) if by == "regret" else curves_by(panels, by)
    for file in save(figure, output):
        tell(COMMAND, f"drawn: {file}")


def _evaluation(folder: Path) -> str:
    values = read_values(folder) or {}
    return evaluation_line(str(folder), values.get("usr_dir"))


def _write(path: Path, text: str) -> None:
    with file_errors(f"--output={path}", "name another file", "written"):
        write_text(path, text)


if __name__ == "__main__":
    sys.exit(main())
