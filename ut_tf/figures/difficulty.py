"""Steps beside difficulty: what a model takes, and after which its answer is final."""

from typing import Any

from ut_tf.evaluation.by_difficulty import DifficultyReport
from ut_tf.figures.style import COLORS, draw_band, in_style, legend_outside, line_style, new_figure

_STEPS = {"steps": "taken", "final": "until the answer is final"}


def difficulty_curves(report: DifficultyReport) -> Any:
    """A figure of the accuracy with its intervals, and below it of the mean steps and of those
    until the answer is final, over difficulty.
    """
    figure, axes = new_figure(rows=2)
    points = report.points
    at = [point.difficulty for point in points]
    with in_style():
        axes[0].plot(at, [p.metrics["accuracy"] for p in points], **line_style(0))
        low, high = zip(*(p.interval for p in points), strict=True)
        draw_band(axes[0], at, low, high, COLORS[0])
        axes[0].set_ylabel("accuracy (share of positions)")
        for number, (name, label) in enumerate(_STEPS.items()):
            style = line_style(number)
            axes[1].plot(at, [p.metrics[name] for p in points], label=label, **style)
        needed = [report.totals["scale"] * difficulty for difficulty in at]
        axes[1].plot(at, needed, "--", color="black", label="in proportion to the difficulty")
        axes[1].set_ylabel("steps of a position")
        axes[1].set_ylim(bottom=0.0)
        for axis in axes:
            axis.locator_params(axis="x", integer=True)
        axes[1].set_xlabel("difficulty of a position (steps of the algorithm)")
    legend_outside(figure)
    return figure
