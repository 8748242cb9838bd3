"""Rows that wait for a place: every example of the data is trained on once in every pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.search.models import random_model
from tests.training.test_deep_supervision import ALIGNED, NO_DROPOUT, PARTS, made
from ut_tf.data.pipeline import train_batches
from ut_tf.errors import UserError
from ut_tf.run import Run
from ut_tf.storage.checkpoints import CheckpointStore, read_state
from ut_tf.training.row_queue import demand, empty, serve


def data(examples: int, batch: int) -> Iterator[dict[str, Any]]:
    """Endless passes over examples 0, 1, …, each time the last batch filled up with padding."""
    while True:
        for first in range(0, examples, batch):
            numbers = np.arange(first, first + batch)
            weight = (numbers < examples).astype(np.float32)
            yield {"inputs": np.where(weight > 0, numbers, 0), "weight": weight}


@settings(max_examples=3, deadline=None)
@given(
    examples=st.integers(1, 17),
    rows=st.integers(1, 4),
    replicas=st.integers(1, 3),
    halting=st.floats(0.1, 1.0),
    seed=st.integers(0, 10**6),
)
def test_no_row_is_lost_or_doubled_in_whatever_order_places_fall_free(
    examples: int, rows: int, replicas: int, halting: float, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    batches, drawn = data(examples, rows * replicas), 0
    nothing = {"inputs": np.zeros(rows, np.int64), "weight": np.zeros(rows, np.float32)}
    queues = [empty(nothing) for _ in range(replicas)]
    free = [np.ones(rows, bool) for _ in range(replicas)]
    served: list[list[int]] = [[] for _ in range(replicas)]
    given_to: list[list[int]] = [[] for _ in range(replicas)]
    idle = 0
    for _ in range(16):
        needed, full = np.sum([demand(*pair) for pair in zip(queues, free, strict=True)], 0)
        draws = needed > 0 and full == 0
        batch = next(batches) if draws else None
        drawn += draws
        for at in range(replicas):
            part = slice(at * rows, (at + 1) * rows)
            new = nothing if batch is None else {name: v[part] for name, v in batch.items()}
            given_to[at] += new["inputs"][new["weight"] > 0].tolist()
            found, queues[at] = serve(queues[at], new, free[at])
            is_served = free[at] & (found["weight"].numpy() > 0)
            served[at] += found["inputs"].numpy()[is_served].tolist()
            idle += np.sum(free[at] & ~is_served)
            free[at] = ~is_served & free[at] | (generator.random(rows) < halting)
    for at in range(replicas):
        weight = queues[at]["weight"].numpy()
        waiting = queues[at]["inputs"].numpy()[weight > 0].tolist()
        # In the order of the data, and those that wait are next.
        assert served[at] + waiting == given_to[at]
    if replicas == 1 and examples % rows == 0:
        assert idle == 0
    assert drawn > 0


def test_a_batch_that_nobody_asked_for_is_refused() -> None:
    new = {"inputs": np.arange(3), "weight": np.ones(3, np.float32)}
    queue, taken = empty(new), np.zeros(3, bool)
    for _ in range(2):
        _, queue = serve(queue, new, taken)
    assert demand(queue, taken).numpy().tolist() == [0.0, 1.0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="had no room"):
        serve(queue, new, taken)


def test_a_place_without_a_row_counts_nothing_and_is_free_again() -> None:
    model = random_model(spec=ALIGNED, **PARTS, **NO_DROPOUT)
    deep = made(model, replacement="queue", replace_by="end", supervision_steps=3)
    ids = np.random.default_rng(0).integers(2, 9, [4, 5]).astype(np.int32)

    def features(*weight: float) -> dict[str, Any]:
        given = {"inputs": ids, "targets": ids[:, ::-1], "weight": np.float32(weight)}
        given["update"] = np.array([5, 0], np.int64)
        return {name: tf.constant(value) for name, value in given.items()}

    def updated(given: Any, carry: Any) -> tuple[float, Any]:
        sums, after = deep.sums(given, deep.counts(given, carry), carry)
        return float(sums.loss), after

    start = deep.start(features(1, 1, 1, 1))
    # The rows of padding are left out: both that are served are in front.
    loss, carry = updated(features(0, 1, 0, 1), start)
    assert carry["halted"].numpy().tolist() == [False, False, True, True]
    np.testing.assert_array_equal(carry["inputs"][:2], ids[[1, 3]])
    assert deep.demand is not None and deep.demand(carry).numpy().tolist() == [1.0, 0.0]
    two = {**features(0, 1, 0, 1)}
    for name in ("inputs", "targets", "weight"):
        two[name] = tf.gather(two[name], [1, 3])
    assert loss == pytest.approx(updated(two, deep.start(two))[0], rel=1e-6)
    # Three rows for two places: the last one waits, for two updates.
    loss, carry = updated(features(1, 1, 0, 1), carry)
    np.testing.assert_array_equal(carry["inputs"], ids[[1, 3, 0, 1]])
    assert carry["steps"].numpy().tolist() == [2, 2, 1, 1]
    _, carry = updated(features(0, 0, 0, 0), carry)
    assert carry["halted"].numpy().tolist() == [True, True, False, False]
    _, carry = updated(features(0, 0, 0, 0), carry)
    np.testing.assert_array_equal(carry["inputs"][0], ids[3])
    assert carry["weight"].numpy().tolist() == [1, 0, 1, 1] and carry["steps"][0] == 1


def test_a_curriculum_is_refused() -> None:
    model = random_model(spec=ALIGNED, **PARTS, **NO_DROPOUT)
    with pytest.raises(UserError, match="replacement=queue serves every example once"):
        made(model, replacement="queue", curriculum="length")


def drawn(run: Run, replicas: int) -> list[bytes]:
    """The examples of the batches before the position of the last checkpoint."""
    directory = CheckpointStore(run.output_dir).newest_intact()
    assert directory is not None
    position = read_state(directory)["position"]
    rows: list[bytes] = []
    for epoch in range(position["epoch"] + 1):
        batches = train_batches(
            run.make_problem(), run.data_dir, run.hparams.training, replicas, run.seed, epoch
        )
        if epoch == position["epoch"]:
            batches = batches.take(position["batch"] * replicas)
        for batch in batches:
            kept = batch["inputs"].numpy()[batch["weight"].numpy() > 0]
            rows += [row.tobytes() for row in kept]
    return rows
