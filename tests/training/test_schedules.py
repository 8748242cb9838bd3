"""Learning rates against values computed by hand."""

from __future__ import annotations

import math

import pytest

from ut_tf.config.training import TrainingConfig
from ut_tf.training.schedules import learning_rate


def rate(step: int, hidden_size: int = 64, **values: object) -> float:
    return float(learning_rate(step, TrainingConfig(**values), hidden_size))  # type: ignore[arg-type]


def test_noam_is_tensor2tensors() -> None:
    values = {"learning_rate": 2.0, "schedule": "noam", "warmup_steps": 100}
    assert rate(1, **values) == pytest.approx(2.0 / 8.0 * 0.01 * 0.1)
    assert rate(50, **values) == pytest.approx(2.0 / 8.0 * 0.5 * 0.1)
    assert rate(100, **values) == pytest.approx(2.0 / 8.0 * 0.1)
    assert rate(400, **values) == pytest.approx(2.0 / 8.0 * 0.05)


def test_noam_peaks_at_the_end_of_the_warm_up() -> None:
    rates = [rate(step, schedule="noam", warmup_steps=20) for step in range(1, 60)]
    assert rates.index(max(rates)) == 19


def test_constant_warms_up_and_stays() -> None:
    values = {"learning_rate": 0.3, "schedule": "constant", "warmup_steps": 10}
    assert [rate(step, **values) for step in (1, 5, 10, 1000)] == pytest.approx(
        [0.03, 0.15, 0.3, 0.3]
    )


def test_cosine_goes_to_zero_at_decay_steps() -> None:
    values = {"learning_rate": 1.0, "schedule": "cosine", "warmup_steps": 10, "decay_steps": 110}
    assert rate(5, **values) == pytest.approx(0.5)
    assert rate(10, **values) == pytest.approx(1.0)
    assert rate(35, **values) == pytest.approx(0.5 * (1 + math.cos(math.pi / 4)))
    assert rate(60, **values) == pytest.approx(0.5)
    assert rate(110, **values) == pytest.approx(0.0, abs=1e-7)
    assert rate(500, **values) == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize("schedule", ["noam", "constant", "cosine"])
def test_no_warm_up_begins_with_the_whole_rate(schedule: str) -> None:
    first = rate(
        1, hidden_size=1, schedule=schedule, learning_rate=0.5, warmup_steps=0, decay_steps=10**6
    )
    assert first == pytest.approx(0.5, rel=1e-5)
