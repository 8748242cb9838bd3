"""Steps beside difficulty: what a model takes, and after which its answer is final."""

from typing import Any

from ut_tf.evaluation.by_difficulty import DifficultyReport
from ut_tf.figures.style import COLORS, in_style, new_figure


def difficulty_curves(report: DifficultyReport) -> Any:
    """A figure of the accuracy with its intervals, and below it of the mean steps and of those
    until the answer is final, over difficulty.
    """
    figure, axes = new_figure(rows=2)
    points = report.points
    at = [point.difficulty for point in points]
    with in_style():
        axes[0].plot(at, [p.metrics["accuracy"] for p in points], "o-", color=COLORS[0])
        low, high = zip(*(point.interval for point in points), strict=True)
        axes[0].fill_between(at, low, high, color=COLORS[0], alpha=0.15, linewidth=0)
        axes[0].set_ylabel("accuracy of a position")
        for name, label, color in (
            ("steps", "taken", COLORS[0]),
            ("final", "until the answer is final", COLORS[1]),
        ):
            axes[1].plot(at, [p.metrics[name] for p in points], "o-", color=color, label=label)
        needed = [report.totals["scale"] * difficulty for difficulty in at]
        axes[1].plot(at, needed, "--", color="black", label="in proportion to the difficulty")
        axes[1].set_ylabel("steps")
        axes[1].set_ylim(bottom=0.0)
        axes[1].legend(loc="best", fontsize=8)
        axes[1].set_xlabel("difficulty of a position: steps of the algorithm")
    return figure
