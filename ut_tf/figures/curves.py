"""Learning curves of several runs in one figure, from their metrics.jsonl.

::

    runs = {"dropout=0.1": [read_curves(folder) for folder in folders]}    # three seeds
    figure = learning_curves(runs, ["train/loss", "eval/error"])
"""

import fnmatch
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ut_tf.errors import UserError, did_you_mean, file_errors
from ut_tf.figures.style import (
    draw_band,
    in_style,
    legend_outside,
    line_style,
    name_upright,
    new_panels,
)
from ut_tf.figures.words import in_words, short_names
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
# Points of a line that has no marks.
_MANY = 30
Curve = list[tuple[int, float]]
"""Steps and values."""
Runs = Mapping[str, Sequence[Mapping[str, Curve]]]
"""Label -> for each seed name -> curve."""


def read_curves(folder: Path) -> dict[str, Curve]:
    """The values in a run's metrics.jsonl, by name: "train/loss", "eval/error". A last line that is
    half written is left out with a warning.

    Raises:
      UserError: the file is missing, or a line of it is no JSON or damaged.
    """
    path = folder / METRICS_FILE
    with file_errors(path, "learning curves need a run that ut-trainer trained"):
        content = read_bounded(path, MOST_LINES_BYTES)
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


def main_curves(runs: Runs) -> list[str]:
    """The names of the training loss, and of the most telling metric of validation."""
    known = _known(runs)
    telling = [
        name
        for metric in _TELLING
        for name in sorted(known)
        if name.startswith("eval/") and name.endswith(f"/{metric}")
    ]
    return [name for name in ("train/loss", *telling[:1]) if name in known] or sorted(known)


def matching_curves(runs: Runs, names: Sequence[str]) -> list[str]:
    """The names with patterns such as "eval/error/*" replaced by the names of the runs' curves that
    match, in the order of the first run; a pattern that matches nothing stays.
    """
    known = _known(runs)
    matches = (match for name in names for match in fnmatch.filter(known, name) or [name])
    return list(dict.fromkeys(matches))


def _known(runs: Runs) -> dict[str, None]:
    """The names of all curves, those of the first run first."""
    return dict.fromkeys(name for seeds in runs.values() for curves in seeds for name in curves)


def learning_curves(runs: Runs, names: Sequence[str]) -> Any:
    """A figure with a panel for each name, and in it a line for each kind of run that has the
    values: the mean over those of its seeds that got so far, in a band from the least to the
    greatest.

    Args:
      runs: label -> the curves of each seed.
      names: of the values; at least one.

    Raises:
      UserError: no run has one of the values.
    """
    known = _known(runs)
    for name in names:
        if name not in known:
            raise UserError(
                f"no run has the curve {name!r}{did_you_mean(name, known)}: expected one of"
                f" {', '.join(sorted(known))}."
            )
    figure, axes = new_panels(len(names))
    labels = short_names(runs)
    with in_style():
        for axis, name in zip(axes, names, strict=True):
            for number, (label, seeds) in enumerate(runs.items()):
                curves = [curves[name] for curves in seeds if name in curves]
                if not curves:
                    continue
                style = line_style(number)
                steps, values = _on_one_axis(curves)
                if len(steps) >= _MANY:
                    style.pop("marker")
                of_seeds = f" ({len(curves)} seeds)" if len(curves) > 1 else ""
                axis.plot(steps, values.mean(0), label=labels[label] + of_seeds, **style)
                draw_band(axis, steps, values.min(0), values.max(0), color=style["color"])
            axis.set_xlabel("update")
            axis.locator_params(axis="x", integer=True)
            name_upright(axis, in_words(name))
    legend_outside(figure)
    return figure


def _on_one_axis(curves: Sequence[Curve]) -> tuple[list[int], Any]:
    """All steps of several curves, and the values there [curves, steps], between log points on the
    line through them; masked beyond a curve's ends, and where a value is no number.
    """
    # Late: refusals of commands that draw curves need no arrays.
    import numpy as np

    steps = sorted({step for curve in curves for step, _ in curve})
    rows = (np.array(curve).T for curve in curves)
    ends: dict[str, float] = {"left": np.nan, "right": np.nan}
    values = np.stack([np.interp(steps, at, values, **ends) for at, values in rows])
    return steps, np.ma.masked_invalid(values)
