"""Log points: the progress line, metrics.jsonl and TensorBoard."""

from dataclasses import dataclass

from ut_tf.training.curriculum import Curriculum
from ut_tf.training.hooks.hook import Hook, Schedule
from ut_tf.training.logs import RunLog
from ut_tf.training.progress import ProgressLine, Speedometer
from ut_tf.training.state_values import TrainingState, Window


@dataclass
class Logging(Hook):
    """Logs the means since the last log point, and begins to count again.

    Args:
      schedule: after which updates.
      log: where the values go; None: nowhere, on workers that are not the chief.
      progress: the line that shows how training goes.
      speedometer: counts tokens between log points.
      curriculum: whose longest examples are logged, if any.
    """

    schedule: Schedule
    log: RunLog | None
    progress: ProgressLine
    speedometer: Speedometer
    curriculum: Curriculum | None

    def due(self, state: TrainingState) -> bool:
        return self.schedule(state.step)

    def after_update(self, state: TrainingState) -> None:
        window, speed = state.window, self.speedometer.per_second
        if self.log is not None and window.steps:
            values = window.values()
            if self.curriculum is not None:
                values["curriculum_length"] = float(self.curriculum.longest)
            if speed:
                values["tokens_per_second"] = speed
            by_step = window.losses_by_step()
            self.log.train(state.step, values, window.histogram, by_step)
            rate, ponder_time = window.learning_rate, window.ponder_time
            self.progress.show(state.step, values["loss"], rate, speed, ponder_time, by_step)
        state.window = Window()
        self.speedometer.start()
