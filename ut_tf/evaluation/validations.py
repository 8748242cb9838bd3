"""The validations of a training: which of them are sound, and those that its metrics.jsonl has.

Imports neither TensorFlow nor numpy.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

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


def diverging(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The losses of evaluation sets that are no finite number: of a model that has diverged,
    whatever else was measured. In a file such a number is None.
    """
    return {
        name: value
        for name, value in metrics.items()
        if name.rpartition("/")[2] == "loss"
        and not (isinstance(value, int | float) and math.isfinite(value))
    }
