"""Thread counts: the default by cores, and what goes before it."""

from __future__ import annotations

import pytest
import tensorflow as tf

from ut_tf.training import threads


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The counts that TensorFlow is given, on two cores."""
    given: dict[str, int] = {}
    for kind in ("intra", "inter"):
        name = f"set_{kind}_op_parallelism_threads"
        record = lambda count, kind=kind: given.__setitem__(kind, count)  # noqa: E731
        monkeypatch.setattr(tf.config.threading, name, record)
        monkeypatch.delenv(f"TF_NUM_{kind.upper()}OP_THREADS", raising=False)
    monkeypatch.setattr(threads, "usable_cores", lambda: 2)
    return given


def test_few_cores_run_operations_side_by_side_and_many_share_each(
    counts: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads.set_threads()
    assert counts == {"intra": 1, "inter": 2}
    counts.clear()
    monkeypatch.setattr(threads, "usable_cores", lambda: 16)
    threads.set_threads()
    assert counts == {}


def test_what_the_user_sets_goes_before_the_default(
    counts: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads.set_threads(0, 5)
    assert counts == {"inter": 5}
    counts.clear()
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "2")
    threads.set_threads()
    assert counts == {"inter": 2}


def test_a_default_leaves_a_tensorflow_that_computes_alone(
    counts: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(count: int) -> None:
        raise RuntimeError(f"{count}: cannot be modified after initialization")

    monkeypatch.setattr(tf.config.threading, "set_intra_op_parallelism_threads", refuse)
    threads.set_threads()
    assert counts == {"inter": 2}
    with pytest.raises(RuntimeError, match="3: cannot"):
        threads.set_threads(3)
