"""Fronts: what a metric loses for the steps, the FLOP and the time that a use of a model saves."""

from collections.abc import Sequence
from typing import Any

from ut_tf.evaluation.compute import AS_TRAINED, ComputeSweep
from ut_tf.evaluation.exit_sweep import NO_RULE, ExitSweep
from ut_tf.figures.style import in_style, legend_outside, line_style, new_figure
from ut_tf.figures.words import in_words

_MILLISECONDS = ("milliseconds", "time of an example (ms)")
_EXIT_COSTS = (("mean_steps", "steps of a position (mean)"), _MILLISECONDS)
_Place = tuple[str, float | None, Any]
"""A curve, the value of what is changed along it, and a point."""
_COMPUTE_COSTS = (("flop", "operations of an example (FLOP)"), _MILLISECONDS)


def exit_front(sweep: ExitSweep) -> Any:
    """A figure with a row for each headline metric: against mean steps, and against milliseconds.

    A rule is a line through its thresholds; a dashed line marks full depth.
    """
    (full,) = (point for point in sweep.points if point.eval_exit == NO_RULE)
    points = [
        (one.eval_exit, one.eval_exit_threshold, one) for one in sweep.points if one is not full
    ]
    return _fronts(points, sweep.headlines, ("full depth", full), _EXIT_COSTS)


def compute_front(sweep: ComputeSweep) -> Any:
    """A figure with a row for each headline metric: against FLOP, and against milliseconds.

    A curve goes through depths, through the thresholds of a rule, through an oracle's scales or
    through numbers of restarts; a dashed line marks the run as it is.
    """
    usual = next(point for point in sweep.points if point.usual)
    mark = (AS_TRAINED, usual)
    points = [(one.curve, one.value, one) for one in sweep.points if one.curve != AS_TRAINED]
    return _fronts(points, sweep.headlines, mark, _COMPUTE_COSTS, logarithmic=True)


def _fronts(
    points: Sequence[_Place],
    headlines: tuple[str, ...],
    mark: tuple[str, Any],
    costs: Sequence[tuple[str, str]],
    logarithmic: bool = False,
) -> Any:
    """A figure of points of curves; `mark` is the label and the point of a star."""
    names = headlines or tuple(sorted(mark[1].metrics))[:1]
    figure, axes = new_figure(rows=len(names), columns=len(costs))
    from matplotlib.ticker import EngFormatter, LogLocator

    with in_style():
        for number, axis in enumerate(axes):
            metric, (cost, label) = names[number // len(costs)], costs[number % len(costs)]
            _draw_front(axis, points, mark, metric, cost)
            if logarithmic:
                axis.set_xscale("log")
                axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
                axis.xaxis.set_major_formatter(EngFormatter() if cost == "flop" else "{x:g}")
                axis.xaxis.set_minor_formatter("")
            axis.set_xlabel(label)
            axis.set_ylabel(in_words(metric))
    legend_outside(figure)
    return figure


def _draw_front(
    axis: Any, points: Sequence[_Place], mark: tuple[str, Any], metric: str, cost: str
) -> None:
    for number, curve in enumerate(dict.fromkeys(name for name, *_ in points)):
        places = (
            (getattr(point, cost), point.metrics[metric], value)
            for name, value, point in points
            if name == curve
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
