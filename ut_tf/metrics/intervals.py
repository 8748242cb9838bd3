"""Intervals that hold a figure's true value with 95 % confidence, as far as the choice of the
examples decides it; they say nothing of other seeds of the training.

Example::

    wilson(964, 1000)                                        # (0.9506, 0.9738)
    bootstrap(np.array([[3, 4], [5, 5]]), lambda sums: sums[..., 0] / sums[..., 1])

A share of the examples has Wilson's interval. Any other figure that follows from sums over examples
has the middle 95 % of its values on samples of the examples, drawn with replacement (Efron's
percentile bootstrap). Imports no TensorFlow.
"""

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

CONFIDENCE = 0.95
RESAMPLES = 1000
Interval = tuple[float, float]
Floats = npt.NDArray[np.float64]


def wilson(successes: int, trials: int) -> Interval:
    """Wilson's interval of a share, without correction for continuity; (0, 1) where there
    were no trials.
    """
    if not trials:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    failures, width = trials - successes, 2 * (trials + z**2)
    middle = (2 * successes + z**2) / width
    reach = z / width * math.sqrt(4 * successes * failures / trials + z**2)
    # At the ends the bound is the share itself, which rounding would miss.
    return middle - reach if successes else 0.0, middle + reach if failures else 1.0


def resampled_sums(values: Floats, seed: int = 0, resamples: int = RESAMPLES) -> Floats:
    """Adds up samples of the examples, each as large as their number and drawn with replacement.

    Args:
      values: [examples, columns].
      seed: decides which examples are drawn.
      resamples: number of samples.

    Returns:
      float64 [resamples, columns].
    """
    examples = len(values)
    draws = np.random.default_rng(seed)
    # A loss may be infinite, and infinity times no draws would be no number.
    infinite = np.isposinf(values)
    has_infinite = bool(infinite.any())
    finite = np.where(infinite, 0.0, values) if has_infinite else values
    # How often each example was drawn: one sample after the other, so that the memory does not grow
    # with their number.
    counts = (
        np.bincount(draws.integers(0, examples, examples), minlength=examples)
        for _ in range(resamples)
    )
    return np.stack(
        [
            np.where(count @ infinite, np.inf, count @ finite) if has_infinite else count @ finite
            for count in counts
        ]
    )


def middle(samples: Any) -> Interval | None:
    """The bounds of the middle 95 % of `samples`, float [resamples], those that are no
    numbers left out; None: all were.
    """
    numbers = np.asarray(samples, np.float64)
    numbers = numbers[~np.isnan(numbers)]
    if not numbers.size:
        return None
    outside = (1 - CONFIDENCE) / 2
    # Of two neighbours the nearer one: between two numbers of which one is infinite there is none.
    low, high = np.quantile(numbers, [outside, 1 - outside], method="nearest")
    return float(low), float(high)


def bootstrap(values: Any, statistic: Callable[[Floats], Any]) -> Interval | None:
    """The interval of a figure that follows from sums over examples; None where there are
    fewer than two, which tell no spread.

    Args:
      values: [examples, columns], what is added up.
      statistic: from sums, float64 [resamples, columns], to the figures, float [resamples].
    """
    columns = np.asarray(values, np.float64)
    return middle(statistic(resampled_sums(columns))) if len(columns) > 1 else None
