"""Checkpoints of a training: every variable and value that decides how it goes on."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from ut_tf.errors import UserError
from ut_tf.storage.checkpoints import CheckpointStore, read_state, restore
from ut_tf.training.distribution import Workers
from ut_tf.training.optimizer import Optimizer
from ut_tf.training.state import TrainingState

# What a checkpoint holds besides the numbers, about.
_INDEX_BYTES = 50_000


def training_checkpoint(model: Any, optimizer: Optimizer) -> Any:
    """The tf.train.Checkpoint of weights, random states, the optimizer's state and averages."""
    return tf.train.Checkpoint(
        model=model,
        random_states=_random_states(model),
        optimizer=tf.train.Checkpoint(**optimizer.state()),
        averages=optimizer.averages,
    )


class Saver:
    """Saves and restores a training; the chief alone writes.

    Args:
      store: of the run directory.
      model: that is trained.
      optimizer: of its weights.
      workers: must all find the same checkpoint.
    """

    def __init__(
        self, store: CheckpointStore, model: Any, optimizer: Optimizer, workers: Workers
    ) -> None:
        self.optimizer = optimizer
        self._store = store
        self._workers = workers
        self._checkpoint = training_checkpoint(model, optimizer)
        weights = sum(math.prod(weight.shape) for weight in model.trainable_variables)
        self._needed_bytes = 4 * weights * (4 if optimizer.averages else 3) + _INDEX_BYTES
        self._saved_step = -1

    def save(self, state: TrainingState) -> None:
        """Saves a checkpoint, where there is none of this step.

        Raises:
          UserError: the disk is full or not writable.
        """
        if not self._workers.is_chief or self._saved_step == state.step:
            return
        values = {**state.to_dict(), "averaged": bool(self.optimizer.averages)}
        self._store.save(state.step, self._checkpoint, values, self._needed_bytes)
        self._saved_step = state.step

    def restore(self) -> TrainingState:
        """Restores the newest intact checkpoint, if any; returns where training stands.

        Raises:
          UserError: no checkpoint is intact, it is not of a training, or the workers do not see the
            same one.
        """
        if self._workers.is_chief:
            self._store.remove_leftovers()
        directory = self._store.newest_intact()
        state = TrainingState()
        if directory is not None:
            values = read_state(directory)
            if "averaged_steps" in values:
                steps = ", ".join(map(str, values["averaged_steps"]))
                raise UserError(
                    f"{directory} is the mean of the checkpoints of steps {steps}, which cannot be"
                    " trained on: train in the run that they are from, or begin another with"
                    f" `warm_start_from`={self._store.folder.parent}."
                )
            restore(directory, self._checkpoint)
            state = TrainingState.from_dict(values)
        if self._workers.total(float(state.step)) != state.step * self._workers.count:
            raise UserError(
                f"the workers find different checkpoints in {self._store.folder}; give an"
                " `output_dir` that all can see."
            )
        if self._workers.is_chief and directory is not None:
            self._take_over(state)
        self._saved_step = state.step
        return state

    def _take_over(self, state: TrainingState) -> None:
        """Makes the folder what it was when `state` was saved.

        Damaged newer checkpoints are set aside, and the best one is marked.
        """
        self._store.set_aside_newer(state.step)
        if state.best_step is not None and not self._store.path(state.best_step).is_dir():
            state.best_step = state.best_value = state.best_loss = None
        self._store.mark_best(state.best_step)
        self._store.prune(state.best_step)


def _random_states(model: Any) -> list[Any]:
    """The variables of a model's random generators, which TensorFlow's checkpoints do not find."""
    weights = {id(weight) for weight in model.weights}
    return [variable.value for variable in model.variables if id(variable) not in weights]
