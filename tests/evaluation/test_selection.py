"""Which of several checkpoints validation puts first."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ut_tf.evaluation.selection import first


def error(value: float | None, loss: float | None = None, metric: str = "error") -> dict[str, Any]:
    found = {"metric": metric, "direction": "min", "value": value}
    return found if loss is None else {**found, "loss": loss}


def test_the_metric_decides_before_the_loss() -> None:
    assert first([error(2.0, 0.1), error(1.0, 0.9), error(1.5, 0.2)]) == 1
    highest = [{"metric": "bleu", "direction": "max", "value": value} for value in (30.0, 38.0)]
    assert first(highest) == 1


def test_of_equals_the_lowest_loss_is_first() -> None:
    assert first([error(1.0, 0.3), error(0.0, 0.02), error(0.0, 0.01)]) == 2
    # Where losses are equal, or one of them is unknown, the order decides.
    assert first([error(0.0, 0.01), error(0.0, 0.01)]) == 0
    assert first([error(0.0, 0.02), error(0.0)]) == 0


SILENT = [
    *(None, error(None), {}, error(0.0, metric="accuracy")),
    *(error(math.nan), error(-math.inf), error(0.0, math.nan), error(0.0, math.inf)),
    {**error(0.0), "loss": None},
]


@pytest.mark.parametrize("silent", SILENT, ids=str)
def test_where_validation_is_silent_nothing_is_first(silent: dict[str, Any] | None) -> None:
    assert first([error(1.0), silent]) is None
    assert first([silent]) == 0
