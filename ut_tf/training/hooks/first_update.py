"""The first update of a process, which takes longer: TensorFlow traces the graph in it."""

import time

from ut_tf.training.hooks.hook import Hook
from ut_tf.training.progress import ProgressLine, Speedometer
from ut_tf.training.state_values import TrainingState


class FirstUpdate(Hook):
    """Prints the time of the first update; later times and speeds count from there.

    Args:
      step: its number.
      log_frequency: updates between lines of progress, for what is said.
      progress: the line that shows how training goes.
      speedometer: started again after it.
    """

    def __init__(
        self, step: int, log_frequency: int, progress: ProgressLine, speedometer: Speedometer
    ) -> None:
        self._step = step
        self._log_frequency = log_frequency
        self._progress = progress
        self._speedometer = speedometer
        self._began = time.monotonic()

    def due(self, state: TrainingState) -> bool:
        return state.step == self._step

    def after_update(self, state: TrainingState) -> None:
        self._progress.start(self._step)
        seconds = time.monotonic() - self._began
        every = f"{self._log_frequency} steps, first every half minute"
        if self._log_frequency == 1:
            every = "step"
        self._progress.say(
            f"step {self._step} took {seconds:.0f} s, most of it for the graph; a line"
            f" every {every}"
        )
        self._speedometer.start()
