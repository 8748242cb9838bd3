"""The bias trap: halting that stands at one number of steps and learns no other."""

from dataclasses import dataclass

from ut_tf.training.hooks.hook import Hook, Schedule
from ut_tf.training.progress import ProgressLine
from ut_tf.training.state_values import TrainingState

_FEW_STEPS = 2
# Of the mean, which few positions may pull away.
_TOLERANCE = 0.05


@dataclass
class PonderWatch(Hook):
    """Warns, once, where the mean ponder time has stood at 2 or below, or at its maximum, for many
    updates.

    Args:
      schedule: after which updates the mean since the last log point is read; it must come before
        ``Logging``, which begins to count again.
      remedies: what to change where it stands at few steps, and where it stands at its maximum.
      max_steps: the most steps of a position in training.
      progress: says the warning.
      patience: updates after which it is said.
    """

    schedule: Schedule
    remedies: tuple[str, str]
    max_steps: int
    progress: ProgressLine
    patience: int

    def __post_init__(self) -> None:
        self._updates = {"few": 0, "most": 0}
        self._warned = False

    def due(self, state: TrainingState) -> bool:
        return not self._warned and self.schedule(state.step)

    def after_update(self, state: TrainingState) -> None:
        time, updates = state.window.ponder_time, state.window.steps
        if time is None:
            return
        stands = {
            "few": time < _FEW_STEPS + _TOLERANCE < self.max_steps,
            "most": time > self.max_steps - _TOLERANCE and self.max_steps > 1,
        }
        for place, holds in stands.items():
            self._updates[place] = self._updates[place] + updates if holds else 0
            if self._updates[place] >= self.patience:
                self._warn(place, time)

    def _warn(self, place: str, time: float) -> None:
        self._warned = True
        where, remedy = "", self.remedies[0]
        if place == "most":
            where, remedy = ", its maximum,", self.remedies[1]
        self.progress.say(
            f"warning: the mean ponder time has stood at {time:.2f}{where} for"
            f" {self._updates[place]} updates: if it should depend on the positions, begin a new"
            f" run with {remedy}."
        )
