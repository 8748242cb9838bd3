"""A split in pools: every example once in an epoch, the same batches after any number of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.test_pipeline import Ramps, read, same
from ut_tf.config.training import TrainingConfig
from ut_tf.data import example_pools
from ut_tf.data.corpus.encoded_pairs import PairIds, Side, pair_pool, write_shard
from ut_tf.data.example_pools import ExamplePools, dealt
from ut_tf.data.pipeline import train_batches
from ut_tf.training.agreement import data_digest

SETTINGS = TrainingConfig(batch_size=60, max_length=30, min_length_bucket=8)


class Pooled(Ramps):
    """Pairs in shards on disk; the first id of an example tells which one it is."""

    def example_pools(self, data_dir: Path, seed: int, epoch: int) -> ExamplePools:
        return dealt(("inputs", "targets"), sorted(data_dir.iterdir()), seed, epoch, pair_pool)

    def examples(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("the whole split is not to be read")


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Seven shards of 40 examples, of which some are too long, in pools of three."""
    monkeypatch.setattr(example_pools, "SHARDS_OF_A_POOL", 3)
    draws = np.random.default_rng(5)
    for shard in range(7):
        rows = [[100 + 40 * shard + row, *[5] * draws.integers(33)] for row in range(40)]
        side = Side.of(rows, 1000)
        short = Side.of([row[:1] for row in rows], 1000)
        write_shard(tmp_path / f"train-{shard}.npz", PairIds(side, short), {"kept": 40})
    return tmp_path


def batches(
    data_dir: Path, replicas: int = 1, epoch: int = 0, skip: int = 0, **changes: Any
) -> Any:
    settings = TrainingConfig(**{**vars(SETTINGS), **changes})
    return read(train_batches(Pooled(), data_dir, settings, replicas, 1, epoch, skip))


def examples(some: Any) -> Counter[int]:
    return Counter(int(row[0]) for batch in some for row in batch["inputs"][batch["weight"] > 0])


def test_an_epoch_has_every_example_that_is_not_too_long_once_in_an_order_of_its_own(data_dir):
    first, second = batches(data_dir), batches(data_dir, epoch=1)
    assert set(examples(first).values()) == {1}
    assert examples(first) == examples(second)
    assert 240 < len(examples(first)) < 280
    assert [row[0] for row in first[0]["inputs"]] != [row[0] for row in second[0]["inputs"]]
    for batch in first:
        assert batch["inputs"].size <= 60
        assert np.array_equal(batch["inputs"][:, 0], batch["targets"][:, 0])
        assert batch["inputs"].shape[1] <= 30
    assert same(first, batches(data_dir))


def test_batches_that_were_used_are_left_out_in_every_pool(data_dir):
    whole = batches(data_dir)
    for used in (0, 1, len(whole) // 2, len(whole) - 1, len(whole)):
        assert same(batches(data_dir, skip=used), whole[used:])


def test_replicas_share_each_batch(data_dir):
    parts = batches(data_dir, replicas=2)
    assert examples(parts) == examples(batches(data_dir))
    for first, second in zip(parts[::2], parts[1::2], strict=True):
        assert first["inputs"].shape == second["inputs"].shape


def test_with_xla_shapes_are_few(data_dir):
    shapes = {batch["inputs"].shape for batch in batches(data_dir, jit_compile=True)}
    assert len(shapes) < 20
    assert all(rows * length <= 60 for rows, length in shapes)


def test_workers_agree_on_the_data_without_reading_all_of_it(data_dir):
    digest = data_digest(Pooled(), data_dir, seed=1)
    assert digest == data_digest(Pooled(), data_dir, seed=1)
    (data_dir / "train-6.npz").unlink()
    assert digest != data_digest(Pooled(), data_dir, seed=1)
