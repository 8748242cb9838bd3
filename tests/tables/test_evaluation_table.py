"""The table of metrics: digits, units, columns, and nothing twice."""

from __future__ import annotations

import math

import pytest

from ut_tf.metrics.sums import Group, group_title
from ut_tf.tables.evaluation_table import figure, metrics_table


@pytest.mark.parametrize(
    ("value", "interval", "expected"),
    [
        (7.43333, (6.548, 8.427), "7.4 [6.5, 8.4]"),
        (2.43715, (2.431, 2.444), "2.437 [2.431, 2.444]"),
        (15210.4, (13480.2, 17160.9), "15210 [13480, 17161]"),
        (1.0, (1.0, 1.0), "1 [1, 1]"),
        (0.123456, None, "0.1235"),
        (4.0, None, "4"),
        (math.nan, (0.0, 1.0), "-"),
        (2.0, (1.0, math.inf), "2"),
    ],
)
def test_a_figure_has_the_digits_that_its_interval_supports(value, interval, expected):
    assert figure(value, interval) == expected


@pytest.mark.parametrize(
    ("feature", "value", "title"),
    [
        ("supporting_facts", "1", "1 supporting fact"),
        ("blanks", "9", "9 blanks"),
        ("task", "3", "task 3"),
        ("class", "1", "class 1"),
        ("class", "good", "class good"),
    ],
)
def test_groups_have_titles(feature, value, title):
    assert group_title(feature, value) == title


STORY_METRICS = {
    "loss": 0.2,
    "error": 5.0,
    "ponder_time": 2.5,
    "ponder_time/question": 5.0,
    "error/2": 10.0,
    "ponder_time/2": 2.75,
    "error/10": 0.0,
    "ponder_time/10": 2.25,
    "ponder_time/supporting_facts_1": 2.25,
    "ponder_time/question/supporting_facts_1": 4.5,
    "ponder_time/supporting_facts_2": 2.75,
    "ponder_time/question/supporting_facts_2": 5.5,
    "mean_error": 5.0,
}
STORY_GROUPS = {
    "2": Group("task", "2", 50),
    "10": Group("task", "10", 50),
    "supporting_facts_1": Group("supporting_facts", "1", 50),
    "supporting_facts_2": Group("supporting_facts", "2", 50),
}


def lines(table: str) -> list[list[str]]:
    """The cells of each line; two blanks or more part them."""
    return [
        [cell.strip() for cell in line.split("  ") if cell.strip()] for line in table.splitlines()
    ]


def test_groups_are_columns_and_nothing_stands_twice():
    table = metrics_table(
        STORY_METRICS, {"error": (2.0, 11.0)}, {"": 100}, STORY_GROUPS, ("error",)
    )
    assert lines(table) == [
        ["all", "task 2", "task 10"],
        ["2 supporting facts", "1 supporting fact"],
        ["examples", "100", "50", "50"],
        ["error (%)", "5.0 [2.0, 11.0]", "10", "0"],
        ["loss (nats)", "0.2"],
        ["ponder_time (steps)", "2.5", "2.75", "2.25"],
        ["ponder_time/question (steps)", "5", "5.5", "4.5"],
    ]


def test_groups_of_other_features_with_the_same_figures_stay_apart():
    metrics, groups = {"error": 5.0, "ponder_time": 6.0, "ponder_time/question": 6.0}, {}
    for number in ("1", "2"):
        metrics |= {f"error/{number}": 4.0 + int(number), f"ponder_time/{number}": 6.0}
        metrics[f"ponder_time/supporting_facts_{number}"] = 6.0
        metrics[f"ponder_time/question/supporting_facts_{number}"] = 6.0
        groups[number] = Group("task", number, 50)
        groups[f"supporting_facts_{number}"] = Group("supporting_facts", number, 50)
    # Every question takes all steps: nothing tells which task has two facts.
    table = lines(metrics_table(metrics, {}, {"": 100}, groups))
    assert table[:2] == [["all", "task 1", "task 2", "1 supporting fact"], ["2 supporting facts"]]
    assert table[3] == ["error (%)", "5", "5", "6"]
    assert table[-1] == ["ponder_time/question (steps)", "6", "6"]


def test_columns_without_room_stand_below_with_their_rows_named_again():
    table = metrics_table(STORY_METRICS, {}, {"": 100}, STORY_GROUPS, ("error",), width=60)
    assert all(len(line) <= 60 for line in table.splitlines())
    first, second = (lines(part) for part in table.split("\n\n"))
    assert first[:2] == [["all", "task 2"], ["2 supporting facts"]]
    assert first[-1] == ["ponder_time/question (steps)", "5", "5.5"]
    assert second == [
        ["task 10"],
        ["1 supporting fact"],
        ["examples", "50"],
        ["error (%)", "0"],
        ["ponder_time (steps)", "2.25"],
        ["ponder_time/question (steps)", "4.5"],
    ]
    # One column is shown however narrow the terminal is.
    assert "task 10" in metrics_table(STORY_METRICS, {}, {"": 100}, STORY_GROUPS, width=10)


def test_sets_are_columns_in_the_order_of_their_lengths():
    metrics = {
        f"length_{length}/{name}": value
        for length in (400, 40)
        for name, value in (("char_acc", 1.0), ("seq_acc", 0.5))
    }
    table = metrics_table(metrics, {}, {"length_400": 20, "length_40": 30}, {}, ("seq_acc",))
    assert lines(table) == [
        ["length_40", "length_400"],
        ["examples", "30", "20"],
        ["seq_acc", "0.5", "0.5"],
        ["char_acc", "1", "1"],
    ]


def test_the_ponder_time_of_the_source_stands_in_for_the_encoders():
    metrics = {"ponder_time": 2.0, "ponder_time/source": 2.0, "ponder_time/target": 3.0}
    assert lines(metrics_table(metrics)) == [
        ["ponder_time/source (steps)", "2"],
        ["ponder_time/target (steps)", "3"],
    ]
