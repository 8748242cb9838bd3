"""Ponder times over the steps of a training, as an image."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ut_tf.figures.style import in_style, legend_outside, new_figure


def pondering_over_steps(steps: Sequence[int], histograms: Sequence[Sequence[float]]) -> Any:
    """A figure with a column for each log point, and in it the share of positions per ponder time;
    a line goes through the means.

    Args:
      steps: of the log points, [points].
      histograms: positions per ponder time, [points, times].
    """
    times = max(map(len, histograms))
    counts = np.array([[*counts, *[0.0] * (times - len(counts))] for counts in histograms])
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1.0)
    places = np.arange(len(steps))
    figure, (axis,) = new_figure()
    with in_style():
        image = axis.imshow(
            shares.T, aspect="auto", origin="lower", cmap="Blues", vmin=0.0, vmax=1.0
        )
        figure.colorbar(image, ax=axis, label="share of positions")
        axis.plot(places, shares @ np.arange(times), color="black", linewidth=1, label="mean")
        shown = np.unique(np.linspace(0, len(steps) - 1, 6).round().astype(int))
        axis.set_xticks(shown, [str(steps[place]) for place in shown])
        axis.grid(False)
        axis.set_xlabel("update")
        axis.set_ylabel("ponder time (steps)")
    legend_outside(figure)
    return figure
