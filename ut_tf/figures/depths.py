"""Metrics over recurrent depth, and below them how far the states still move."""

import math
from typing import Any

from ut_tf.evaluation.depth_sweep import DepthSweep
from ut_tf.figures.style import (
    COLORS,
    draw_band,
    in_style,
    legend_outside,
    name_upright,
    new_figure,
)
from ut_tf.figures.words import in_words


def depth_curves(sweep: DepthSweep) -> Any:
    """A figure with a row for each headline metric, with its intervals, and one for the residual,
    over depth; a dashed line marks the depth of training.
    """
    names = sweep.headlines or tuple(sorted(sweep.points[0].metrics))[:1]
    figure, axes = new_figure(rows=len(names) + 1)
    depths = [point.depth for point in sweep.points]
    with in_style():
        for name, axis in zip(names, axes, strict=False):
            _draw_metric(axis, depths, sweep, name)
            name_upright(axis, in_words(name))
        residuals = [math.nan if p.residual is None else p.residual for p in sweep.points]
        axes[-1].plot(depths, residuals, "o-", color=COLORS[1], markersize=4)
        axes[-1].set_ylabel("residual: change of the states")
        if any(value > 0.0 for value in residuals):
            axes[-1].set_yscale("log")
            axes[-1].yaxis.set_major_formatter("{x:g}")
            axes[-1].yaxis.set_minor_formatter("")
        for axis in axes:
            axis.set_xscale("log", base=2)
            axis.xaxis.set_major_formatter("{x:g}")
            axis.set_xlabel("recurrent depth (steps)")
            for point in sweep.points:
                if point.trained:
                    axis.axvline(point.depth, color="black", ls="--", label="depth of training")
    legend_outside(figure)
    return figure


def _draw_metric(axis: Any, depths: list[int], sweep: DepthSweep, name: str) -> None:
    axis.plot(depths, [p.metrics[name] for p in sweep.points], "o-", color=COLORS[0], markersize=4)
    ends = [point.measured.intervals.get(name) for point in sweep.points]
    if None not in ends:
        low, high = zip(*ends, strict=True)
        draw_band(axis, depths, low, high, COLORS[0])
