"""The graph of an update, for TensorBoard."""

from ut_tf.training.hooks.hook import Hook
from ut_tf.training.logs import RunLog
from ut_tf.training.state_values import TrainingState
from ut_tf.training.step import TrainingStep


class GraphOfUpdate(Hook):
    """Writes the graph of an update after the first one of a process.

    Args:
      first: number of the first update.
      step: whose graph it is.
      log: where it goes; None: nowhere, on workers that are not the chief.
    """

    def __init__(self, first: int, step: TrainingStep, log: RunLog | None) -> None:
        self._first = first
        self._step = step
        self._log = log

    def due(self, state: TrainingState) -> bool:
        return state.step == self._first

    def after_update(self, state: TrainingState) -> None:
        if self._log is not None:
            self._log.graph(self._step.graph)
