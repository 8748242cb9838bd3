"""Changes of the network in the course of training."""

from collections.abc import Callable

from ut_tf.training.hooks.hook import Hook
from ut_tf.training.progress import ProgressLine
from ut_tf.training.state_values import TrainingState


class Changes(Hook):
    """Runs the scheduled changes of ``model.changes()``.

    Args:
      changes: by the number of the update after which each is called.
      progress: the line that shows how training goes.
    """

    def __init__(self, changes: dict[int, Callable[[], None]], progress: ProgressLine) -> None:
        self._changes = changes
        self._progress = progress

    def due(self, state: TrainingState) -> bool:
        return state.step in self._changes

    def after_update(self, state: TrainingState) -> None:
        change = self._changes[state.step]
        change()
        self._progress.say(f"step {state.step}: {change.__name__.replace('_', ' ')}")
