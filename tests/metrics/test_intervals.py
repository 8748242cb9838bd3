"""Intervals of figures: against formulas, and by what any of them must do."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ut_tf.metrics.intervals import bootstrap, middle, resampled_sums, wilson
from ut_tf.metrics.sums import GroupedSums, Metric, percent_wrong, ratio

CLASSES = {
    "loss": Metric(("loss", "examples"), ratio),
    "error": Metric(("correct", "examples"), percent_wrong, share=True, grouped=True),
}


@pytest.mark.parametrize(("successes", "trials"), [(964, 1000), (0, 20), (20, 20), (1, 3)])
def test_wilson_by_its_formula(successes: int, trials: int) -> None:
    z, share = 1.959963984540054, successes / trials
    centre = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = (
        z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials**2)) / (1 + z * z / trials)
    )
    assert wilson(successes, trials) == pytest.approx((centre - half, centre + half), abs=1e-9)


def test_no_trials_tell_nothing() -> None:
    assert wilson(0, 0) == (0, 1)
    assert bootstrap([[3.0, 4.0]], lambda sums: sums[:, 0] / sums[:, 1]) is None
    assert middle([math.nan, math.nan]) is None


def test_samples_are_drawn_from_the_examples_by_the_seed() -> None:
    values = np.array([[1.0, 1.0], [10.0, 1.0], [100.0, 1.0]])
    sums = resampled_sums(values, seed=3, resamples=50)
    assert sums.shape == (50, 2)
    assert set(sums[:, 1]) == {3.0}
    assert {sum(map(int, str(int(total)))) for total in sums[:, 0]} == {3}
    np.testing.assert_array_equal(sums, resampled_sums(values, seed=3, resamples=50))
    assert (sums != resampled_sums(values, seed=4, resamples=50)).any()


def test_the_bootstrap_agrees_with_the_normal_interval_of_a_mean_and_shrinks() -> None:
    draws = np.random.default_rng(0)
    widths = []
    for examples in (100, 1600):
        values = draws.normal(5.0, 2.0, examples)
        low, high = bootstrap(
            np.stack([values, np.ones(examples)], 1), lambda sums: sums[:, 0] / sums[:, 1]
        ) or (0, 0)
        assert low < values.mean() < high
        half = 1.96 * values.std() / math.sqrt(examples)
        assert (low, high) == pytest.approx(
            (values.mean() - half, values.mean() + half), abs=0.2 * half
        )
        widths.append(high - low)
    assert widths[1] == pytest.approx(widths[0] / 4, rel=0.3)


def test_each_metric_has_the_interval_of_its_kind() -> None:
    sums = GroupedSums(CLASSES, ponder_by="facts")
    draws = np.random.default_rng(1)
    for _ in range(4):
        times = draws.integers(1, 5, [100, 3]).astype(float)
        found = {"loss": draws.random(100), "correct": (draws.random(100) < 0.8).astype(float)}
        found |= {
            "ponder_time": times.sum(1),
            "ponder_squares": (times**2).sum(1),
            "ponder_positions": np.full(100, 3.0),
        }
        sums.add(found, np.ones(100), np.arange(100) % 2, np.arange(100) % 4)
    metrics, intervals = sums.metrics(), sums.intervals()
    assert set(intervals) == set(metrics)
    assert len(metrics) == 4 + 2 * 3 + 4 * 2
    assert all(low < metrics[name] < high for name, (low, high) in intervals.items())
    correct = round(4 * (100 - metrics["error"]))
    low, high = wilson(correct, 400)
    assert intervals["error"] == pytest.approx((100 * (1 - high), 100 * (1 - low)))
    # A quarter of the examples: twice the width.
    width = {name: high - low for name, (low, high) in intervals.items()}
    assert width["ponder_time/facts_2"] == pytest.approx(2 * width["ponder_time"], rel=0.25)
    assert width["error/1"] == pytest.approx(math.sqrt(2) * width["error"], rel=0.2)
    assert "ponder_time_std/facts_2" not in sums.metrics(spreads=False)


def test_a_ratio_of_sums_is_not_a_mean_of_ratios() -> None:
    sums = GroupedSums({"accuracy": Metric(("correct", "positions"), ratio)})
    # One long text and three short ones: the share of symbols is 100 of 106, whichever way the
    # examples are batched.
    columns = {
        "loss": [1.0, 1, 1, 1],
        "positions": [100.0, 2, 2, 2],
        "correct": [100.0, 0, 0, 0],
        "all_correct": [1.0, 0, 0, 0],
    }
    sums.add({name: values[:1] for name, values in columns.items()}, [1.0])
    sums.add({name: values[1:] for name, values in columns.items()}, [1.0] * 3)
    assert sums.metrics()["accuracy"] == 100 / 106
    # Of four examples drawn, none is the long one in 32 % of the samples, three or four are in 5 %.
    assert sums.intervals()["accuracy"] == (0, 300 / 302)


def test_one_example_has_the_interval_of_a_share_alone() -> None:
    sums = GroupedSums(CLASSES)
    sums.add({"loss": [0.5], "correct": [1.0]}, [1.0])
    assert set(sums.intervals()) == {"error"}


def test_an_error_of_five_percent_is_five() -> None:
    sums = GroupedSums(CLASSES)
    sums.add({"loss": np.ones(1000), "correct": np.repeat([1.0, 0.0], [950, 50])}, np.ones(1000))
    assert sums.metrics()["error"] == 5


def test_an_infinite_loss_is_infinite_in_the_samples_that_have_it_alone() -> None:
    values = np.array([[1.0, 1.0], [np.inf, 1.0], [3.0, 1.0]])
    sums = resampled_sums(values, resamples=200)
    assert 0.5 < np.isinf(sums[:, 0]).mean() < 0.9  # 1 - (2/3)^3
    assert {*sums[np.isfinite(sums[:, 0]), 0]} <= {3, 5, 7, 9}
    assert {*sums[:, 1]} == {3}
