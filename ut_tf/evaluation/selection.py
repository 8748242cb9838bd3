"""What validation said of checkpoints, and which of several it puts first.

::

    found = selection_of(problem, state)          # {"metric": "error", "direction": "min", ...}
    first([found, other])                         # 0 or 1

The test data never chooses.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ut_tf.data.problem import Problem


def selection_of(problem: Problem, state: Mapping[str, Any]) -> dict[str, Any] | None:
    """What validation said of a checkpoint; None where it was not validated.

    Args:
      problem: on which the run was trained.
      state: that was saved with the checkpoint.

    Returns:
      {"metric", "direction" ("min" or "max"), "value"} of the metric that chooses the best
      checkpoint and, if it is known, "loss" (nats).
    """
    metric, direction = problem.selection_metric
    metrics = state.get("metrics", {})
    value = metrics.get(metric)
    if value is None or state.get("evaluated_step") != state.get("step"):
        return None
    found = {"metric": metric, "direction": direction, "value": value}
    return {**found, "loss": metrics["loss"]} if "loss" in metrics else found


def first(selections: Sequence[Mapping[str, Any] | None]) -> int | None:
    """The place of what validation puts first, or of the only one; None where it says nothing of
    one of them, or not in the same metric.

    Of equals it is the one with the lowest loss, as among the checkpoints of a run; where the
    losses are equal or one of them is unknown, the first. A value or a loss that is no finite
    number says nothing.

    Args:
      selections: of each, as ``selection_of`` returns them, the lowest seed before the others.
    """
    if len(selections) == 1:
        return 0
    known = [found for found in selections if found and _is_sound(found)]
    if len(known) < len(selections) or len({found.get("metric") for found in known}) != 1:
        return None
    scores = [
        float(found["value"]) * (1.0 if found["direction"] == "max" else -1.0) for found in known
    ]
    equals = [place for place, score in enumerate(scores) if score == max(scores)]
    losses = {place: known[place].get("loss") for place in equals}
    if None in losses.values():
        return equals[0]
    return min(equals, key=lambda place: (losses[place], place))


def _is_sound(found: Mapping[str, Any]) -> bool:
    # A record has None in place of a number that is not finite.
    numbers = (found.get("value"), found.get("loss", 0.0))
    return all(number is not None and math.isfinite(number) for number in numbers)
