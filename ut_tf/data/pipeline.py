"""From a problem's examples to padded batches, for replicas and workers.

How it is used::

    batches = train_batches(problem, data_dir, hparams.training, num_replicas=2, seed=1, epoch=0)
    # the two replicas' parts of one global batch, of equal shape
    for first, second in zip(*[iter(batches)] * 2):
        ...
    for batch in eval_batches(problem, evaluation_set, data_dir, batch_tokens=4096):
        ...
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from ut_tf.config.training import TrainingConfig
from ut_tf.data.batch_plan import (
    Lengths,
    batch_sizes,
    bucket_bounds,
    consecutive_batches,
    evenly_spaced,
    plan_batches,
)
from ut_tf.data.example_pools import ExamplePools
from ut_tf.data.example_table import ExampleTable
from ut_tf.data.problem import EvaluationSet, Problem
from ut_tf.errors import UserError, marked
from ut_tf.loading import place
from ut_tf.notices import worded

WEIGHT = "weight"


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
    """One epoch of training batches, as a tf.data.Dataset of per-replica batches.

    The epoch's end loses no example: the last batches are smaller, and padding examples of weight 0
    fill them up to a multiple of the number of replicas. Of a split in pools the same holds for
    each pool.

    Args:
      problem: whose training split is read.
      data_dir: where the problem prepared its data.
      training: sizes and bounds of the batches; examples longer than its max_length are left out.
      num_replicas: every global batch is this many consecutive elements of equal shape.
      seed: decides, with `epoch`, the content and order of the batches; nothing else does.
      epoch: number of the pass through the data, from 0.
      skip_batches: global batches left out at the epoch's beginning (to resume a stopped run).
      table: the epoch's examples, for a caller that has chosen among them and reports those left
        out itself; None: all examples of the problem.

    Returns:
      A dataset of dictionaries: the examples' features with a leading dimension `batch`, padded
      with 0 to the longest example in the global batch (with jit_compile: to the bucket's bound,
      and in the number of examples too, so that shapes are few; with supervision=deep in the number
      of examples), and "weight" float32 [batch], 1
      for an example and 0 for padding.

    Raises:
      UserError: the split is empty or all its examples are longer than max_length. Of a split in
        pools this is found as it is read: its iterator raises an error of TensorFlow with the
        sentence, as of damaged shards (``errors.marked_in``).
    """
    bounds = bucket_bounds(
        training.min_length_bucket, training.length_bucket_step, training.max_length
    )
    sizes = batch_sizes(bounds, training, num_replicas)
    pools = None if table is not None else problem.example_pools(data_dir, seed, epoch)
    if pools is not None:
        if epoch == 0:
            first = "training examples in the first pool"
            tell_left_out(problem, pools.pool(0).lengths, training.max_length, first)
        none_fits = _none_fits(problem, "train", data_dir, training.max_length)
        batches = _pooled(pools, bounds, sizes, skip_batches, training.jit_compile, none_fits)
    else:
        is_chosen = table is not None
        if table is None:
            table = problem.examples("train", data_dir, seed=seed, epoch=epoch)
        _check_lengths(problem, "train", data_dir, table.lengths, training.max_length)
        if epoch == 0 and not is_chosen:
            tell_left_out(problem, table.lengths, training.max_length)
        plan = plan_batches(table.lengths, bounds, sizes)[skip_batches:]
        # What stays for several updates keeps its row: batches of one length have one size.
        full = training.supervision == "deep"
        batches = _planned(table, plan, bounds, sizes, training.jit_compile, full)
    _check_features(problem, "train", data_dir, batches.element_spec)
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
    """The examples of an evaluation set as a tf.data.Dataset of whole batches, in a fixed order.

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
    split = evaluation_set.split
    table = problem.examples(split, data_dir, length=evaluation_set.length)
    _check_lengths(problem, split, data_dir, table.lengths, None)
    bounds = bucket_bounds(8, 1.1, int(table.lengths.max()))
    sizes = [max(1, batch_tokens // bound) for bound in bounds]
    chosen = evenly_spaced(len(table), evaluation_set.max_examples)
    if batch_examples:
        plan = consecutive_batches(len(chosen), batch_examples)
    else:
        plan = plan_batches(table.lengths[chosen], bounds, sizes)
    batches = _planned(
        table, [chosen[numbers] for numbers in plan], bounds, sizes, full_shapes=False
    )
    _check_features(problem, split, data_dir, batches.element_spec)
    return batches.prefetch(2).with_options(_options())


def worker_share(batches: Any, num_replicas: int, worker: int, num_workers: int) -> Any:
    """The elements of `train_batches` that belong to one worker: its consecutive share of every
    global batch.

    Args:
      batches: the result of ``train_batches(..., num_replicas)``; the same on every worker.
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


def tell_left_out(
    problem: Problem, lengths: Lengths, max_length: int, what: str = "training examples"
) -> None:
    """Prints to stderr how many training examples are too long, if any.

    Args:
      problem: that they are of.
      lengths: int32 [examples].
      max_length: of those that are trained on.
      what: the examples are.
    """
    left_out = int((lengths > max_length).sum())
    if left_out:
        sentence = (
            f"{left_out} of {len(lengths)} {what} of {problem.name} are longer than"
            f" `max_length`={max_length}, and are left out"
        )
        print(worded(sentence), file=sys.stderr, flush=True)


def _planned(
    table: ExampleTable,
    plan: list[Lengths],
    bounds: list[int],
    sizes: list[int],
    full_shapes: bool,
    full_sizes: bool = False,
) -> Any:
    """Makes the planned batches; `full_shapes` pads to the bound and the size of the bucket of a
    batch's longest example, `full_sizes` to the size alone.
    """
    longest = [int(table.lengths[numbers].max()) for numbers in plan]
    keys = tf.constant(
        np.minimum(np.searchsorted(np.asarray(bounds), longest), len(bounds) - 1), tf.int32
    )
    numbers = tf.constant(np.concatenate(plan) if plan else np.zeros(0), tf.int32)
    ends = tf.constant(np.cumsum([0, *map(len, plan)]), tf.int32)
    bound_table, size_table = tf.constant(bounds, tf.int32), tf.constant(sizes, tf.int32)

    # AutoGraph would rewrite the source of all that is called, which takes longer than the trace.
    @tf.autograph.experimental.do_not_convert
    def batch(index: Any) -> dict[str, Any]:
        features = table.trimmed(table.batch(numbers[ends[index] : ends[index + 1]]))
        features = {**features, WEIGHT: tf.ones([ends[index + 1] - ends[index]], tf.float32)}
        if full_shapes:
            features = _pad_length(features, bound_table[keys[index]])
        if not (full_shapes or full_sizes):
            return features
        return _pad_examples(features, size_table[keys[index]])

    return tf.data.Dataset.range(len(plan)).map(
        batch, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
    )


def _pooled(
    pools: ExamplePools,
    bounds: list[int],
    sizes: list[int],
    skip_batches: int,
    full_shapes: bool,
    none_fits: UserError,
) -> Any:
    """The batches of one pool after the other, as ``_planned`` makes them; of pools that are
    skipped only the lengths are read. `none_fits` is raised where there is no batch.
    """

    def batches() -> Iterator[dict[str, Any]]:
        to_skip, planned = skip_batches, 0
        for number in range(pools.count):
            pool = pools.pool(number)
            plan = plan_batches(pool.lengths, bounds, sizes)
            planned += len(plan)
            if to_skip >= len(plan):
                to_skip -= len(plan)
                continue
            features = pool.load()
            for numbers in plan[to_skip:]:
                bucket = int(np.searchsorted(bounds, pool.lengths[numbers].max()))
                yield {
                    **features(numbers),
                    WEIGHT: np.ones(len(numbers), np.float32),
                    "bucket": min(bucket, len(bounds) - 1),
                }
            to_skip = 0
            # Memory does not hold this pool beside the next one.
            del features
        if not planned:
            raise none_fits

    def told() -> Iterator[dict[str, Any]]:
        # TensorFlow keeps the text of an error alone.
        try:
            yield from batches()
        except UserError as error:
            raise ValueError(marked(str(error))) from error

    ids = tf.TensorSpec([None, None], tf.int32)
    signature = {
        **dict.fromkeys(pools.features, ids),
        WEIGHT: tf.TensorSpec([None], tf.float32),
        "bucket": tf.TensorSpec([], tf.int32),
    }
    bound_table, size_table = tf.constant(bounds, tf.int32), tf.constant(sizes, tf.int32)

    @tf.autograph.experimental.do_not_convert
    def shaped(batch: dict[str, Any]) -> dict[str, Any]:
        features = {name: value for name, value in batch.items() if name != "bucket"}
        if not full_shapes:
            return features
        bucket = batch["bucket"]
        return _pad_examples(_pad_length(features, bound_table[bucket]), size_table[bucket])

    return tf.data.Dataset.from_generator(told, output_signature=signature).map(shaped)


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
        raise UserError(
            f"the {split} split of {problem.name} in {data_dir} is empty: expected at least one"
            " example; delete that data and prepare it again from a source that has some."
        )
    if max_length is not None and lengths.min() > max_length:
        raise _none_fits(problem, split, data_dir, max_length)


def _check_features(problem: Problem, split: str, data_dir: Path, features: Iterable[str]) -> None:
    missing = sorted({"inputs", "targets"}.difference(features))
    if missing and (missing != ["inputs"] or problem.spec(data_dir).inputs != "none"):
        raise UserError(
            f"problem {problem.name} ({place(type(problem))}): the examples of its split {split!r}"
            f" have the features {', '.join(features)}; expected {', '.join(missing)} among them."
        )


def _none_fits(problem: Problem, split: str, data_dir: Path, max_length: int) -> UserError:
    return UserError(
        f"the {split} split of {problem.name} in {data_dir} has only examples longer than"
        f" `max_length`={max_length}: set a larger `max_length`."
    )
