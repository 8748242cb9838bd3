"""Records of evaluations: what is read is what was written, and what is broken is named."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest

from ut_tf.errors import UserError
from ut_tf.evaluation.metric_names import telling
from ut_tf.evaluation.records import Record, append_record, latest, now, read_records
from ut_tf.evaluation.selection import first
from ut_tf.storage.layout import RECORDS_FILE

RECORD = Record(
    time="2026-07-29T12:00:00+00:00",
    problem="babi_sim",
    hparams_set="ut_babi",
    seed=3,
    checkpoint="best",
    step=100,
    split="test",
    metrics={"error": 1 / 3, "loss": 2.0},
    lengths=(40, 400),
    intervals={"error": (0.1, 0.7)},
    examples={"": 1000},
    groups={"1": {"feature": "task", "value": "1", "examples": 1000}},
    data_note="simulated",
    parameters=12345,
    training_minutes=1.5,
    selection={"metric": "error", "direction": "min", "value": 0.5},
)


def test_records_are_read_as_they_were_written(tmp_path: Path) -> None:
    assert read_records(tmp_path) == []
    second = dataclasses.replace(
        RECORD,
        time=now(),
        step=200,
        lengths=(),
        intervals={},
        training_minutes=None,
        selection=None,
    )
    append_record(tmp_path, RECORD)
    append_record(str(tmp_path), second)
    assert read_records(tmp_path) == [RECORD, second]
    values = json.loads((tmp_path / RECORDS_FILE).read_text().splitlines()[0])
    assert values["intervals"] == {"error": [0.1, 0.7]}


def test_a_last_line_that_was_cut_is_passed_over_and_then_removed(tmp_path: Path) -> None:
    append_record(tmp_path, RECORD)
    path = tmp_path / RECORDS_FILE
    whole = path.read_text()
    path.write_text(whole + whole[: len(whole) // 2])
    assert read_records(tmp_path) == [RECORD]
    append_record(tmp_path, RECORD)
    assert path.read_text() == whole * 2
    # A line that lacks nothing but its end is whole.
    path.write_text(whole.rstrip("\n"))
    assert read_records(tmp_path) == [RECORD]
    append_record(tmp_path, RECORD)
    assert path.read_text() == whole * 2


@pytest.mark.parametrize(
    "line",
    ['{"time": "x"', "[]", '{"time": "x", "step": 3}', RECORD.to_json().replace("[0.1, 0.7]", "3")],
)
def test_another_broken_line_is_named(tmp_path: Path, line: str) -> None:
    whole = RECORD.to_json() + "\n"
    (tmp_path / RECORDS_FILE).write_text(whole + line + "\n" + whole)
    with pytest.raises(UserError, match=rf"{RECORDS_FILE}:2 is no record of ut-eval"):
        read_records(tmp_path)


def test_of_what_was_measured_twice_the_last_record_counts() -> None:
    again = dataclasses.replace(RECORD, checkpoint="100", metrics={"error": 1.0})
    train, earlier = dataclasses.replace(RECORD, split="train"), dataclasses.replace(RECORD, step=7)
    elsewhere = dataclasses.replace(RECORD, test_problem="other")
    assert latest([RECORD, train, earlier, elsewhere, again]) == [train, earlier, elsewhere, again]


def test_a_file_that_cannot_be_written_or_read(tmp_path: Path) -> None:
    (tmp_path / RECORDS_FILE).mkdir()
    with pytest.raises(UserError, match=r"cannot be written \(Is a directory"):
        append_record(tmp_path, RECORD)
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        read_records(tmp_path)


def test_a_record_goes_to_no_file_that_a_link_leads_to(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("mine\n")
    (tmp_path / RECORDS_FILE).symlink_to(tmp_path / "theirs")
    with pytest.raises(UserError, match=rf"cannot be written \({RECORDS_FILE} is a link"):
        append_record(tmp_path, RECORD)
    assert (tmp_path / "theirs").read_text() == "mine\n"


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
