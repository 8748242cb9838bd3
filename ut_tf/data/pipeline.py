"""From single examples to batches: length buckets, padding, replicas, workers.

How it is used::

    batches = train_batches(problem, data_dir, hparams.training, num_replicas=2, seed=1, epoch=0)
    # the two replicas' parts of one global batch, of equal shape
    for first, second in zip(*[iter(batches)] * 2):
        ...
    for batch in eval_batches(problem, evaluation_set, data_dir, batch_tokens=4096):
        ...

How it works: the problem yields examples in an order that (seed, epoch) decides. An example's
length is the longer of its inputs (facts: rows) and targets. Examples of similar length wait in one
bucket until it holds a whole batch, so what a batch contains follows from the order alone. At the
epoch's end the buckets give what they hold: no example is lost. A batch is filled up with padding
examples of weight 0 where its size is no multiple of the number of replicas. Where the problem
gives its examples as a table the buckets are filled with example numbers, all at once, and the
features of a batch are fetched when it is wanted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from ut_tf.config.training import TrainingConfig
from ut_tf.data.problem import EvaluationSet, Problem
from ut_tf.data.table import ExampleTable, trim_batch
from ut_tf.errors import UserError

Lengths = npt.NDArray[np.int32]
WEIGHT = "weight"
# Where no bound is known (evaluation), buckets go on to this length; longer examples share the last
# bucket, one to a batch.
_LONGEST_EVALUATED = 65_536


def bucket_bounds(min_length: int, step: float, max_length: int) -> list[int]:
    """Returns the inclusive upper bounds of the length buckets: from `min_length`, each `step`
    times the last, up to `max_length`.

    Each bound is larger than the one before by at least 1; the last is `max_length`.
    """
    bounds: list[int] = []
    bound = min_length
    while bound < max_length:
        bounds.append(bound)
        bound = max(bound + 1, int(bound * step))
    return [*bounds, max_length]


def batch_sizes(bounds: list[int], training: TrainingConfig, num_replicas: int) -> list[int]:
    """Returns the examples in a global batch of each bucket: multiples of `num_replicas`, at least
    `num_replicas`.

    With batch_unit "tokens" a replica's part has at most batch_size tokens, padding included, where
    one example alone has no more; with "examples" it has batch_size examples whatever their length.
    """
    if training.batch_unit == "examples":
        return [training.batch_size * num_replicas] * len(bounds)
    return [num_replicas * max(1, training.batch_size // bound) for bound in bounds]


def train_batches(
    problem: Problem,
    data_dir: Path,
    training: TrainingConfig,
    num_replicas: int,
    seed: int,
    epoch: int,
    skip_batches: int = 0,
    table: ExampleTable | None = None,
) -> Any:
    """Returns one epoch of training batches as a tf.data.Dataset of per-replica batches.

    Args:
      problem: whose training split is read.
      data_dir: where the problem prepared its data.
      training: sizes and bounds of the batches; examples longer than its max_length are left out.
      num_replicas: every global batch is this many consecutive elements of equal shape.
      seed: decides, with `epoch`, the content and order of the batches; nothing else does.
      epoch: number of the pass through the data, from 0.
      skip_batches: global batches left out at the epoch's beginning (to go on where a run stopped).
      table: the epoch's examples, where the caller has chosen among them, and tells of those left
        out; None: all that the problem gives.

    Returns:
      A dataset of dictionaries: the example's features with a leading dimension `batch`, padded
        with 0 to the longest example in the
      global batch (with jit_compile: to the bucket's bound, and in the number of examples too, so
      that shapes are few), and "weight" float32 [batch], 1 for an example and 0 for padding.

    Raises:
      UserError: the split is empty or all its examples are longer than max_length.
    """
    bounds = bucket_bounds(
        training.min_length_bucket, training.length_bucket_step, training.max_length
    )
    sizes = batch_sizes(bounds, training, num_replicas)
    is_chosen = table is not None
    table = problem.examples("train", data_dir, seed=seed, epoch=epoch) if table is None else table
    if table is not None:
        _check_lengths(problem, "train", data_dir, table.lengths, training.max_length)
        if epoch == 0 and not is_chosen:
            tell_left_out(problem, table.lengths, training.max_length)
        plan = plan_batches(table.lengths, bounds, sizes)[skip_batches:]
        batches = _planned(table, plan, bounds, sizes, full_shapes=training.jit_compile)
    else:
        examples = problem.dataset("train", data_dir, seed=seed, epoch=epoch)
        fitting = examples.filter(lambda example: _length(example) <= training.max_length)
        _check_elements(problem, "train", data_dir, examples, fitting, training.max_length)
        batches = _bucketed(fitting, bounds, sizes, full_shapes=training.jit_compile).skip(
            skip_batches
        )
    if num_replicas > 1:
        batches = batches.map(_filler(num_replicas), num_parallel_calls=1).flat_map(
            _splitter(num_replicas)
        )
    return batches.prefetch(4 * num_replicas).with_options(_options())


def eval_batches(
    problem: Problem,
    evaluation_set: EvaluationSet,
    data_dir: Path,
    batch_tokens: int = 0,
    batch_examples: int = 0,
) -> Any:
    """Returns the examples of an evaluation set as a tf.data.Dataset of whole batches, in a fixed
    order.

    Args:
      problem: whose split is read.
      evaluation_set: which examples: split, length and number.
      data_dir: where the problem prepared its data.
      batch_tokens: tokens in a batch, padding included; examples of similar length share a batch,
        so their order changes.
      batch_examples: examples in a batch, in the split's order. Exactly one of the two sizes is
        given.

    Returns:
      A dataset of dictionaries as those of `train_batches`, each batch padded to its longest
      example. No example is left out.

    Raises:
      UserError: the split is empty.
    """
    if (batch_tokens > 0) == (batch_examples > 0):
        raise ValueError(
            f"expected one of batch_tokens={batch_tokens} and batch_examples={batch_examples} to be"
            " above 0"
        )
    split, limit = evaluation_set.split, evaluation_set.max_examples
    table = problem.examples(split, data_dir, length=evaluation_set.length)
    longest = _LONGEST_EVALUATED if table is None or not len(table) else int(table.lengths.max())
    bounds = bucket_bounds(8, 1.1, longest)
    sizes = [max(1, batch_tokens // bound) for bound in bounds]
    if table is not None:
        _check_lengths(problem, split, data_dir, table.lengths, None)
        chosen = evenly_spaced(len(table), limit)
        lengths = table.lengths[chosen]
        plan = (
            _consecutive(lengths, batch_examples)
            if batch_examples
            else plan_batches(lengths, bounds, sizes)
        )
        batches = _planned(
            table, [chosen[numbers] for numbers in plan], bounds, sizes, full_shapes=False
        )
        return batches.prefetch(2).with_options(_options())
    examples = problem.dataset(split, data_dir, length=evaluation_set.length)
    _check_elements(problem, split, data_dir, examples, examples, None)
    examples = examples.take(limit or -1)
    if batch_examples:
        batches = examples.map(_with_weight).padded_batch(
            batch_examples, _padded_shapes(examples.element_spec, None)
        )
    else:
        batches = _bucketed(examples, bounds, sizes, full_shapes=False)
    return batches.prefetch(2).with_options(_options())


def evenly_spaced(size: int, limit: int) -> Lengths:
    """Returns at most `limit` (0: all) of the numbers below `size`, evenly spaced: a split may be
    sorted by task.
    """
    if not limit or limit >= size:
        return np.arange(size, dtype=np.int32)
    return (np.arange(limit, dtype=np.int64) * size // limit).astype(np.int32)


def plan_batches(lengths: Lengths, bounds: list[int], sizes: list[int]) -> list[Lengths]:
    """Returns the numbers of the examples in each batch, in the order in which the batches fill up.

    Args:
      lengths: int [examples], in the order in which the examples come; those above the last bound
        are left out.
      bounds: inclusive upper bounds of the buckets, ascending.
      sizes: examples in a whole batch of each bucket.

    Returns:
      One array of example numbers for each batch. Only the last batches are smaller than their
      bucket's size: what the buckets hold at the end shares batches, the longest examples first,
      rather than making one small batch for each bucket.
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
    rest = np.concatenate(left[::-1])
    while rest.size:
        size = sizes[buckets[rest[0]]]
        whole.append(rest[:size])
        rest = rest[size:]
    return whole


def worker_share(batches: Any, num_replicas: int, worker: int, num_workers: int) -> Any:
    """Returns the elements of `train_batches` that belong to one worker: its consecutive share of
    every global batch.

    Args:
      batches: what ``train_batches(..., num_replicas)`` returned; the same on every worker.
      num_replicas: replicas of all workers together; a multiple of `num_workers`.
      worker: number of this worker, from 0.
      num_workers: how many workers there are.

    Returns:
      A dataset with num_replicas / num_workers consecutive elements for each global batch.
    """
    if num_replicas % num_workers or not 0 <= worker < num_workers:
        raise ValueError(
            f"worker {worker} of {num_workers} cannot take an equal share of {num_replicas}"
            " replicas"
        )
    share = num_replicas // num_workers
    if num_workers == 1:
        return batches

    def is_ours(index: Any, batch: Any) -> Any:
        del batch
        return tf.equal((index % num_replicas) // share, worker)

    return batches.enumerate().filter(is_ours).map(lambda _, batch: batch).prefetch(4 * share)


def _length(example: dict[str, Any]) -> Any:
    """Returns the scalar int32 length of an example: the longer of its inputs (rows) and targets; a
    class counts as nothing.
    """
    lengths = [
        tf.shape(example[name])[0]
        for name in ("inputs", "targets")
        if name in example and example[name].shape.rank
    ]
    return lengths[0] if len(lengths) == 1 else tf.maximum(*lengths)


def _with_weight(example: dict[str, Any]) -> dict[str, Any]:
    return {**example, WEIGHT: tf.ones([], tf.float32)}


def _padded_shapes(element_spec: dict[str, Any], bound: Any) -> dict[str, Any]:
    """Returns the shape each feature is padded to: the first dimension to `bound` (None: the
    longest), others as they are.
    """
    shapes: dict[str, Any] = {WEIGHT: tf.TensorShape([])}
    for name, spec in element_spec.items():
        if spec.shape.rank and bound is not None and spec.shape[0] is None:
            shapes[name] = tf.stack(
                [
                    tf.cast(bound, tf.int64),
                    *[tf.constant(size, tf.int64) for size in spec.shape[1:]],
                ]
            )
        else:
            shapes[name] = spec.shape
    return shapes


def _consecutive(lengths: Lengths, size: int) -> list[Lengths]:
    numbers = np.arange(len(lengths), dtype=np.int32)
    return [numbers[start : start + size] for start in range(0, len(numbers), size)]


def _planned(
    table: ExampleTable, plan: list[Lengths], bounds: list[int], sizes: list[int], full_shapes: bool
) -> Any:
    """Makes the planned batches; `full_shapes` pads to the bound and the size of the bucket of a
    batch's longest example.
    """
    longest = [int(table.lengths[numbers].max()) for numbers in plan]
    keys = tf.constant(
        np.minimum(np.searchsorted(np.asarray(bounds), longest), len(bounds) - 1), tf.int32
    )
    numbers = tf.constant(np.concatenate(plan) if plan else np.zeros(0), tf.int32)
    ends = tf.constant(np.cumsum([0, *map(len, plan)]), tf.int32)
    bound_table, size_table = tf.constant(bounds, tf.int32), tf.constant(sizes, tf.int32)

    def batch(index: Any) -> dict[str, Any]:
        features = trim_batch(table.batch(numbers[ends[index] : ends[index + 1]]))
        features = {**features, WEIGHT: tf.ones([ends[index + 1] - ends[index]], tf.float32)}
        if not full_shapes:
            return features
        return _pad_examples(
            _pad_length(features, bound_table[keys[index]]), size_table[keys[index]]
        )

    return tf.data.Dataset.range(len(plan)).map(
        batch, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
    )


def _pad_length(features: dict[str, Any], bound: Any) -> dict[str, Any]:
    """Appends zeros along the features' second dimension (positions or facts) until it is
    `bound`.
    """
    padded = dict(features)
    for name, value in features.items():
        if value.shape.rank > 1:
            after = [[0, 0], [0, bound - tf.shape(value)[1]], *[[0, 0]] * (value.shape.rank - 2)]
            padded[name] = tf.pad(value, after)
    return padded


def _bucketed(examples: Any, bounds: list[int], sizes: list[int], full_shapes: bool) -> Any:
    """Groups examples by length; `full_shapes` pads to the bucket's bound and its whole number of
    examples.
    """
    bound_table, size_table = tf.constant(bounds, tf.int32), tf.constant(sizes, tf.int64)
    element_spec = examples.element_spec

    def bucket(example: dict[str, Any]) -> Any:
        return tf.searchsorted(bound_table, _length(example)[tf.newaxis], out_type=tf.int64)[0]

    def clipped(key: Any) -> Any:
        return tf.minimum(key, len(bounds) - 1)

    def batch(key: Any, window: Any) -> Any:
        bound = bound_table[clipped(key)] if full_shapes else None
        batches = window.map(_with_weight).padded_batch(
            size_table[clipped(key)], _padded_shapes(element_spec, bound)
        )
        return (
            batches.map(lambda features: _pad_examples(features, size_table[clipped(key)]))
            if full_shapes
            else batches
        )

    return examples.group_by_window(
        bucket, batch, window_size_func=lambda key: size_table[clipped(key)]
    )


def _pad_examples(features: dict[str, Any], size: Any) -> dict[str, Any]:
    """Appends zeros in the batch dimension until it is `size`; zeros as weights mark them as
    padding examples.
    """
    missing = tf.cast(size, tf.int32) - tf.shape(features[WEIGHT])[0]
    return {
        name: tf.pad(value, [[0, missing], *[[0, 0]] * (value.shape.rank - 1)])
        for name, value in features.items()
    }


def _filler(num_replicas: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def fill(features: dict[str, Any]) -> dict[str, Any]:
        size = tf.shape(features[WEIGHT])[0]
        return _pad_examples(features, num_replicas * ((size + num_replicas - 1) // num_replicas))

    return fill


def _splitter(num_replicas: int) -> Callable[[dict[str, Any]], Any]:
    def split(features: dict[str, Any]) -> Any:
        size = tf.cast(tf.shape(features[WEIGHT])[0], tf.int64)
        return tf.data.Dataset.from_tensor_slices(features).batch(size // num_replicas)

    return split


def _options() -> Any:
    options = tf.data.Options()
    options.deterministic = True
    # Each worker takes its share itself: tf.data must not shard again.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return options


def _check_lengths(
    problem: Problem, split: str, data_dir: Path, lengths: Lengths, max_length: int | None
) -> None:
    if not lengths.size:
        raise _empty(problem, split, data_dir)
    if max_length is not None and lengths.min() > max_length:
        raise _too_long(problem, split, data_dir, max_length)


def tell_left_out(problem: Problem, lengths: Lengths, max_length: int) -> None:
    """Says on stderr how many training examples are too long, if any."""
    left_out = int((lengths > max_length).sum())
    if left_out:
        print(
            f"{left_out} of {len(lengths)} training examples of {problem.name} are longer than"
            f" max_length={max_length}, and are left out",
            file=sys.stderr,
            flush=True,
        )


def _check_elements(
    problem: Problem,
    split: str,
    data_dir: Path,
    examples: Any,
    fitting: Any,
    max_length: int | None,
) -> None:
    """Reads as far as the first example that fits; costs a whole pass only where none does."""
    if _has_element(fitting):
        return
    if max_length is None or not _has_element(examples):
        raise _empty(problem, split, data_dir)
    raise _too_long(problem, split, data_dir, max_length)


def _has_element(dataset: Any) -> bool:
    return next(iter(dataset.take(1)), None) is not None


def _empty(problem: Problem, split: str, data_dir: Path) -> UserError:
    return UserError(
        f"the {split} split of {problem.name} in {data_dir} is empty: expected at least one"
        " example; delete that data and prepare it again from a source that has some."
    )


def _too_long(problem: Problem, split: str, data_dir: Path, max_length: int) -> UserError:
    return UserError(
        f"the {split} split of {problem.name} in {data_dir} has only examples longer than"
        f" max_length={max_length}: set a larger max_length in --hparams."
    )
