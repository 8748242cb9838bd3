"""Figures of an evaluation: by length, by group, ponder times, confusion of answers.

::

    figures = evaluation_figures(measured, sets, observed)  # by file name
    save(figures["error_by_task"], folder / "error_by_task")

A figure is there where the evaluation has its data: two lengths, groups, dynamic halting, classes.
"""

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ut_tf.data.problem import EvaluationSet
from ut_tf.evaluation.measurement import Measurement
from ut_tf.evaluation.observations import Observed
from ut_tf.figures.style import (
    COLORS,
    in_style,
    legend_outside,
    line_style,
    name_upright,
    new_figure,
)
from ut_tf.figures.words import in_words
from ut_tf.metrics.intervals import Floats
from ut_tf.metrics.sums import PONDER_ROLES, PONDERING, Group

# Classes that a confusion matrix shows; the others are one row and column.
_MOST_CLASSES = 20
_OTHERS = "others"
_ROLES = {"source_end": "end of the source", "target_end": "end of the target"}
# Less is written as nothing.
_LEAST_SHARE = 0.005


def evaluation_figures(
    measured: Measurement, sets: Sequence[EvaluationSet], observed: Mapping[str, Observed]
) -> dict[str, Any]:
    """Figures by file name.

    Args:
      measured: metrics and intervals of all sets.
      sets: the evaluation sets.
      observed: by name of the set.
    """
    figures: dict[str, Any] = {}
    by_length = _by_length(measured.metrics)
    if by_length:
        figures["accuracy_by_length"] = _length_figure(by_length, measured)
    for evaluation_set in sets:
        prefix = f"{evaluation_set.name}/" if evaluation_set.name else ""
        file_prefix = prefix.replace("/", "_")
        for name, groups in _by_group(measured, prefix).items():
            metric, feature = name
            figures[f"{file_prefix}{metric.replace('/', '_')}_by_{feature}"] = _group_figure(
                metric, feature, groups, measured
            )
        seen = observed.get(evaluation_set.name, Observed())
        if seen.ponder_counts:
            figures[f"{file_prefix}ponder_times"] = ponder_histogram(seen.ponder_counts)
        if seen.confusion:
            figures[f"{file_prefix}confusion"] = confusion_matrix(seen.confusion)
    return figures


def ponder_histogram(counts: Mapping[str, Floats]) -> Any:
    """The share of positions per ponder time, a panel for each part.

    Args:
      counts: part -> positions per ponder time 0, 1, ..., [times].
    """
    figure, axes = new_figure(columns=len(counts))
    with in_style():
        for axis, (part, positions), color in zip(axes, counts.items(), COLORS, strict=False):
            shares = positions / max(positions.sum(), 1.0)
            times = np.arange(len(shares))
            first = 1 if not positions[0] else 0
            axis.bar(times[first:], shares[first:], color=color)
            mean = float((shares * times).sum())
            axis.axvline(mean, color="black", linestyle="--", linewidth=0.8)
            axis.set_title(f"{part}: mean {mean:.2f} steps")
            axis.set_xlabel("ponder time (steps)")
            axis.locator_params(axis="x", integer=True)
            axis.set_ylabel("share of positions")
    return figure


def confusion_matrix(confusion: Counter[tuple[str, str]]) -> Any:
    """The share of each answer among the examples of each class; the most frequent classes.

    Args:
      confusion: (class, answer) -> examples.
    """
    shown = _shown_classes(confusion)
    places = {name: number for number, name in enumerate(shown)}
    counts = np.zeros([len(shown), len(shown)])
    for (target, answer), examples in confusion.items():
        row, column = (places.get(name, len(shown) - 1) for name in (target, answer))
        counts[row, column] += examples
    totals = counts.sum(1, keepdims=True)
    shares = counts / np.maximum(totals, 1.0)
    size = 2.2 + 0.34 * len(shown)
    figure, (axis,) = new_figure(panel=(size + 0.8, size))
    with in_style():
        image = axis.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0)
        bar = figure.colorbar(image, ax=axis, label="share of the class (%)", shrink=0.7)
        bar.set_ticks([0.0, 0.5, 1.0], labels=["0", "50", "100"])
        axis.grid(False)
        for (row, column), share in np.ndenumerate(shares):
            if share >= _LEAST_SHARE:
                color = "white" if share > 0.5 else "black"
                percent = f"{100.0 * share:.0f}"
                axis.text(column, row, percent, ha="center", va="center", fontsize=7, color=color)
        axis.set_xticks(range(len(shown)), shown, rotation=90)
        labels = [f"{name} ({total:.0f})" for name, total in zip(shown, totals[:, 0], strict=True)]
        axis.set_yticks(range(len(shown)), labels)
        axis.set_xlabel("answer")
        axis.set_ylabel("class (examples)")
        axis.set_title(f"{counts.trace() / counts.sum():.1%} answered with their class")
    return figure


def _shown_classes(confusion: Counter[tuple[str, str]]) -> list[str]:
    frequencies: Counter[str] = Counter()
    for (target, answer), examples in confusion.items():
        frequencies[target] += examples
        frequencies[answer] += examples
    if len(frequencies) <= _MOST_CLASSES:
        return sorted(frequencies)
    return [*sorted(name for name, _ in frequencies.most_common(_MOST_CLASSES - 1)), _OTHERS]


def _by_length(metrics: Mapping[str, float]) -> dict[str, dict[int, str]]:
    """Metric -> length -> its full name, of shares that two lengths have."""
    named: dict[str, dict[int, str]] = {}
    for name in metrics:
        match = re.fullmatch(r"length_(\d+)/([\w]*acc(?:uracy)?)", name)
        if match:
            named.setdefault(match[2], {})[int(match[1])] = name
    return {
        metric: {length: names[length] for length in sorted(names)}
        for metric, names in named.items()
        if len(names) > 1
    }


def _length_figure(by_length: Mapping[str, Mapping[int, str]], measured: Measurement) -> Any:
    figure, (axis,) = new_figure()
    with in_style():
        for number, (metric, names) in enumerate(by_length.items()):
            values, errors = _values_and_errors(list(names.values()), measured)
            label, style = in_words(metric), line_style(number)
            axis.errorbar(list(names), values, errors, label=label, capsize=3, **style)
        axis.set_ylim(-0.02, 1.02)
        axis.set_xlabel("length (symbols)")
        axis.set_ylabel("share")
    legend_outside(figure)
    return figure


def _by_group(measured: Measurement, prefix: str) -> dict[tuple[str, str], dict[str, str]]:
    """Metric and feature -> group -> full name of the metric, of a set's metrics that have groups;
    what positions hold ("question", "facts") groups them, too.
    """
    figures: dict[tuple[str, str], dict[str, str]] = {}
    # Deviations would be as many figures again.
    spreads = tuple(f"{name}/" for name, metric in PONDERING.items() if metric.spread)
    own = [
        name
        for name in measured.metrics
        if name.startswith(prefix) and not f"{name}/".startswith(spreads, len(prefix))
    ]
    for base, name in itertools.product(own, own):
        ending = name.removeprefix(f"{base}/")
        group = measured.groups.get(prefix + ending, Group("position", ending, 0))
        if ending == name or (group.feature == "position" and ending not in PONDER_ROLES):
            continue
        figures.setdefault((base.removeprefix(prefix), group.feature), {})[group.value] = name
    return {name: groups for name, groups in figures.items() if len(groups) > 1}


def _group_figure(
    metric: str, feature: str, groups: Mapping[str, str], measured: Measurement
) -> Any:
    ordered = sorted(groups, key=lambda group: (not group.isdecimal(), group.zfill(9)))
    values, errors = _values_and_errors([groups[group] for group in ordered], measured)
    labels = [_ROLES.get(group, group.replace("_", " ")) for group in ordered]
    width = max(3.0, 1.4 + 0.35 * len(ordered))
    figure, (axis,) = new_figure(panel=(width, 3.2))
    with in_style():
        axis.bar(labels, values, yerr=errors if errors.any() else None, color=COLORS[0], capsize=3)
        name_upright(axis, in_words(metric))
        axis.set_xlabel(feature.replace("_", " "))
        # About ten letters fit an inch.
        if sum(len(label) + 2 for label in labels) > 10 * width:
            axis.tick_params(axis="x", rotation=90)
    return figure


def _values_and_errors(names: Sequence[str], measured: Measurement) -> tuple[Floats, Floats]:
    """The values of metrics, [metrics], and how far their intervals reach below and above,
    [2, metrics]; 0 where there is none.
    """
    values = np.array([measured.metrics[name] for name in names])
    bounds = np.array(
        [measured.intervals.get(name, (measured.metrics[name],) * 2) for name in names]
    )
    return values, np.maximum(np.abs(bounds.T - values), 0.0)
