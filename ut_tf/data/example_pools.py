"""A training split that is too large for the memory: pools of examples, read one after the other.

How it is used::

    pools = problem.example_pools(data_dir, seed=1, epoch=0)  # None: examples() is small enough
    pool = pools.pool(0)
    features = pool.load()
    features(np.array([3, 1]))       # {"inputs": int32 [2, length], ...}, padded with 0

An epoch deals the split's shards out to pools anew, and every pool puts its examples in an order of
its own; (seed, epoch) alone decide both. Memory holds one pool and, while that is read, the
largest of its arrays twice.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
SHARDS_OF_A_POOL = 20
# Examples of a split that is kept whole; numbers, lengths and plans of an epoch take about a
# hundred bytes for each, beside the ids.
LARGEST_TABLE = 5_000_000


@dataclass(frozen=True)
class ExamplePool:
    """Examples that are shuffled and batched together.

    Args:
      lengths: int32 [examples], the longer of inputs and targets, in the order of the pool.
      load: reads the ids; its result gives the features of examples by their numbers, int [batch].
    """

    lengths: npt.NDArray[np.int32]
    load: Callable[[], Callable[[Array], dict[str, Array]]]


@dataclass(frozen=True)
class ExamplePools:
    """The pools of one epoch.

    Args:
      features: their names; each is int32 [batch, length].
      count: how many pools there are.
      pool: from a number to the pool, of which nothing but the lengths is read yet.
    """

    features: tuple[str, ...]
    count: int
    pool: Callable[[int], ExamplePool]


def deal_shards(
    features: tuple[str, ...],
    shards: Sequence[Path],
    seed: int,
    epoch: int,
    read: Callable[[list[Path], np.random.Generator], ExamplePool],
    reading: Callable[[], AbstractContextManager[None]],
) -> ExamplePools:
    """Shards dealt out to pools, of about the same number each.

    Args:
      features: as of ``ExamplePools``.
      shards: all of the split.
      seed: of the run.
      epoch: number of the pass through the data, from 0.
      read: makes the pool of some shards, in an order that it draws.
      reading: the context in which shards are read, as ``PreparedFolder.reading``.
    """
    beginning = [seed % 2**63, epoch]
    order = np.random.default_rng(beginning).permutation(len(shards))
    parts = np.array_split(order, -(-len(shards) // SHARDS_OF_A_POOL))

    def pool(number: int) -> ExamplePool:
        chosen = [shards[place] for place in parts[number]]
        # numpy pads seeds with zeros: with a last 0 the draws would be those of the deal.
        rng = np.random.default_rng([*beginning, number + 1])
        with reading():
            unguarded = read(chosen, rng)

        def load() -> Callable[[Array], dict[str, Array]]:
            with reading():
                return unguarded.load()

        return ExamplePool(unguarded.lengths, load)

    return ExamplePools(features, len(parts), pool)


def padded_rows(ids: Array, begins: Array, lengths: Array) -> Array:
    """int32 [rows, longest]: stretches of `ids`, padded with 0.

    Args:
      ids: int [all ids].
      begins, lengths: of the stretches, int [rows].
    """
    columns = np.arange(max(int(lengths.max()), 1))[np.newaxis, :]
    places = np.minimum(begins[:, np.newaxis] + columns, max(len(ids) - 1, 0))
    return np.where(columns < lengths[:, np.newaxis], ids[places], 0).astype(np.int32)
