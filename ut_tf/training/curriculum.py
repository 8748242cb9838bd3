"""A curriculum over lengths: longer examples come as accuracy allows (arXiv 1511.08228).

::

    curriculum = Curriculum(problem, data_dir, training, replicas, seed, state.curriculum)
    curriculum.check_start()                            # where training begins
    batches = TrainingBatches(curriculum.make_dataset(), workers, state.position)
    state.curriculum.add(report.right, report.judged)   # after every update
    if curriculum.advance():                            # after every CHECK_FREQUENCY updates
        batches.restart(curriculum.make_dataset())

Its state is in each checkpoint; all that it decides follows from sums over all replicas.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from ut_tf.config.training import TrainingConfig
from ut_tf.data.batch_plan import Lengths, bucket_bounds, evenly_spaced
from ut_tf.data.example_table import ExampleTable
from ut_tf.data.pipeline import tell_left_out, train_batches
from ut_tf.data.problem import Problem
from ut_tf.errors import UserError
from ut_tf.notices import warn

CHECK_FREQUENCY = 10


@dataclass
class CurriculumState:
    """The progress of a curriculum; plain values, saved with a checkpoint.

    Fields:
      stage: from 0.
      right, judged: examples of the newest bucket that had no fault, and all of them, since
        counting began.
      ended: whether the last stage has been passed.
    """

    stage: int = 0
    right: float = 0.0
    judged: float = 0.0
    ended: bool = False

    def add(self, right: float, judged: float) -> None:
        """Adds the counts of an update."""
        self.right += right
        self.judged += judged


class Curriculum:
    """The stages of one run's training.

    The stages are the bounds of the length buckets, from curriculum_start to the longest example,
    in epoch 0. A later epoch that has none of the newest examples takes those of the next stage. A
    new stage begins the epoch at hand again with another choice of its examples. What ends a stage
    is in docs/models.md.

    Args:
      problem: whose training split is read into memory, whatever its size.
      data_dir: where the problem prepared its data.
      training: resolved hyperparameters.
      num_replicas, seed: as for ``train_batches``.
      state: where it stands; changed by ``advance``.

    Raises:
      UserError: no example is short enough.
    """

    def __init__(
        self,
        problem: Problem,
        data_dir: Path,
        training: TrainingConfig,
        num_replicas: int,
        seed: int,
        state: CurriculumState,
    ) -> None:
        self._problem = problem
        self._data_dir = data_dir
        self._training = training
        self._num_replicas = num_replicas
        self._seed = seed
        self._tables: dict[int, ExampleTable] = {}
        self.state = state
        self._tell_memory()
        lengths = self._table(0).lengths
        bounds = bucket_bounds(
            training.min_length_bucket, training.length_bucket_step, training.max_length
        )
        fitting = lengths[lengths <= training.max_length]
        self.bounds = stages(bounds, fitting, training.curriculum_start)
        self._shortest = int(fitting.min())
        self._first_bound = next(
            (bound for bound in bounds if bound >= training.curriculum_start), bounds[-1]
        )
        tell_left_out(problem, lengths, training.max_length)

    def _tell_memory(self) -> None:
        """Warns where the training split is one that is read in pools without a curriculum."""
        pools = self._problem.example_pools(self._data_dir, self._seed, epoch=0)
        if pools is not None:
            warn(
                "with `curriculum`=length the whole training split of"
                f" {self._problem.name} is read into memory, instead of {pools.count} pools one"
                " after the other; where memory is too small for it, leave the curriculum out"
                " (`curriculum`=none)."
            )

    def check_start(self) -> None:
        """Raises UserError if no example fits curriculum_start: training would begin at another
        length.

        Raises:
          UserError: the shortest example belongs to a later bucket than curriculum_start.
        """
        if self._shortest > self._first_bound:
            raise UserError(
                f"`curriculum_start`={self._training.curriculum_start}: the shortest training"
                f" example of {self._problem.name} has {self._shortest} symbols; raise it"
                f" (`curriculum_start`={self._shortest}), or leave the curriculum out"
                " (`curriculum`=none)."
            )

    @property
    def description(self) -> str:
        """The present stage in words."""
        if self.state.ended:
            return "all lengths are learned: the curriculum has ended"
        return f"lengths up to {self.longest}"

    @property
    def longest(self) -> int:
        """The longest examples that are seen now."""
        return self.bounds[min(self.state.stage, len(self.bounds) - 1)]

    @property
    def newest_above(self) -> int:
        """The length above which examples belong to the newest bucket."""
        return self.bounds[self.state.stage - 1] if self.state.stage else 0

    @property
    def pull(self) -> float:
        """Weight of the penalty on relaxed parameter sets; 0 after the end, when they are one."""
        training = self._training
        if self.state.ended:
            return 0.0
        return training.tying_pull * training.tying_pull_factor**self.state.stage

    def advance(self) -> bool:
        """Begins the next stage, or ends the curriculum, where the newest examples were answered
        well; returns whether it did.
        """
        state, training = self.state, self._training
        if state.ended or state.judged < training.curriculum_examples:
            return False
        passed = state.right >= training.curriculum_threshold * state.judged
        state.right = state.judged = 0.0
        if passed and state.stage == len(self.bounds) - 1:
            state.ended = True
        elif passed:
            state.stage += 1
        return passed

    def make_dataset(self) -> Callable[[int, int], Any]:
        """Returns (epoch, skip_batches) -> the batches of the present stage, as ``train_batches``
        makes them.
        """
        stage = dataclasses.replace(self.state)
        above, bounds = self.newest_above, self.bounds[self.state.stage :]

        def make(epoch: int, skip_batches: int) -> Any:
            table = self._table(epoch)
            if not stage.ended:
                numbers = staged(table.lengths, above, bounds, self._training.curriculum_share)
                # Of an epoch that has nothing for this stage or a later one all is seen;
                # train_batches says what is wrong with it.
                table = _chosen(table, numbers) if numbers.size else table
            arguments = (
                self._problem,
                self._data_dir,
                self._training,
                self._num_replicas,
                self._seed,
                epoch,
                skip_batches,
            )
            return train_batches(*arguments, table=table)

        return make

    def _table(self, epoch: int) -> ExampleTable:
        """The examples of an epoch; the last two are kept, since every new stage asks for
        them again.
        """
        table = self._tables.get(epoch)
        if table is None:
            table = self._problem.examples("train", self._data_dir, seed=self._seed, epoch=epoch)
            # The next epoch's is made in the background: a table that is lost between the two is
            # made again.
            self._tables = {
                **{known: kept for known, kept in self._tables.items() if known >= epoch - 1},
                epoch: table,
            }
        return table


def stages(bounds: list[int], lengths: Lengths, start: int) -> list[int]:
    """The bounds of the stages, ascending: those of the buckets from `start` on that hold
    examples.

    Args:
      bounds: inclusive upper bounds of the length buckets.
      lengths: int [examples].
      start: the longest examples of the first stage, at least.

    Raises:
      UserError: there are no examples.
    """
    if not lengths.size:
        raise UserError(
            "curriculum=length: no training example is short enough for max_length: raise it."
        )
    edges = np.asarray([bound for bound in bounds if bound >= start] or bounds[-1:])
    filled = np.unique(np.searchsorted(edges, lengths))
    return [int(edges[number]) for number in filled if number < len(edges)]


def staged(lengths: Lengths, above: int, bounds: list[int], share: float) -> Lengths:
    """The numbers of a stage's examples, ascending.

    Args:
      lengths: int [examples].
      above: the bound of the stage before, or 0.
      bounds: of this stage and of those after it, ascending; the first counts that brings examples.
        Where none does, all of the older ones are returned.
      share: of the examples in the result, those longer than `above`; where there are not enough
        others, more.
    """
    older = np.flatnonzero(lengths <= above)
    newer = lengths[(lengths > above) & (lengths <= bounds[-1])]
    if not newer.size:
        return older.astype(np.int32)
    longest = bounds[np.searchsorted(bounds, newer.min())]
    newest = np.flatnonzero((lengths > above) & (lengths <= longest))
    wanted = round(newest.size * (1.0 - share) / share)
    # A limit of 0 would mean all of them.
    kept = older[evenly_spaced(older.size, wanted)] if wanted else older[:0]
    return np.sort(np.concatenate([newest, kept])).astype(np.int32)


def _chosen(table: ExampleTable, numbers: Lengths) -> ExampleTable:
    places = tf.constant(numbers, tf.int32)
    return dataclasses.replace(
        table,
        lengths=table.lengths[numbers],
        batch=lambda chosen: table.batch(tf.gather(places, chosen)),
    )
