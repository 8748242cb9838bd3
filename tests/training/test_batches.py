"""The training batches of one and of several workers, over kills and resumes."""

from __future__ import annotations

import functools
import random
from collections import Counter, defaultdict
from types import SimpleNamespace
from typing import Any

import pytest

from tests.data.test_pipeline import DATA_DIR, EXAMPLES, Ramps
from ut_tf.config.training import TrainingConfig
from ut_tf.data.pipeline import train_batches
from ut_tf.training.batches import Position, TrainingBatches
from ut_tf.training.distribution import Workers


def numbers(batch: dict[str, Any]) -> list[int]:
    """The numbers of the real examples."""
    pairs = zip(batch["number"].numpy().ravel(), batch["weight"].numpy().ravel(), strict=True)
    return [int(number) for number, weight in pairs if weight]


@pytest.mark.parametrize("num_workers", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_each_example_is_used_once_per_epoch_over_kills(num_workers: int) -> None:
    training = TrainingConfig(batch_size=EXAMPLES * 2, max_length=40)
    strategy = SimpleNamespace(num_replicas_in_sync=num_workers)
    make = functools.partial(train_batches, Ramps(), DATA_DIR, training, num_workers, 3)
    generator = random.Random(4)
    ledger: dict[int, Counter[int]] = defaultdict(Counter)
    saved = Position()
    while saved.epoch < 2:
        workers = [
            TrainingBatches(make, Workers(strategy, num_workers, index), saved)
            for index in range(num_workers)
        ]
        # What is used after the last checkpoint is lost with the process, and used again.
        for is_saved in [True] * generator.randint(2, 7) + [False] * generator.randint(0, 4):
            batches = [worker.next() for worker in workers]
            assert len({worker.position for worker in workers}) == 1
            if is_saved:
                saved = workers[0].position
                for batch in batches:
                    ledger[saved.epoch].update(numbers(batch))
        for worker in workers:
            worker.close()
    assert all(ledger[epoch] == Counter(range(EXAMPLES)) for epoch in range(2))
