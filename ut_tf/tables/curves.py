"""Learning curves that are kept beside records: small CSV files, a line for each validation.

::

    name = keep_curve(Path("results"), run_folder, record)     # curves/babi_qa-ut_babi-....csv

The columns are the update, the mean training loss since the line before, and what validation
measured: the loss and the metric that chose the checkpoint.
"""

import csv
import io
import math
import os
import statistics
from collections.abc import Iterable
from pathlib import Path

from ut_tf.errors import file_errors
from ut_tf.figures.curves import Curve, read_curves
from ut_tf.notices import warn
from ut_tf.storage.files import write_text
from ut_tf.storage.layout import METRICS_FILE
from ut_tf.tables.record import ResultRecord
from ut_tf.tables.records_from_runs import name_of_curve
from ut_tf.tables.runs import FoundRun, of_folders

FOLDER = "curves"
MOST_LINES = 100
_LOSS = "train/loss"


def keep_curve(folder: Path, run_folder: Path, record: ResultRecord) -> str:
    """Writes the learning curve of a run below `folder`; returns the file's name there.

    Args:
      folder: of the records.
      run_folder: the run directory.
      record: of the run.

    Raises:
      UserError: the run has no log, or the file cannot be written.
    """
    curves = read_curves(run_folder)
    name = f"{FOLDER}/{name_of_curve(record)}"
    chosen = "" if record.selection is None else str(record.selection["metric"])
    validation = [
        column for column in dict.fromkeys((f"eval/{chosen}", "eval/loss")) if column in curves
    ]
    text = _text(curves, validation, record.step)
    with file_errors(folder / name, "keep the records in another folder", "written"):
        write_text(folder / name, text)
    return name


def curves_of_runs(runs: Iterable[FoundRun]) -> dict[str, list[dict[str, Curve]]]:
    """The learning curves of trained runs by what was trained, of each seed; a run without a log
    is left out with a warning.

    Raises:
      UserError: the log of one cannot be read.
    """
    trained = of_folders(run for run in runs if run.trained)
    for run in [run for run in trained if not (run.folder / METRICS_FILE).exists()]:
        warn(f"{run.folder} is left out: it has no {METRICS_FILE} of a training.")
        trained.remove(run)
    alike: dict[str, list[FoundRun]] = {}
    for run in trained:
        data = [f"{name}={value}" for name, value in run.problem_args.items()]
        alike.setdefault(", ".join([run.problem, *data, run.system, run.recipe]), []).append(run)
    top = os.path.commonpath([run.folder for run in trained]) if trained else ""
    curves: dict[str, list[dict[str, Curve]]] = {}
    for label, members in alike.items():
        are_seeds = len({run.seed for run in members}) == len(members)
        for run in members:
            folder = "" if are_seeds else f", {os.path.relpath(run.folder, top)}"
            curves.setdefault(label + folder, []).append(read_curves(run.folder))
    return curves


def _text(curves: dict[str, Curve], validation: list[str], chosen: int | None) -> str:
    values = {column: dict(curves[column]) for column in validation}
    steps = sorted({step for column in values.values() for step in column})
    losses = curves.get(_LOSS, [])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["step", *([_LOSS] if losses else []), *validation])
    before = 0
    for step in _thinned(steps, chosen):
        line = [str(step)]
        if losses:
            since = [value for at, value in losses if before < at <= step]
            line.append(_number(statistics.fmean(since)) if since else "")
        line += [_number(values[column].get(step, math.nan)) for column in validation]
        writer.writerow(line)
        before = step
    return text.getvalue()


def _number(value: float) -> str:
    """The value; empty where it is not finite."""
    return f"{value:.6g}" if math.isfinite(value) else ""


def _thinned(steps: list[int], chosen: int | None) -> list[int]:
    """At most ``MOST_LINES`` of the steps and one more: the last and the chosen one among them."""
    stride = -(-len(steps) // MOST_LINES)
    kept = set(steps[::-1][::stride])
    return [step for step in steps if step in kept or step == chosen]
