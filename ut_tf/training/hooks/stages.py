"""The stages of a curriculum."""

from typing import Any

from ut_tf.training.answer_counter import AnswerCounter
from ut_tf.training.batches import TrainingBatches
from ut_tf.training.curriculum import CHECK_FREQUENCY, Curriculum
from ut_tf.training.hooks.hook import Hook
from ut_tf.training.progress import ProgressLine
from ut_tf.training.state_values import TrainingState


class Stages(Hook):
    """Goes on to a curriculum's next stage, or to its end, where the answers allow it.

    Args:
      curriculum: shares its state with the training's.
      batches: go on with those of the next stage.
      judge: told what counts in a stage.
      model: whose relaxed weights, if it has any, are tied at the end.
      progress: the line that shows how training goes.
    """

    def __init__(
        self,
        curriculum: Curriculum,
        batches: TrainingBatches,
        judge: AnswerCounter,
        model: Any,
        progress: ProgressLine,
    ) -> None:
        self._curriculum = curriculum
        self._batches = batches
        self._judge = judge
        self._model = model
        self._progress = progress
        self._configure()

    def due(self, state: TrainingState) -> bool:
        return state.step % CHECK_FREQUENCY == 0

    def after_update(self, state: TrainingState) -> None:
        if not self._curriculum.advance():
            return
        if state.curriculum.ended:
            self._model.tie()
        self._configure()
        self._batches.restart(self._curriculum.make_dataset())
        state.position = self._batches.position
        self._progress.say(f"step {state.step}: {self._curriculum.description}")

    def _configure(self) -> None:
        self._judge.configure(self._curriculum.newest_above, self._curriculum.pull)
