"""Validation: evaluates, saves a checkpoint, and stops early."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ut_tf.data.problem import Problem
from ut_tf.errors import UserError
from ut_tf.evaluation.evaluator import Evaluator
from ut_tf.evaluation.metric_names import telling
from ut_tf.evaluation.validations import diverging
from ut_tf.training.distribution import Workers
from ut_tf.training.hooks.hook import Hook, Schedule, StoppedBy
from ut_tf.training.logs import RunLog
from ut_tf.training.progress import ProgressLine, Speedometer
from ut_tf.training.saver import Saver
from ut_tf.training.state_values import TrainingState


@dataclass(frozen=True)
class Validation(Hook):
    """Evaluates and saves on the chief; all workers stop early together.

    Args:
      schedule: after which updates.
      problem: whose validation sets are judged, by its selection_metric.
      evaluator: of the model that is trained.
      saver: saves a checkpoint, and gives the model its averaged weights.
      log: where the metrics go; None on workers that are not the chief.
      progress: the line that shows how training goes.
      speedometer: does not count the time that this takes.
      workers: agree on when to stop.
      patience: evaluations without a better one before training stops; 0: it does not.
    """

    schedule: Schedule
    problem: Problem
    evaluator: Evaluator
    saver: Saver
    log: RunLog | None
    progress: ProgressLine
    speedometer: Speedometer
    workers: Workers
    patience: int

    def due(self, state: TrainingState) -> bool:
        return self.schedule(state.step)

    def after_update(self, state: TrainingState) -> StoppedBy | None:
        with self.speedometer.paused():
            if self.log is not None:
                self._judge(state, self.log)
        stops = self.log is not None and state.out_of_patience(self.patience)
        return "early_stopping" if self.workers.total(float(stops)) > 0 else None

    def _judge(self, state: TrainingState, log: RunLog) -> None:
        with self.saver.optimizer.averaged_weights():
            metrics = self.evaluator.evaluate(self.problem.validation_sets())
        name, direction = self.problem.selection_metric
        if name not in metrics:
            raise UserError(
                f"problem {self.problem.name}: its selection_metric {name!r} is not among what was"
                f" measured: {', '.join(sorted(metrics))}."
            )
        state.metrics, state.evaluated_step = metrics, state.step
        diverged = diverging(metrics)
        loss = next(iter(diverged.values()), metrics.get("loss"))
        state.judge(metrics[name], direction, loss)
        # Logged first: a run that is killed in between drops the line again, and does not miss it.
        log.evaluation(state.step, metrics)
        self.saver.save(state)
        best = " (best so far)" if state.best_step == state.step else ""
        self.progress.say(
            f"step {state.step} validation: "
            + "  ".join(f"{key} {value:.4g}" for key, value in telling(metrics).items())
            + best
        )
        if not math.isfinite(metrics[name]):
            diverged[name] = metrics[name]
        if diverged:
            self.progress.say(_divergence(state, diverged))


def _divergence(state: TrainingState, diverged: Mapping[str, float]) -> str:
    values = ", ".join(f"{name} is {value}" for name, value in diverged.items())
    best = "none is" if state.best_step is None else f"that of step {state.best_step} stays"
    return (
        f"warning: at step {state.step} the model has diverged on the validation data ({values},"
        f" expected finite numbers): its checkpoint does not count as the best, {best}; if it stays"
        " so, lower learning_rate, raise warmup_steps or set clip_norm in another run."
    )
