"""The validations of a training, as its metrics.jsonl has them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from ut_tf.evaluation.metric_names import diverging
from ut_tf.storage.json_lines import objects, step_of

# The whole numbers that a float holds.
_LARGEST_METRIC = 2**53


def judged(path: Path, name: str) -> Iterator[tuple[int, float]]:
    """Yields (step, value) of each evaluation in a metrics file that has a finite value of the
    metric, and finite losses.
    """
    for values in objects(path):
        value, step = values.get(name), step_of(values)
        if values.get("kind") != "eval" or step is None or diverging(values):
            continue
        if isinstance(value, float) and math.isfinite(value):
            yield step, value
        elif isinstance(value, int) and abs(value) <= _LARGEST_METRIC:
            yield step, float(value)
