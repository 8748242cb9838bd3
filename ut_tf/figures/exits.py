"""Fronts: what a metric loses for the steps, the FLOP and the time that a use of a model saves."""

from collections.abc import Sequence
from typing import Any

from ut_tf.evaluation.compute import AS_TRAINED, ComputeSweep
from ut_tf.evaluation.exit_sweep import NO_RULE, ExitSweep
from ut_tf.figures.style import COLORS, in_style, new_figure

_MILLISECONDS = ("milliseconds", "milliseconds per example")
_EXIT_COSTS = (("mean_steps", "mean steps per position"), _MILLISECONDS)
_Place = tuple[str, float | None, Any]
"""A curve, the value of what is changed along it, and a point."""
_COMPUTE_COSTS = (("flop", "FLOP per example"), _MILLISECONDS)


def exit_front(sweep: ExitSweep) -> Any:
    """A figure with a row for each headline metric: against mean steps, and against milliseconds.

    A rule is a line through its thresholds; a dashed line marks full depth.
    """
    (full,) = (point for point in sweep.points if point.eval_exit == NO_RULE)
    points = [
        (one.eval_exit, one.eval_exit_threshold, one) for one in sweep.points if one is not full
    ]
    figure = _fronts(points, sweep.headlines, ("full depth", full), _EXIT_COSTS)
    figure.suptitle(f"exit rules, checkpoint of step {sweep.step}")
    return figure


def compute_front(sweep: ComputeSweep) -> Any:
    """A figure with a row for each headline metric: against FLOP, and against milliseconds.

    A curve goes through depths, through the thresholds of a rule, through an oracle's scales or
    through numbers of restarts; a dashed line marks the run as it is.
    """
    usual = next(point for point in sweep.points if point.usual)
    mark = (AS_TRAINED, usual)
    points = [(one.curve, one.value, one) for one in sweep.points if one.curve != AS_TRAINED]
    figure = _fronts(points, sweep.headlines, mark, _COMPUTE_COSTS, logarithmic=True)
    figure.suptitle(f"metrics against compute, checkpoint of step {sweep.step}")
    return figure


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
                axis.xaxis.set_major_formatter(EngFormatter())
                axis.xaxis.set_minor_formatter("")
            axis.set_xlabel(label)
            axis.set_ylabel(metric)
        axes[len(costs) - 1].legend(loc="best", fontsize=8)
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
        # Colors come again after eight curves, with another mark.
        form, color = "osv^D"[number // len(COLORS) % 5], COLORS[number % len(COLORS)]
        axis.plot(costs, metrics, f"{form}-", color=color, label=curve, markersize=4)
        for value, *place in zip(values, costs, metrics, strict=True):
            if value is not None:
                offset = {"xytext": (4, 4), "textcoords": "offset points"}
                axis.annotate(f"{value:g}", place, fontsize=6, **offset)
    label, full = mark
    axis.plot([getattr(full, cost)], [full.metrics[metric]], "k*", label=label, markersize=9)
    axis.axhline(full.metrics[metric], color="black", linestyle="--", linewidth=0.8)
