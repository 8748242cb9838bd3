"""The speed of training, before the first regular line of progress."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from ut_tf.training.hooks.hook import Hook, Schedule
from ut_tf.training.progress import ProgressLine, Speedometer, format_duration
from ut_tf.training.state_values import TrainingState

_PAUSE_SECONDS = 30.0
# Measured for less, a first hiccup could pass for the speed.
_TRUSTED_SECONDS = 10.0
_DAY_SECONDS = 86_400.0


@dataclass
class FirstMinute(Hook):
    """Shows the time of an update and the time that is left: after the second update, and then by
    the clock until the first regular line.

    Args:
      first: number of the first update, from whose end the time is measured.
      regular: after which updates there is a line anyway.
      progress: the line that shows how training goes.
      speedometer: counts tokens from the first update on.
      by_clock: whether there is more than the line after the second update. Clocks of several
        workers differ, and they must answer alike.
      advice: says once, of a training that has days to go, what to do instead: a function of the
        time that is left, in words.
      clock: gives the time in seconds.
    """

    first: int
    regular: Schedule
    progress: ProgressLine
    speedometer: Speedometer
    by_clock: bool
    advice: Callable[[str], str]
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._told = self.clock()
        self._advised = self._over = False

    def due(self, state: TrainingState) -> bool:
        if self._over or state.step <= self.first:
            return False
        if self.regular(state.step):
            self._over = True
            return False
        waited = self.by_clock and self.clock() - self._told >= _PAUSE_SECONDS
        return state.step == self.first + 1 or waited

    def after_update(self, state: TrainingState) -> None:
        self._told = self.clock()
        updates = state.step - self.first
        elapsed, left = self.progress.elapsed, self.progress.seconds_left(state.step)
        if updates == 1:
            self.progress.say(
                f"step {state.step} took {elapsed:.3g} s: about {format_duration(left)} for the"
                " updates that are left"
            )
        else:
            window = state.window
            loss = window.loss / max(window.steps, 1)
            speed = self.speedometer.per_second
            self.progress.show(state.step, loss, window.learning_rate, speed, window.ponder_time)
        if left > _DAY_SECONDS and elapsed >= _TRUSTED_SECONDS and not self._advised:
            self._advised = True
            self.progress.say(self.advice(format_duration(left)))
