"""A split in pools: every example once in an epoch, the same batches after any number of them."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.data.test_pipeline import Ramps, read, same
from ut_tf.config.training import TrainingConfig
from ut_tf.data import example_pools
from ut_tf.data.batch_plan import batch_sizes, bucket_bounds
from ut_tf.data.corpus.encoded_pairs import PairIds, Side, pair_pool, write_shard
from ut_tf.data.example_pools import ExamplePool, ExamplePools, deal_shards
from ut_tf.data.example_table import ExampleTable, example_order
from ut_tf.data.pipeline import train_batches
from ut_tf.data.prepared import SUMMARY_FILE, PreparedFolder, guard_reading, source_record
from ut_tf.data.problem import EvaluationSet, Problem
from ut_tf.errors import UserError
from ut_tf.problem_spec import ProblemSpec
from ut_tf.training.agreement import data_digest
from ut_tf.training.batches import TrainingBatches
from ut_tf.training.distribution import Workers

SETTINGS = TrainingConfig(batch_size=60, max_length=30, min_length_bucket=8)


class Pooled(Ramps):
    """Pairs in shards on disk; the first id of an example tells which one it is."""

    def example_pools(self, data_dir: Path, seed: int, epoch: int) -> ExamplePools:
        shards, reading = sorted(data_dir.iterdir()), functools.partial(guard_reading, data_dir)
        return deal_shards(("inputs", "targets"), shards, seed, epoch, pair_pool, reading)

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
    bounds = bucket_bounds(
        SETTINGS.min_length_bucket, SETTINGS.length_bucket_step, SETTINGS.max_length
    )
    assert shapes <= set(zip(batch_sizes(bounds, SETTINGS, 1), bounds, strict=True))


def test_workers_agree_on_the_data_without_reading_all_of_it(data_dir):
    digest = data_digest(Pooled(), data_dir, seed=1)
    assert digest == data_digest(Pooled(), data_dir, seed=1)
    (data_dir / "train-6.npz").unlink()
    assert digest != data_digest(Pooled(), data_dir, seed=1)


def test_pools_are_of_about_equal_size_and_draw_other_numbers_than_the_deal() -> None:
    shards = [Path(str(number)) for number in range(21)]
    chosen: list[list[int]] = []
    draws: list[list[int]] = []

    def read(paths: list[Path], rng: np.random.Generator) -> ExamplePool:
        chosen.append([int(str(path)) for path in paths])
        draws.append(rng.permutation(21).tolist())
        return ExamplePool(np.zeros(0, np.int32), lambda: lambda _: {})

    pools = deal_shards((), shards, 1, 0, read, contextlib.nullcontext)
    for number in range(pools.count):
        pools.pool(number)
    assert [len(part) for part in chosen] == [11, 10]
    order = [number for part in chosen for number in part]
    assert sorted(order) == list(range(21))
    assert order not in draws
    assert draws[0] != draws[1]


def test_a_pool_is_gone_before_the_next_one_is_read(data_dir: Path) -> None:
    loaded: list[weakref.ref[Any]] = []
    beside = []

    class Watched(Pooled):
        def example_pools(self, data_dir: Path, seed: int, epoch: int) -> ExamplePools:
            pools = super().example_pools(data_dir, seed, epoch)

            def watched(number: int) -> ExamplePool:
                pool = pools.pool(number)

                def load() -> Any:
                    beside.append(any(ref() is not None for ref in loaded))
                    features = pool.load()
                    loaded.append(weakref.ref(features))
                    return features

                return ExamplePool(pool.lengths, load)

            return ExamplePools(pools.features, pools.count, watched)

    read(train_batches(Watched(), data_dir, SETTINGS, 1, 1, 0))
    assert beside == [False, False, False]


def used(data_dir: Path, training: TrainingConfig) -> None:
    """Takes more batches than an epoch has."""
    make = functools.partial(train_batches, Pooled(), data_dir, training, 1, 1)
    training_batches = TrainingBatches(make, Workers(SimpleNamespace(num_replicas_in_sync=1), 1, 0))
    try:
        for _ in range(300):
            training_batches.next()
    finally:
        training_batches.close()


def test_a_changed_bit_is_damage_in_one_sentence(data_dir: Path) -> None:
    shard = data_dir / "train-3.npz"
    content = bytearray(shard.read_bytes())
    content[300] ^= 1  # Among the sources' ids.
    shard.write_bytes(content)
    sentence = rf"^{data_dir} is damaged \(BadZipFile: Bad CRC-32 .*\): delete it, .*again\.$"
    with pytest.raises(UserError, match=sentence):
        used(data_dir, SETTINGS)


def test_examples_that_are_all_too_long_are_told_with_the_limit(data_dir: Path) -> None:
    for path in [*data_dir.iterdir()][1:]:
        path.unlink()
    side = Side.of([[7] * 20] * 3, 1000)
    write_shard(next(data_dir.iterdir()), PairIds(side, side), {"kept": 3})
    with pytest.raises(UserError, match=r"has only examples longer than `max_length`=19: set a"):
        used(data_dir, TrainingConfig(batch_size=60, max_length=19, min_length_bucket=8))


ROWS = [[3, 4], [5], [6, 7, 8]]


def generated(examples: list[dict[str, Any]], **signature: Any) -> Any:
    return tf.data.Dataset.from_generator(
        lambda: iter(examples),
        output_signature={name: tf.TensorSpec(*spec) for name, spec in signature.items()},
    )


def test_a_dataset_makes_a_table_and_a_table_the_same_dataset() -> None:
    examples = [
        {"inputs": [[n, n + 1]] * n, "targets": row, "task": n, "word": str(n)}
        for n, row in enumerate(ROWS, start=1)
    ]
    table = ExampleTable.from_dataset(
        generated(
            examples,
            inputs=([None, 2], tf.int32),
            targets=([None], tf.int32),
            task=([], tf.int32),
            word=([], tf.string),
        )
    )
    assert table.lengths.dtype == np.int32
    assert table.lengths.tolist() == [2, 2, 3], "the longer of inputs and targets"
    batch = table.batch(tf.constant([2, 0]))
    assert batch["inputs"].shape == [2, 3, 2]
    assert batch["targets"].numpy().tolist() == [[6, 7, 8], [3, 4, 0]]
    assert batch["task"].numpy().tolist() == [3, 1]
    for given, row in zip(examples, table.dataset().as_numpy_iterator(), strict=True):
        assert row["inputs"].tolist() == given["inputs"]
        assert row["targets"].tolist() == given["targets"]
        assert (row["task"], row["word"].decode()) == (given["task"], given["word"])


def test_every_epoch_of_training_has_an_order_of_its_own() -> None:
    orders = [example_order("train", 50, 3, epoch).tolist() for epoch in (0, 1, 1)]
    assert orders[0] != orders[1] == orders[2] and sorted(orders[0]) == list(range(50))
    assert example_order("test", 50, 3, 1).tolist() == list(range(50))


def test_classes_and_language_models_have_the_length_of_what_they_have() -> None:
    classes = [{"inputs": row, "targets": len(row)} for row in ROWS]
    signature = {"inputs": ([None], tf.int32), "targets": ([], tf.int32)}
    assert ExampleTable.from_dataset(generated(classes, **signature)).lengths.tolist() == [2, 1, 3]
    words = generated([{"targets": row} for row in ROWS], targets=([None], tf.int32))
    assert ExampleTable.from_dataset(words).lengths.tolist() == [2, 1, 3]


def test_a_problem_that_defines_dataset_is_told_to_define_examples() -> None:
    with pytest.raises(UserError, match=r"class OfOld defines `dataset`.*from_dataset\(dataset\)"):

        class OfOld(Problem):
            def prepare(self, data_dir: Path, tmp_dir: Path) -> None:
                del data_dir, tmp_dir

            def spec(self, data_dir: Path) -> ProblemSpec:
                raise NotImplementedError

            def dataset(self, split: str, data_dir: Path, *rest: Any) -> Any:  # type: ignore[misc, override]
                raise NotImplementedError

            def evaluation_sets(self, lengths: tuple[int, ...] = ()) -> list[EvaluationSet]:
                raise NotImplementedError


def folder_in(path: Path) -> PreparedFolder:
    return PreparedFolder(
        path / "corpus-1", needed=["words.txt"], fields={"vocab_size": int, "files": list}
    )


def fill(folder: PreparedFolder, sources: list[Path] | None = None) -> None:
    folder.path.mkdir(parents=True, exist_ok=True)
    (folder.path / "words.txt").write_text("a\nb")
    (folder.path / "train.npz").write_text("ids")
    folder.finish(
        {
            "vocab_size": 4,
            "files": [source_record(path) for path in sources or []],
            "sha256": folder.digests(["words.txt", "train.npz"]),
        }
    )


def test_a_folder_is_filled_once_however_many_start_at_once(tmp_path: Path) -> None:
    folder, calls = folder_in(tmp_path), []

    def make() -> None:
        calls.append(threading.get_ident())
        fill(folder)

    threads = [threading.Thread(target=folder_in(tmp_path).make_once, args=[make]) for _ in "1234"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    assert not folder.make_once(make)
    assert folder.summary()["vocab_size"] == 4


def test_a_preparation_that_was_stopped_is_not_complete(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        folder.make_once(lambda: (_ for _ in ()).throw(KeyboardInterrupt()))
    assert not folder.is_complete()
    assert folder.make_once(lambda: fill(folder))


def _change(name: str, value: object) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        summary = json.loads((path / SUMMARY_FILE).read_text())
        summary[name] = value
        (path / SUMMARY_FILE).write_text(json.dumps(summary))

    return change


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: (path / SUMMARY_FILE).write_text("{"), "JSONDecodeError"),
        (lambda path: (path / SUMMARY_FILE).write_bytes(b"\xff"), "UnicodeDecodeError"),
        (lambda path: (path / SUMMARY_FILE).write_text("[]"), r"summary\.json holds no object"),
        (lambda path: (path / SUMMARY_FILE).write_text("{}"), "has no 'vocab_size'"),
        (_change("files", None), "has no 'files'"),
        (_change("vocab_size", "4"), "has no 'vocab_size'"),
        (_change("sha256", "x"), "AttributeError"),
        (lambda path: (path / "words.txt").write_text("a"), r"words\.txt is not as it was written"),
    ],
)
def test_damage_is_named(tmp_path: Path, damage: Callable[[Path], None], reason: str) -> None:
    folder = folder_in(tmp_path)
    fill(folder)
    damage(folder.path)
    with pytest.raises(UserError, match=rf"corpus-1 is damaged \(.*{reason}.*\): delete it"):
        folder.summary()


def test_other_files_are_checked_when_they_are_read(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    fill(folder)
    assert folder.verified("train.npz").read_text() == "ids"
    (folder.path / "train.npz").write_text("other")
    assert folder.summary()
    with pytest.raises(UserError, match=r"train\.npz is not as it was written"):
        folder.verified("train.npz")
    (folder.path / "train.npz").unlink()
    with pytest.raises(UserError, match="is damaged"):
        folder.verified("train.npz")


def test_a_source_may_be_touched_or_gone_but_not_changed(tmp_path: Path) -> None:
    source = tmp_path / "text.en"
    source.write_text("one")
    folder = folder_in(tmp_path)
    fill(folder, [source])
    os.utime(source, ns=(1, 1))
    folder.refuse_changed_sources()
    source.write_text("two")
    with pytest.raises(UserError, match=r"text\.en has changed since .*corpus-1 was prepared"):
        folder.refuse_changed_sources()
    source.unlink()
    folder.refuse_changed_sources()
    _change("files", [{"size": 3}])(folder.path)
    with pytest.raises(UserError, match="is damaged"):
        folder.refuse_changed_sources()
