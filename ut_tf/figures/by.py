"""Figures of several runs: metrics over length, depth or difficulty, and regret."""

import re
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from ut_tf.figures.style import (
    COLORS,
    draw_band,
    in_style,
    legend_outside,
    line_style,
    name_upright,
    new_panels,
)
from ut_tf.figures.words import in_words, short_names

_Panels = Mapping[str, Mapping[str, Mapping[Any, Sequence[float]]]]
_PLACES = {
    "length": "length (symbols)",
    "depth": "recurrent depth (steps)",
    "difficulty": "difficulty (steps of the algorithm)",
}


def curves_by(panels: _Panels, by: str) -> Any:
    """A figure with a panel for each problem and metric, and a line for each kind of run: means
    over the seeds, in a band from the least to the greatest. A dotted line marks what was trained.

    Args:
      panels: "problem: metric" -> line -> place -> a value of each seed.
      by: what the places are.
    """
    labels = short_names(dict.fromkeys(label for lines in panels.values() for label in lines))
    numbers = {label: number for number, label in enumerate(labels)}
    figure, axes = new_panels(len(panels))
    with in_style():
        for axis, (panel, lines) in zip(axes, panels.items(), strict=True):
            problem, _, rest = panel.partition(": ")
            metric, _, trained = rest.partition(", ")
            for label, values in lines.items():
                at, style = sorted(values), line_style(numbers[label])
                low, mean, high = ([of(values[x]) for x in at] for of in (min, fmean, max))
                axis.plot(at, mean, label=labels[label], **style)
                draw_band(axis, at, low, high, style["color"])
                for place in re.findall(r"trained (?:at|up to) (\d+)", f"{label}, {trained}"):
                    axis.axvline(int(place), color=style["color"], ls=":", linewidth=1)
            axis.set(title=", ".join(filter(None, (problem, trained))), xlabel=_PLACES[by])
            name_upright(axis, in_words(metric))
            if by == "difficulty":
                axis.locator_params(axis="x", integer=True)
            else:
                axis.set_xscale("log", base=2)
                axis.xaxis.set_major_formatter("{x:g}")
    legend_outside(figure)
    return figure


def regret_bars(panels: _Panels) -> Any:
    """A figure with a panel for each problem, and in it for each way to stop the steps too few
    (left of 0) and too many beside an oracle's, a diamond at the wasted steps, and the accuracy.

    Args:
      panels: problem -> way -> "wasted", "too_many", "too_few" or "accuracy" -> of each seed.
    """
    forms = list(dict.fromkeys(form for lines in panels.values() for form in lines))[::-1]
    figure, axes = new_panels(len(panels), panel=(4.6, 0.9 + 0.24 * len(forms)))
    with in_style():
        for axis, (problem, lines) in zip(axes, panels.items(), strict=True):
            places = [place for place, form in enumerate(forms) if form in lines]
            mean = {
                name: [fmean(lines[forms[place]][name]) for place in places]
                for name in ("wasted", "too_many", "too_few", "accuracy")
            }
            fewer = [-steps for steps in mean["too_few"]]
            axis.barh(places, fewer, 0.6, color=COLORS[1], label="too few")
            axis.barh(places, mean["too_many"], 0.6, color=COLORS[0], label="too many")
            axis.plot(mean["wasted"], places, "kD", markersize=4, label="after the answer is final")
            for place, accuracy in zip(places, mean["accuracy"], strict=True):
                at = {"xy": (1.01, place), "xycoords": ("axes fraction", "data")}
                axis.annotate(f"{accuracy:.3f}", fontsize=7, va="center", **at)
            axis.set_yticks(range(len(forms)), forms, fontsize=8)
            axis.set_ylim(-0.6, len(forms) - 0.4)
            axis.annotate("accuracy", (1.01, 1.03), xycoords="axes fraction", fontsize=7)
            axis.set_title(problem)
            axis.set_xlabel("steps of a position")
    legend_outside(figure)
    return figure
