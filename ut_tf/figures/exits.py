"""The front of an exit sweep: what a metric loses for the steps and the time that a rule saves."""

from collections.abc import Sequence
from typing import Any

from ut_tf.evaluation.exit_sweep import NO_RULE, ExitPoint, ExitSweep
from ut_tf.figures.style import COLORS, in_style, new_figure

_COSTS = (
    ("mean_steps", "mean steps per position"),
    ("milliseconds", "milliseconds per example"),
)


def exit_front(sweep: ExitSweep) -> Any:
    """A figure with a row for each headline metric: against mean steps, and against milliseconds.

    A rule is a line through its thresholds; a dashed line marks full depth.
    """
    names = sweep.headlines or tuple(sorted(sweep.points[0].metrics))[:1]
    figure, axes = new_figure(rows=len(names), columns=len(_COSTS))
    with in_style():
        for number, axis in enumerate(axes):
            metric, (cost, label) = names[number // len(_COSTS)], _COSTS[number % len(_COSTS)]
            _draw_front(axis, sweep.points, metric, cost)
            axis.set_xlabel(label)
            axis.set_ylabel(metric)
        axes[len(_COSTS) - 1].legend(loc="best", fontsize=8)
        figure.suptitle(f"exit rules, checkpoint of step {sweep.step}")
    return figure


def _draw_front(axis: Any, points: Sequence[ExitPoint], metric: str, cost: str) -> None:
    rules = dict.fromkeys(point.eval_exit for point in points if point.eval_exit != NO_RULE)
    for color, rule in enumerate(rules):
        places = (
            (getattr(point, cost), point.metrics[metric], point.eval_exit_threshold)
            for point in points
            if point.eval_exit == rule
        )
        members = sorted(places, key=lambda place: place[0])
        costs, values, thresholds = zip(*members, strict=True)
        axis.plot(costs, values, "o-", color=COLORS[color % len(COLORS)], label=rule, markersize=4)
        for place in zip(thresholds, costs, values, strict=True):
            if place[0] is not None:
                axis.annotate(
                    f"{place[0]:g}",
                    place[1:],
                    xytext=(4, 4),
                    textcoords="offset points",
                    fontsize=6,
                )
    full = next(point for point in points if point.eval_exit == NO_RULE)
    axis.plot([getattr(full, cost)], [full.metrics[metric]], "k*", label="full depth", markersize=9)
    axis.axhline(full.metrics[metric], color="black", linestyle="--", linewidth=0.8)
