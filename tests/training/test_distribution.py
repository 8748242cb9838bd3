"""What is said of a TF_CONFIG that describes no place for this process."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ut_tf.errors import UserError
from ut_tf.training import distribution
from ut_tf.training.distribution import make_strategy, worker_count

TWO = {"worker": ["a:1", "b:2"]}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"cluster": {"worker": "a:1,b:2"}}, "not a list of addresses"),
        ({"cluster": {"worker": ["a", "b"]}}, "not a list of addresses"),
        ({"cluster": [1]}, "expected JSON like"),
        ([], "expected JSON like"),
        ({"cluster": TWO}, "the task's type is null"),
        ({"cluster": TWO, "task": {"type": "chief", "index": 0}}, 'the task\'s type is "chief"'),
        ({"cluster": TWO, "task": {"type": "ps", "index": 0}}, 'the task\'s type is "ps"'),
        ({"cluster": TWO, "task": {"type": "worker", "index": 2}}, "those of worker are 0 to 1"),
        ({"cluster": TWO, "task": {"type": "worker", "index": -1}}, "those of worker are 0 to 1"),
        ({"cluster": TWO, "task": [1]}, "expected JSON like"),
    ],
)
def test_faults_are_named(monkeypatch: pytest.MonkeyPatch, found: Any, expected: str) -> None:
    monkeypatch.setenv("TF_CONFIG", json.dumps(found))
    with pytest.raises(UserError, match=expected):
        worker_count()


@pytest.mark.parametrize("index", [1, "1"])
def test_workers_are_counted(monkeypatch: pytest.MonkeyPatch, index: Any) -> None:
    cluster = {"chief": ["c:1"], **TWO}
    monkeypatch.setenv(
        "TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
    )
    assert worker_count() == 3


def test_num_gpus_that_is_not_used_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(
        "TF_CONFIG", json.dumps({"cluster": TWO, "task": {"type": "worker", "index": 0}})
    )
    monkeypatch.setattr(distribution, "_multi_worker_strategy", lambda: "workers")
    assert make_strategy(1) == "workers"
    assert "num_gpus=1 is not used" in capsys.readouterr().err
