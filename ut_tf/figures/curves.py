"""Learning curves of several runs in one figure, from their metrics.jsonl.

::

    curves = {str(folder): read_curves(folder) for folder in folders}
    figure = learning_curves(curves, ["train/loss", "eval/error"])
"""

import fnmatch
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ut_tf.errors import UserError, did_you_mean
from ut_tf.figures.style import COLORS, in_style, new_panels
from ut_tf.storage.files import MOST_LINES_BYTES, read_bounded
from ut_tf.storage.json_lines import finished_lines, read_object
from ut_tf.storage.layout import METRICS_FILE

# Metrics of validation, the most telling first.
_TELLING = (
    "mean_error",
    "error",
    "bleu",
    "f1",
    "seq_acc",
    "seq_accuracy",
    "target/perplexity",
    "accuracy",
    "loss",
)
# Whole numbers beyond it are no measurement.
_LARGEST = 2**53
Curve = list[tuple[int, float]]
"""Steps and values."""


def read_curves(folder: Path) -> dict[str, Curve]:
    """The values in a run's metrics.jsonl, by name: "train/loss", "eval/error". A last line that is
    half written is left out with a warning.

    Raises:
      UserError: the file is missing, or a line of it is no JSON or damaged.
    """
    path = folder / METRICS_FILE
    try:
        content = read_bounded(path, MOST_LINES_BYTES)
    except OSError as error:
        raise UserError(
            f"{path} cannot be read ({error.strerror or error}): learning curves need a run that"
            " ut-trainer trained."
        ) from None
    curves: dict[str, Curve] = {}
    for number, line in enumerate(finished_lines(content, path), 1):
        try:
            values = read_object(line) or {}
            kind, step = values.pop("kind"), int(values.pop("step"))
        except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
            raise UserError(
                f"{path}, line {number} is no log point of a training: remove the line."
            ) from None
        for name, value in values.items():
            if isinstance(value, float) or (isinstance(value, int) and abs(value) < _LARGEST):
                curves.setdefault(f"{kind}/{name}", []).append((step, float(value)))
    return curves


def main_curves(runs: Mapping[str, Mapping[str, Curve]]) -> list[str]:
    """The names of the training loss, and of the most telling metric of validation."""
    known = {name for curves in runs.values() for name in curves}
    telling = [
        name
        for metric in _TELLING
        for name in sorted(known)
        if name.startswith("eval/") and name.endswith(f"/{metric}")
    ]
    return [name for name in ("train/loss", *telling[:1]) if name in known] or sorted(known)


def matching_curves(runs: Mapping[str, Mapping[str, Curve]], names: Sequence[str]) -> list[str]:
    """The names with patterns such as "eval/error/*" replaced by the names of the runs' curves that
    match, in the order of the first run; a pattern that matches nothing stays.
    """
    known = dict.fromkeys(name for curves in runs.values() for name in curves)
    matches = (match for name in names for match in fnmatch.filter(known, name) or [name])
    return list(dict.fromkeys(matches))


def learning_curves(runs: Mapping[str, Mapping[str, Curve]], names: Sequence[str]) -> Any:
    """A figure with a panel for each name, and in it a line for each run that has the values.

    Args:
      runs: label -> name -> curve.
      names: of the values; at least one.

    Raises:
      UserError: no run has one of the values.
    """
    known = sorted({name for curves in runs.values() for name in curves})
    for name in names:
        if name not in known:
            raise UserError(
                f"no run has the curve {name!r}{did_you_mean(name, known)}: expected one of"
                f" {', '.join(known)}."
            )
    figure, axes = new_panels(len(names))
    with in_style():
        for axis, name in zip(axes, names, strict=True):
            for number, (label, curves) in enumerate(runs.items()):
                if name in curves:
                    steps, values = zip(*curves[name], strict=True)
                    style = "o-" if len(steps) < 30 else "-"
                    color = COLORS[number % len(COLORS)]
                    axis.plot(steps, values, style, color=color, label=label, markersize=3)
            axis.set_title(name)
            axis.set_xlabel("step")
            axis.legend(loc="best", fontsize=8)
    return figure
