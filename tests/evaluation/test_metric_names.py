"""Which metrics a line of a validation shows."""

from __future__ import annotations

from ut_tf.evaluation.metric_names import telling

ONE_TASK = {
    "loss": 0.5,
    "error": 2.0,
    "error/1": 2.0,
    "compute_share": 1.0,
    "ponder_time": 3.0,
    "ponder_time/1": 3.0,
    "ponder_time/question": 4.0,
    "ponder_time/question/1": 4.0,
    "mean_error": 2.0,
    "failed_tasks": 0.0,
}


def test_what_repeats_another_figure_is_left_out() -> None:
    assert list(telling(ONE_TASK)) == ["loss", "error", "ponder_time", "ponder_time/question"]
    two = {**ONE_TASK, "error/2": 2.5, "compute_share": 0.7}
    left_out = {"ponder_time/1", "ponder_time/question/1"}
    assert telling(two) == {name: value for name, value in two.items() if name not in left_out}


def test_groups_by_different_things_are_counted_apart() -> None:
    by_facts = {"ponder_time/supporting_facts_1": 3.0}
    assert list(telling({**ONE_TASK, **by_facts})) == list(telling(ONE_TASK))
    by_facts["ponder_time/supporting_facts_2"] = 4.0
    assert set(by_facts) <= set(telling({**ONE_TASK, **by_facts}))


def test_named_sets_and_an_empty_line_are_kept_as_they_are() -> None:
    metrics = {"length_80/seq_acc": 0.5, "length_400/seq_acc": 0.25}
    assert telling(metrics) == metrics
    assert telling({}) == {}
