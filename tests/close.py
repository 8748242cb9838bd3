"""Equality of what is computed in two ways in float32, whose rounding errors grow with the numbers
and differ between processors.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def assert_close(actual: Any, expected: Any, tolerance: float) -> None:
    """Asserts that two tensors differ nowhere by more than `tolerance` times the largest magnitude
    expected, or times 1.

    Args:
      actual, expected: finite numbers [...] of shapes that broadcast, as for numpy.
      tolerance: relative to max(1, max |expected|): a small number beside large ones has the
        rounding error of the large ones.
    """
    one, other = (np.asarray(values).astype(np.float64) for values in (actual, expected))
    size = max(1.0, float(np.abs(other).max(initial=0.0)))
    difference = float(np.abs(one - other).max(initial=0.0))
    assert difference <= tolerance * size, (
        f"differs by {difference:.3g}: more than {tolerance:g} times the largest number, {size:.3g}"
    )
