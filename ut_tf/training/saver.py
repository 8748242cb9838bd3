"""Checkpoints of a training: its ``TrainState``, saved and restored."""

import math

import tensorflow as tf

from ut_tf.errors import UserError
from ut_tf.storage.checkpoints import CheckpointStore, read_state, restore
from ut_tf.training.distribution import Workers
from ut_tf.training.optimizer import Optimizer
from ut_tf.training.state_values import TrainingState
from ut_tf.training.train_state import TrainState

# What a checkpoint holds besides the numbers, about.
_INDEX_BYTES = 50_000


class Saver:
    """Saves and restores a training; the chief alone writes.

    Args:
      store: of the run directory.
      state: everything that a checkpoint holds.
      workers: must all find the same checkpoint.
    """

    def __init__(self, store: CheckpointStore, state: TrainState, workers: Workers) -> None:
        self._store = store
        self._state = state
        self._workers = workers
        weights = sum(math.prod(weight.shape) for weight in state.model.trainable_variables)
        copies = 4 if state.optimizer.averages else 3
        self._needed_bytes = 4 * weights * copies + _INDEX_BYTES
        self._saved_step = -1

    @property
    def optimizer(self) -> Optimizer:
        """The optimizer whose state is saved."""
        return self._state.optimizer

    def save(self, progress: TrainingState) -> None:
        """Saves a checkpoint unless this step has one. All workers must call it at the same point.

        Raises:
          UserError: the disk is full or not writable.
        """
        if self._saved_step == progress.step:
            return
        carried = self._state.carried_by(self._workers)
        if self._workers.is_chief:
            checkpoint = self._state.checkpoint(carried)
            values = {
                **progress.to_dict(),
                "averaged": bool(self.optimizer.averages),
                "carry": [[value.dtype.name, value.shape.as_list()] for value in carried],
            }
            needed = self._needed_bytes + sum(value.numpy().nbytes for value in carried)
            self._store.save(progress.step, checkpoint, values, needed)
        self._saved_step = progress.step

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
            carried = [
                tf.Variable(tf.zeros(shape, dtype), trainable=False)
                for dtype, shape in values.get("carry", [])
            ]
            restore(directory, self._state.checkpoint(carried))
            self._state.restored = [variable.numpy() for variable in carried]
            state = TrainingState.from_dict(values)
        if self._workers.total(float(state.step)) != state.step * self._workers.count:
            raise UserError(
                f"the workers find different checkpoints in {self._store.folder}; give an"
                " `output_dir` that all can see."
            )
        if self._workers.is_chief and directory is not None:
            self._take_over(state)
        self._saved_step = state.step
        self._state.progress = state
        return state

    def _take_over(self, state: TrainingState) -> None:
        """Restores the folder to its content at the time `state` was saved.

        Damaged newer checkpoints are set aside, and the best one is marked.
        """
        self._store.set_aside_newer(state.step)
        if state.best_step is not None and not self._store.path(state.best_step).is_dir():
            state.best_step = state.best_value = state.best_loss = None
        self._store.mark_best(state.best_step)
        self._store.prune(state.best_step)
