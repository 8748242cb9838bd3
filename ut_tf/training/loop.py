"""The training loop: updates, and hooks between them.

::

    loop = TrainingLoop(step, batches, state, workers, reports, hooks, accumulate_steps=1)
    stopped_by = loop.run()
"""

from collections.abc import Sequence

from ut_tf.training.batches import TrainingBatches
from ut_tf.training.distribution import Workers
from ut_tf.training.hooks.hook import Hook, StoppedBy
from ut_tf.training.pending_reports import PendingReports
from ut_tf.training.step import TrainingStep
from ut_tf.training.train_state import TrainState

# Reports wait on the device until a hook is due, but no more of them than this.
_MOST_PENDING = 100


class TrainingLoop:
    """Updates the weights until a hook gives a reason to stop.

    Args:
      step: updates the weights.
      batches: of the training data.
      state: everything that a checkpoint holds.
      workers: this process among the others.
      reports: of the updates; read into the state before a hook acts.
      hooks: in the order in which they act after an update.
      accumulate_steps: global batches of one update.
    """

    def __init__(
        self,
        step: TrainingStep,
        batches: TrainingBatches,
        state: TrainState,
        workers: Workers,
        reports: PendingReports,
        hooks: Sequence[Hook],
        accumulate_steps: int,
    ) -> None:
        self._step = step
        self._batches = batches
        self._state = state
        self._workers = workers
        self._reports = reports
        self._hooks = tuple(hooks)
        self._accumulate_steps = accumulate_steps

    def run(self) -> StoppedBy:
        """Trains on, and returns the reason to stop."""
        state, progress = self._state, self._state.progress
        while True:
            if state.restored:
                # It decides whether a batch is drawn.
                like = [self._batches.peek()] * self._accumulate_steps
                state.begin(self._step.start(like), self._workers)
            batches = [
                self._batches.next() if wanted else self._batches.blank()
                for wanted in self._step.wants(state.carry)
            ]
            if state.carry is None:
                state.begin(self._step.start(batches), self._workers)
            report, state.carry = self._step.update(batches, state.carry)
            self._reports.append(report)
            progress.step += 1
            progress.position = self._batches.position
            for hook in self._hooks:
                if hook.due(progress):
                    self._reports.read()
                    stopped_by = hook.after_update(progress)
                    if stopped_by is not None:
                        return stopped_by
            if len(self._reports) >= _MOST_PENDING:
                self._reports.read()
