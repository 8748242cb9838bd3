"""The stages of a curriculum."""

from dataclasses import dataclass
from typing import Any

from ut_tf.training.answer_counter import AnswerCounter
from ut_tf.training.batches import TrainingBatches
from ut_tf.training.curriculum import CHECK_FREQUENCY, Curriculum
from ut_tf.training.hooks.hook import Hook
from ut_tf.training.progress import ProgressLine
from ut_tf.training.state_values import TrainingState


@dataclass
class Stages(Hook):
    """Goes on to a curriculum's next stage, or to its end, where the answers allow it.

    Args:
      curriculum: shares its state with the training's.
      batches: go on with those of the next stage.
      judge: told what counts in a stage.
      model: whose relaxed weights, if it has any, are tied at the end.
      progress: the line that shows how training goes.
    """

    curriculum: Curriculum
    batches: TrainingBatches
    judge: AnswerCounter
    model: Any
    progress: ProgressLine

    def __post_init__(self) -> None:
        self._configure()

    def due(self, state: TrainingState) -> bool:
        return state.step % CHECK_FREQUENCY == 0

    def after_update(self, state: TrainingState) -> None:
        if not self.curriculum.advance():
            return
        if state.curriculum.ended:
            self.model.tie()
        self._configure()
        self.batches.restart(self.curriculum.make_dataset())
        state.position = self.batches.position
        self.progress.say(f"step {state.step}: {self.curriculum.description}")

    def _configure(self) -> None:
        self.judge.configure(self.curriculum.newest_above, self.curriculum.pull)
