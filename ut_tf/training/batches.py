"""The global batches of training, epoch after epoch, from any position.

A position is (epoch, batches of this epoch already used). It is all that a checkpoint needs to hold
of the data: an epoch is rebuilt from the seed and its number, and the batches already used are
skipped. The next epoch's data set is built in the background while the present one is used, since
that takes as long as several updates of a small network.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ut_tf.data.pipeline import WEIGHT
from ut_tf.errors import UserError, marked_in
from ut_tf.training.distribution import Workers


@dataclass(frozen=True)
class Position:
    """The position of training in its data: the epoch, from 0, and the number of its global batches
    that are used.
    """

    epoch: int = 0
    batch: int = 0


FIRST = Position()


class TrainingBatches:
    """An endless iterator over this worker's share of the global batches that knows its position.

    Args:
      make_dataset: (epoch, skip_batches) -> tf.data.Dataset of per-replica batches, every global
        batch being as many consecutive elements as there are replicas.
      workers: this process among the others.
      position: where to begin.
    """

    def __init__(
        self, make_dataset: Callable[[int, int], Any], workers: Workers, position: Position = FIRST
    ) -> None:
        self._make_dataset = make_dataset
        self._workers = workers
        self.position = position
        self._ahead: Any = None
        self._builder = ThreadPoolExecutor(max_workers=1, thread_name_prefix="next-epoch")
        self._open(make_dataset(position.epoch, position.batch))

    @property
    def element_spec(self) -> Any:
        """The batches' specification, for a function's signature."""
        return self._dataset.element_spec

    def next(self) -> Any:
        """The next global batch and moves the position behind it.

        Raises:
          UserError: a whole epoch has no batch, or a shard is damaged.
        """
        batch, self._ahead = self.peek(), None
        self.position = Position(self.position.epoch, self.position.batch + 1)
        return batch

    def blank(self) -> Any:
        """A batch like the next one, whose rows all have weight 0; errors as of ``next``."""
        batch = self.peek()
        return {**batch, WEIGHT: tf.zeros_like(batch[WEIGHT])}

    def peek(self) -> Any:
        """The next global batch, before which the position stays; errors as of ``next``."""
        while self._ahead is None:
            self._ahead = self._read()
            if self._ahead is not None:
                break
            # An epoch that was fully used may be empty after the skip; the one after it may not.
            if self.position.batch == 0:
                raise UserError(
                    "the training data has no batch: every example is longer than max_length, or"
                    " there is none; raise max_length."
                )
            self.position = Position(self.position.epoch + 1)
            self._open(self._next_epoch.result())
        return self._ahead

    def restart(self, make_dataset: Callable[[int, int], Any]) -> None:
        """Goes on with other batches, at the beginning of the epoch at hand."""
        self._next_epoch.cancel()
        self._make_dataset = make_dataset
        self.position = Position(self.position.epoch)
        self._open(make_dataset(self.position.epoch, 0))

    def close(self) -> None:
        """Lets go of the background thread."""
        self._builder.shutdown(wait=True, cancel_futures=True)

    def _read(self) -> Any:
        """The next global batch, or None at the epoch's end."""
        try:
            return next(self._iterator, None)
        except tf.errors.OpError as error:
            sentence = marked_in(error)
            if sentence is None:
                raise
            raise UserError(sentence) from error

    def _open(self, dataset: Any) -> None:
        self._ahead = None
        self._dataset = self._workers.share_of(dataset)
        self._iterator = iter(self._dataset)
        self._next_epoch: Future[Any] = self._builder.submit(
            self._make_dataset, self.position.epoch + 1, 0
        )
