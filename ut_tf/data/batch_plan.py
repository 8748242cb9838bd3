"""Which examples make a batch: length buckets, sizes of batches, and the plan of an epoch.

An example's length is the longer of its inputs (facts: rows) and targets. Examples of similar
length wait in one bucket until it holds a whole batch, so the plan follows from the order of the
lengths alone. Nothing here needs TensorFlow.
"""

import numpy as np
import numpy.typing as npt

from ut_tf.config.training import TrainingConfig

Lengths = npt.NDArray[np.int32]


def bucket_bounds(min_length: int, step: float, max_length: int) -> list[int]:
    """Inclusive upper bounds of the length buckets, ascending.

    The first is `min_length`, each of the following `step` times the one before, but larger by at
    least 1; the last is `max_length`.
    """
    bounds: list[int] = []
    bound = min_length
    while bound < max_length:
        bounds.append(bound)
        bound = max(bound + 1, int(bound * step))
    return [*bounds, max_length]


def batch_sizes(bounds: list[int], training: TrainingConfig, num_replicas: int) -> list[int]:
    """Examples in a global batch of each bucket: multiples of `num_replicas`, at least
    `num_replicas`.

    With batch_unit "tokens" a replica's part has at most batch_size tokens, padding included,
    unless one example alone has more; with "examples" it has batch_size examples of any length.
    """
    if training.batch_unit == "examples":
        return [training.batch_size * num_replicas] * len(bounds)
    return [num_replicas * max(1, training.batch_size // bound) for bound in bounds]


def plan_batches(lengths: Lengths, bounds: list[int], sizes: list[int]) -> list[Lengths]:
    """Plans an epoch: the numbers of the examples in each batch, in the order in which the batches
    fill up.

    Args:
      lengths: int [examples], in the order in which the examples come; those above the last bound
        are left out.
      bounds: inclusive upper bounds of the buckets, ascending.
      sizes: examples in a whole batch of each bucket.

    Returns:
      One array of example numbers for each batch. Only the last batches are smaller than their
      bucket's size: the examples left in the buckets at the end share batches, the longest first,
      instead of one small batch for each bucket.
    """
    buckets = np.searchsorted(np.asarray(bounds), lengths)
    whole: list[Lengths] = []
    left: list[Lengths] = []
    for bucket, size in enumerate(sizes):
        numbers = np.flatnonzero(buckets == bucket).astype(np.int32)
        full = len(numbers) - len(numbers) % size
        whole += np.split(numbers[:full], full // size) if full else []
        left.append(numbers[full:])
    whole.sort(key=lambda numbers: int(numbers[-1]))
    unplanned = np.concatenate(left[::-1])
    while unplanned.size:
        size = sizes[buckets[unplanned[0]]]
        whole.append(unplanned[:size])
        unplanned = unplanned[size:]
    return whole


def consecutive_batches(count: int, size: int) -> list[Lengths]:
    """Plans batches of `size` of the `count` examples, in their order."""
    numbers = np.arange(count, dtype=np.int32)
    return [numbers[start : start + size] for start in range(0, count, size)]


def evenly_spaced(size: int, limit: int) -> Lengths:
    """At most `limit` (0: all) of the numbers below `size`, evenly spaced: a split may be sorted by
    task.
    """
    if not limit or limit >= size:
        return np.arange(size, dtype=np.int32)
    return (np.arange(limit, dtype=np.int64) * size // limit).astype(np.int32)
