"""The ends of training: the last update, and a signal."""

from ut_tf.training.distribution import Workers
from ut_tf.training.hooks.hook import Hook, StoppedBy
from ut_tf.training.saver import Saver
from ut_tf.training.signals import StopRequest
from ut_tf.training.state_values import TrainingState

# Several workers ask each other this often (in updates) whether one of them got a signal.
_CHECK_FREQUENCY = 10


class LastUpdate(Hook):
    """Stops after `train_steps` updates."""

    def __init__(self, train_steps: int) -> None:
        self._train_steps = train_steps

    def due(self, state: TrainingState) -> bool:
        return state.step >= self._train_steps

    def after_update(self, state: TrainingState) -> StoppedBy:
        return "train_steps"


class Signal(Hook):
    """Saves a checkpoint and stops, on all workers, after one of them was asked to."""

    def __init__(self, request: StopRequest, saver: Saver, workers: Workers) -> None:
        self._request = request
        self._saver = saver
        self._workers = workers

    def due(self, state: TrainingState) -> bool:
        if self._workers.count == 1:
            return self._request.requested
        return (
            state.step % _CHECK_FREQUENCY == 0
            and self._workers.total(float(self._request.requested)) > 0
        )

    def after_update(self, state: TrainingState) -> StoppedBy:
        self._saver.save(state)
        return "signal"
