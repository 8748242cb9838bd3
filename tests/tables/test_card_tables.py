"""The tables of a model card: every figure once."""

from __future__ import annotations

from typing import Any

from ut_tf.tables.card_tables import parted, statistics_of, tables


def group(feature: str, value: str, examples: int = 500) -> dict[str, Any]:
    return {"feature": feature, "value": value, "examples": examples}


# Task 10 has one supporting fact and task 9 has two, so that both ways of grouping are the same.
METRICS = {
    "error": 2.0,
    "error/10": 1.0,
    "error/9": 3.0,
    "mean_error": 2.0,
    "ponder_time": 2.5,
    "ponder_time/10": 2.0,
    "ponder_time/9": 3.0,
    "ponder_time/supporting_facts_1": 2.0,
    "ponder_time/supporting_facts_2": 3.0,
    "ponder_time/question": 4.0,
    "ponder_time/question/supporting_facts_1": 3.0,
    "ponder_time/question/supporting_facts_2": 5.0,
}
GROUPS = {
    "9": group("task", "9"),
    "10": group("task", "10"),
    "supporting_facts_1": group("supporting_facts", "1"),
    "supporting_facts_2": group("supporting_facts", "2"),
}


def test_scores_and_pondering_are_each_grouped_in_one_way() -> None:
    statistics = statistics_of(METRICS, {"error/9": (2.0, 4.125)}, {"": 1000}, GROUPS)
    scores, pondering = map(tables, parted(statistics))
    assert scores.split("\n") == [
        "| metric | figure | 95% interval |",
        "| --- | --- | --- |",
        "| `error` | 2 |  |",
        "",
        "| group | examples | `error` |",
        "| --- | --- | --- |",
        "| task 9 | 500 | 3 [2, 4.125] |",
        "| task 10 | 500 | 1 |",
    ]
    assert pondering.split("\n")[2:] == [
        "| `ponder_time` | 2.5 |  |",
        "| `ponder_time/question` | 4 |  |",
        "",
        "| group | examples | `ponder_time` | `ponder_time/question` |",
        "| --- | --- | --- | --- |",
        "| 1 supporting fact | 500 | 2 | 3 |",
        "| 2 supporting facts | 500 | 3 | 5 |",
    ]


def test_equal_figures_of_different_meaning_stay() -> None:
    groups = {"9": group("task", "9", 900), "10": group("task", "10", 100)}
    metrics = {name: 2.0 for name in METRICS if "supporting" not in name}
    scores, pondering = map(tables, parted(statistics_of(metrics, {}, {"": 1000}, groups)))
    # The tasks are of different size: their mean is another figure, though its value is the same.
    assert "| `error` | 2 |" in scores and "| `mean_error` | 2 |" in scores
    assert "| task 10 | 100 | 2 |" in pondering


def test_sets_keep_their_names_and_the_source_its_time() -> None:
    metrics = {
        "length_40/seq_acc": 1.0,
        "length_40/ponder_time": 3.0,
        "length_40/ponder_time/source": 3.0,
        "length_40/ponder_time/source_end": 1.0,
    }
    scores, pondering = map(tables, parted(statistics_of(metrics, {}, {"length_40": 10}, {})))
    assert "| `length_40/seq_acc` | 1 |" in scores
    assert "`length_40/ponder_time` " not in pondering
    assert "`length_40/ponder_time/source`" in pondering and "source_end" in pondering
