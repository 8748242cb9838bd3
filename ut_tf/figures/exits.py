"""Fronts: what a metric loses for the steps, the FLOP and the time that a use of a model saves."""

from collections.abc import Sequence
from typing import Any

from ut_tf.evaluation.compute import AS_TRAINED, ComputePoint, ComputeSweep
from ut_tf.evaluation.exit_thresholds import NO_RULE
from ut_tf.figures.style import in_style, legend_outside, line_style, name_upright, new_figure
from ut_tf.figures.words import in_words

_FLOP = ("flop", "operations of an example (FLOP)")
_STEPS = ("mean_steps", "steps of a position (mean)")
_MILLISECONDS = ("milliseconds", "time of an example (ms)")


def compute_front(sweep: ComputeSweep) -> Any:
    """A figure with a row for each headline metric: against FLOP or, where none are counted, mean
    steps, and against milliseconds.

    A curve goes through depths, through the thresholds of a rule, through an oracle's scales or
    through numbers of restarts; a dashed line marks the run as it is, or at full depth.
    """
    counts_flop = sweep.points[0].flop is not None
    costs = (_FLOP if counts_flop else _STEPS, _MILLISECONDS)
    mark: tuple[str, Any] = ("full depth", sweep.points[0])
    if counts_flop:
        mark = (AS_TRAINED, next(point for point in sweep.points if point.usual))
    points = [one for one in sweep.points if one.curve not in (AS_TRAINED, NO_RULE)]
    names = sweep.headlines or tuple(sorted(mark[1].metrics))[:1]
    figure, axes = new_figure(rows=len(names), columns=len(costs))
    from matplotlib.ticker import EngFormatter, LogLocator

    with in_style():
        for number, axis in enumerate(axes):
            metric, (cost, label) = names[number // len(costs)], costs[number % len(costs)]
            _draw_front(axis, points, mark, metric, cost)
            if counts_flop:
                axis.set_xscale("log")
                axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
                axis.xaxis.set_major_formatter(EngFormatter() if cost == "flop" else "{x:g}")
                axis.xaxis.set_minor_formatter("")
            axis.set_xlabel(label)
            name_upright(axis, in_words(metric))
    legend_outside(figure)
    return figure


def _draw_front(
    axis: Any, points: Sequence[ComputePoint], mark: tuple[str, Any], metric: str, cost: str
) -> None:
    for number, curve in enumerate(dict.fromkeys(point.curve for point in points)):
        places = (
            (getattr(point, cost), point.metrics[metric], point.value)
            for point in points
            if point.curve == curve
        )
        costs, metrics, values = zip(*sorted(places, key=lambda place: place[0]), strict=True)
        axis.plot(costs, metrics, label=curve, **line_style(number))
        for value, *place in zip(values, costs, metrics, strict=True):
            if value is not None:
                offset = {"xytext": (4, 4), "textcoords": "offset points"}
                axis.annotate(f"{value:g}", place, fontsize=6, **offset)
    label, full = mark
    axis.plot([getattr(full, cost)], [full.metrics[metric]], "k*", label=label, markersize=9)
    axis.axhline(full.metrics[metric], color="black", linestyle="--", linewidth=0.8)
