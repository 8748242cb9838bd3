"""The state of a training: one list of everything that a checkpoint holds.

::

    state = TrainState(model, optimizer)
    state.checkpoint().write(path)   # weights, random states, moments, averages, the carry
    state.progress.to_dict()         # and the numbers beside them
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ut_tf.errors import UserError, counted
from ut_tf.training.distribution import Workers
from ut_tf.training.optimizer import Optimizer
from ut_tf.training.state_values import TrainingState


@dataclass
class TrainState:
    """Everything that decides how a training goes on: the one list of a checkpoint's content.

    Args:
      model: its weights, and the states of its random generators.
      optimizer: its moments, its loss scale, and the averages of the weights.
      progress: where training stands: plain numbers.
      carry: of ``TrainingStep``: what goes into the next update; None before this process's first.
      restored: tensors of the carry from a checkpoint, from which ``begin`` makes it.
    """

    model: Any
    optimizer: Optimizer
    progress: TrainingState = dataclasses.field(default_factory=TrainingState)
    carry: list[Any] | None = None
    restored: list[Any] = dataclasses.field(default_factory=list)

    def checkpoint(self, carried: Sequence[Any] = ()) -> Any:
        """Returns the tf.train.Checkpoint that saves and restores the state but for its numbers.

        Args:
          carried: variables of the carry's tensors, from ``carried_by``; none: nothing is carried.
        """
        return tf.train.Checkpoint(
            model=self.model,
            random_states=_random_states(self.model),
            optimizer=tf.train.Checkpoint(**self.optimizer.state()),
            averages=self.optimizer.averages,
            **({"carry": list(carried)} if carried else {}),
        )

    def carried_by(self, workers: Workers) -> list[Any]:
        """Returns variables of the carry's tensors, each with those of the replicas of all workers
        in front. All workers must call it at the same point.
        """
        leaves = tf.nest.flatten(self.carry or [])
        return [tf.Variable(workers.stacked(leaf), trainable=False) for leaf in leaves]

    def begin(self, start: list[Any], workers: Workers) -> None:
        """Sets the carry into the first update of this process.

        Args:
          start: of ``TrainingStep.start``; what a checkpoint held takes its place.
          workers: this process among the others.

        Raises:
          UserError: the checkpoint carries other tensors.
        """
        leaves, restored = tf.nest.flatten(start), self.restored
        if not restored:
            self.carry = start
            return
        if len(leaves) != len(restored):
            raise UserError(
                f"the checkpoint carries {counted(len(restored), 'tensor')} from one update to the"
                f" next, and this supervision {len(leaves)}: train with the code that wrote it, or"
                " in another `output_dir`."
            )
        self.carry = tf.nest.pack_sequence_as(start, [workers.unstacked(v) for v in restored])
        self.restored = []


def _random_states(model: Any) -> list[Any]:
    """The variables of a model's random generators, which TensorFlow's checkpoints do not find."""
    weights = {id(weight) for weight in model.weights}
    return [variable.value for variable in model.variables if id(variable) not in weights]
