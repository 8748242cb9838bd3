"""Ids of parallel text on disk, in shards that are whole or absent, and in memory as a table of
examples.

How it is used::

    write_shard(folder / "train-00000.npz", PairIds.of(sources, targets, vocab_size), {"empty": 3})
    pairs = read_shards(sorted(folder.glob("train-*.npz")))
    table = pairs.table().examples(order)       # batches are gathers from two flat arrays

How it works: the ids of all sources stand one after the other in one array, those of all targets in
another; lengths say where one ends. They take two bytes each where the vocabulary allows it, so 4.5
million pairs of 30 subwords are half a gigabyte.
"""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ut_tf.data.arrays import open_arrays, write_arrays
from ut_tf.data.example_pools import ExamplePool, padded_rows
from ut_tf.data.example_table import ExampleTable

Array = npt.NDArray[Any]
_LARGEST_SHORT = 65_536


@dataclass(frozen=True)
class Side:
    """The ids of one side: int [all ids], and how many belong to each example, int32 [examples]."""

    ids: Array
    lengths: Array

    @property
    def begins(self) -> Array:
        """The place of the first id of each example, int64 [examples]."""
        return np.cumsum(self.lengths, dtype=np.int64) - self.lengths

    @classmethod
    def of(cls, sequences: Sequence[Sequence[int]], vocab_size: int) -> "Side":
        """The side with these sequences of ids."""
        lengths = np.fromiter(map(len, sequences), np.int32, len(sequences))
        kind = np.uint16 if vocab_size <= _LARGEST_SHORT else np.int32
        ids = np.fromiter(itertools.chain.from_iterable(sequences), kind, int(lengths.sum()))
        return cls(ids, lengths)


@dataclass(frozen=True)
class PairIds:
    """Source and target of a number of examples."""

    sources: Side
    targets: Side

    def __len__(self) -> int:
        return len(self.sources.lengths)

    def __iter__(self) -> Iterator[Side]:
        return iter((self.sources, self.targets))

    def reversed(self) -> "PairIds":
        """The pairs of the other direction."""
        return PairIds(self.targets, self.sources)

    def table(self) -> "EncodedExamples":
        """The pairs as inputs and targets."""
        return EncodedExamples({"inputs": self.sources, "targets": self.targets}, {})


def write_shard(path: Path, pairs: PairIds, counts: dict[str, int]) -> None:
    """Writes pairs and what was counted while they were made; the file is complete or absent."""
    write_arrays(
        path,
        sources=pairs.sources.ids,
        source_lengths=pairs.sources.lengths,
        targets=pairs.targets.ids,
        target_lengths=pairs.targets.lengths,
        counts=np.array(json.dumps(counts)),
    )


def read_counts(path: Path) -> dict[str, int]:
    """The counts that were stored with a shard."""
    with open_arrays(path) as shard:
        counts: dict[str, int] = json.loads(str(shard["counts"]))
    return counts


def read_shards(paths: Sequence[Path]) -> PairIds:
    """The pairs of all shards, in their order."""
    columns: dict[str, list[Array]] = {
        name: [] for name in ("sources", "source_lengths", "targets", "target_lengths")
    }
    for path in paths:
        with open_arrays(path) as shard:
            for name, arrays in columns.items():
                arrays.append(shard[name])
    # A column's parts are let go of as soon as it is whole.
    whole = {
        name: np.concatenate(columns.pop(name) or [np.zeros(0, np.int32)]) for name in [*columns]
    }
    if (int(whole["source_lengths"].sum()), int(whole["target_lengths"].sum())) != (
        len(whole["sources"]),
        len(whole["targets"]),
    ):
        raise ValueError("lengths and ids do not agree")
    return PairIds(
        Side(whole["sources"], whole["source_lengths"]),
        Side(whole["targets"], whole["target_lengths"]),
    )


def pair_pool(
    paths: Sequence[Path], rng: np.random.Generator, is_reversed: bool = False
) -> ExamplePool:
    """The pairs of some shards, in an order that `rng` draws.

    Args:
      paths: of the shards.
      rng: decides the order.
      is_reversed: whether sources and targets change places.
    """
    sources, targets = (_lengths(paths, name) for name in ("source_lengths", "target_lengths"))
    order = rng.permutation(len(sources))

    def load() -> Callable[[Array], dict[str, Array]]:
        pairs = read_shards(paths)
        pairs = pairs.reversed() if is_reversed else pairs
        sides = {"inputs": pairs.sources, "targets": pairs.targets}
        begins = {name: side.begins for name, side in sides.items()}

        def features(numbers: Array) -> dict[str, Array]:
            rows = order[numbers]
            return {
                name: padded_rows(side.ids, begins[name][rows], side.lengths[rows])
                for name, side in sides.items()
            }

        return features

    return ExamplePool(np.maximum(sources, targets)[order].astype(np.int32), load)


def window_pool(paths: Sequence[Path], rng: np.random.Generator, size: int) -> ExamplePool:
    """Windows of the targets of some shards, one after the other, in an order that `rng` draws.

    Args:
      paths: of the shards.
      rng: decides the order, and where the first window begins.
      size: ids in a window.
    """
    begins, lengths = windows(int(_lengths(paths, "target_lengths").sum()), size, rng)

    def load() -> Callable[[Array], dict[str, Array]]:
        ids = read_shards(paths).targets.ids
        return lambda numbers: {"targets": padded_rows(ids, begins[numbers], lengths[numbers])}

    return ExamplePool(lengths.astype(np.int32), load)


def windows(total: int, size: int, rng: np.random.Generator | None) -> tuple[Array, Array]:
    """Begin and length, int64 [windows] each, of windows that cover a text once.

    Args:
      total: ids of the text.
      size: of a window.
      rng: draws their order, and where the first one begins; None: they stand in the text's order.
    """
    first = 0 if rng is None else int(rng.integers(min(size, total)))
    begins = np.unique([0, *range(first, total, size)])
    lengths = np.diff([*begins, total])
    if rng is None:
        return begins, lengths
    order = rng.permutation(len(begins))
    return begins[order], lengths[order]


def _lengths(paths: Sequence[Path], name: str) -> Array:
    """One of the two columns of lengths of some shards, int32 [examples]."""
    columns = []
    for path in paths:
        with open_arrays(path) as shard:
            columns.append(shard[name])
    return np.concatenate(columns)


class EncodedExamples:
    """Examples in TensorFlow's memory, copied there once, from which the table of every epoch is
    made.

    Args:
      sides: the ids of each feature that a batch pads.
      columns: each other feature, a value for every example.
    """

    def __init__(self, sides: Mapping[str, Side], columns: Mapping[str, Array]) -> None:
        import tensorflow as tf

        self._lengths = np.max([side.lengths for side in sides.values()], axis=0)
        self._sides = {name: HostSide(side) for name, side in sides.items()}
        with tf.device("/CPU:0"):
            self._columns = {name: tf.constant(column) for name, column in columns.items()}

    def __len__(self) -> int:
        return len(self._lengths)

    def examples(self, order: Array) -> ExampleTable:
        """Returns the examples with the numbers in `order`, int [examples], in that order."""
        import tensorflow as tf

        with tf.device("/CPU:0"):
            rows = tf.constant(order, tf.int32)
        sides, columns = self._sides, self._columns

        def batch(numbers: Any) -> dict[str, Any]:
            chosen = tf.gather(rows, numbers)
            return {
                **{name: side.padded(chosen) for name, side in sides.items()},
                **{name: tf.gather(column, chosen) for name, column in columns.items()},
            }

        return ExampleTable(self._lengths[order].astype(np.int32), batch)


class HostSide:
    """One side as tensors, which stay in the computer's own memory where there is a GPU."""

    def __init__(self, side: Side) -> None:
        import tensorflow as tf

        with tf.device("/CPU:0"):
            self._ids = tf.constant(side.ids)
            self._lengths = tf.constant(side.lengths, tf.int32)
            self._begins = tf.constant(side.begins, tf.int64)

    def padded(self, rows: Any) -> Any:
        """Returns int32 [rows, longest]: the ids of these examples, padded with 0."""
        import tensorflow as tf

        begins, lengths = tf.gather(self._begins, rows), tf.gather(self._lengths, rows)
        return pad_stretches(self._ids, begins, lengths)


def pad_stretches(ids: Any, begins: Any, lengths: Any) -> Any:
    """int32 [rows, longest]: stretches of `ids`, padded with 0.

    Args:
      ids: of any integer type [all ids].
      begins, lengths: of the stretches, int64 and int32 [rows].
    """
    import tensorflow as tf

    columns = tf.range(tf.reduce_max(lengths))[tf.newaxis, :]
    places = begins[:, tf.newaxis] + tf.cast(columns, tf.int64)
    found = tf.gather(ids, tf.minimum(places, tf.size(ids, tf.int64) - 1))
    return tf.where(columns < lengths[:, tf.newaxis], tf.cast(found, tf.int32), 0)
