"""The training loop: from a Run to checkpoints, logs and metrics.

How it is used::

    # the same call again resumes, or says that all steps are done
    result = train(Run.create("babi_qa", "ut_base"))
    result.step, result.metrics, result.stopped_by

How it works: one loop for one device, for the GPUs of one machine and for several machines. All
that decides how training goes on is in each checkpoint: weights, the states of the random
generators, the optimizer, the averages, the position in the data, the best evaluation so far. On a
CPU in float32, a run that was killed at any moment and started again ends with the same bits as one
that never was.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import keras
import tensorflow as tf

from ut_tf.data.pipeline import train_batches
from ut_tf.errors import UserError
from ut_tf.evaluation.evaluator import Evaluator
from ut_tf.run import Run
from ut_tf.run_weights import restore_weights
from ut_tf.storage import checkpoints
from ut_tf.storage.disk_errors import readable_disk_errors
from ut_tf.storage.layout import (
    CHECKPOINTS_FOLDER,
    CONFIG_FILE,
    EVENTS_FOLDER,
    LOCK_FILE,
    METRICS_FILE,
    VOCAB_FOLDER,
)
from ut_tf.storage.locks import held_alone
from ut_tf.training.batches import TrainingBatches
from ut_tf.training.checkpoint import training_checkpoint
from ut_tf.training.curriculum import CHECK_FREQUENCY, Curriculum
from ut_tf.training.distribution import Workers, describe_devices, make_strategy
from ut_tf.training.logs import RunLog
from ut_tf.training.optimizer import Optimizer
from ut_tf.training.progress import ProgressLine
from ut_tf.training.signals import StopRequest
from ut_tf.training.state import TrainingState, Window
from ut_tf.training.step import StepReport, TrainingStep
from ut_tf.training.warm_start import refuse_other_vocabulary

StoppedBy = Literal["train_steps", "early_stopping", "signal"]

# Reports wait on the device until a log point, but no more of them than this.
_MOST_PENDING = 100
# Several workers ask each other this often (in updates) whether one of them was told to stop.
_STOP_CHECK_FREQUENCY = 10
# What a checkpoint holds besides the numbers, about.
_INDEX_BYTES = 50_000
_SMALLEST_LOSS_SCALE = 2.0**-14


@dataclass(frozen=True)
class TrainingResult:
    """How a training ended.

    Args:
      step: updates so far, those of earlier processes included.
      metrics: of the last evaluation on the validation sets (of the chief; empty on the other
        workers).
      stopped_by: "train_steps", "early_stopping" or "signal".
      evaluated_step: step of that evaluation; 0: there was none.
    """

    step: int
    metrics: dict[str, float]
    stopped_by: StoppedBy
    evaluated_step: int = 0


def train(
    run: Run,
    train_steps: int | None = None,
    num_gpus: int | None = None,
    strategy: Any = None,
    log_frequency: int = 100,
    keep: int | None = None,
    warm_start_from: Run | None = None,
) -> TrainingResult:
    """Trains a run to `train_steps`, from its last checkpoint if it has one.

    Args:
      run: with prepared data.
      train_steps: updates in all; None: what the hyperparameters say.
      num_gpus: GPUs of this machine to use; None: all; ignored where a strategy is given.
      strategy: tf.distribute strategy to train under; None: ``make_strategy(num_gpus)``.
      log_frequency: updates between log points.
      keep: latest checkpoints to keep; None: keep_checkpoint_max.
      warm_start_from: run whose best weights a new run begins with; a run that has a checkpoint of
        its own goes on from that.

    Raises:
      UserError: the loss is not finite (names the step), the disk is full, no checkpoint is intact,
        the data has no batch, or another process trains in the same directory.
    """
    strategy = strategy or make_strategy(num_gpus)
    with ExitStack() as stack:
        if Workers.of(strategy).is_chief:
            with readable_disk_errors(run.output_dir):
                stack.enter_context(held_alone(run.output_dir))
        stop = stack.enter_context(StopRequest())
        try:
            trainer = _Trainer(run, train_steps, strategy, log_frequency, keep, warm_start_from)
        except UserError:
            if Workers.of(strategy).is_chief:
                _withdraw(run.output_dir)
            raise
        return trainer.run(stop)


def _withdraw(output_dir: Path) -> None:
    """Takes back the directory of a run that cannot be trained, as its model says once it knows the
    data; not where training has begun.
    """
    if any(
        (output_dir / name).exists() for name in (CHECKPOINTS_FOLDER, METRICS_FILE, EVENTS_FOLDER)
    ):
        return
    with suppress(OSError):
        for name in (CONFIG_FILE, LOCK_FILE):
            (output_dir / name).unlink(missing_ok=True)
        shutil.rmtree(output_dir / VOCAB_FOLDER, ignore_errors=True)
        output_dir.rmdir()


class _Trainer:
    def __init__(
        self,
        run: Run,
        train_steps: int | None,
        strategy: Any,
        log_frequency: int,
        keep: int | None,
        warm_start_from: Run | None,
    ) -> None:
        training = run.hparams.training
        self._run = run
        self._train_steps = training.train_steps if train_steps is None else train_steps
        self._log_frequency = max(log_frequency, 1)
        self._workers = Workers.of(strategy)
        self._problem = run.make_problem()
        keras.utils.set_random_seed(run.seed)
        with strategy.scope():
            self._model = run.make_model()
            if warm_start_from is not None:
                refuse_other_vocabulary(warm_start_from, run)
                restore_weights(self._model, warm_start_from)
                if run.hparams.network.relaxed_sets > 1:
                    # A curriculum begins anew, at whose end they are to be tied.
                    self._model.tie(False)
            self._optimizer = Optimizer(
                self._model.trainable_variables, training, run.hparams.network.hidden_size, run.seed
            )
        self._checkpoint = training_checkpoint(self._model, self._optimizer)
        self._store = checkpoints.CheckpointStore(
            run.output_dir, keep or training.keep_checkpoint_max
        )
        self._evaluator = Evaluator(
            self._model, self._problem, run.data_dir, vocab_dir=run.vocab_dir
        )
        self._pending: list[Any] = []
        self._saved_step = -1
        self._state = self._restore()
        self._curriculum = self._make_curriculum()
        targets = self._problem.spec(run.data_dir).targets
        unit = "tokens" if targets == "tokens" else "examples"
        self._progress = ProgressLine(self._train_steps, unit)

    def run(self, stop: StopRequest) -> TrainingResult:
        ended = self._already_ended()
        if ended is not None:
            self._say(
                f"{self._run.output_dir}: training has already ended at step {self._state.step}"
                f" ({ended})."
            )
            return self._result(ended)
        self._warn_of_rate_zero()
        parameters = self._model.count_params()
        devices = describe_devices(self._workers.strategy)
        self._say(f"training {self._run.hparams.model} ({parameters:,} parameters) on {devices}")
        if self._state.step:
            self._say(
                f"resuming from step {self._state.step}, {self._store.path(self._state.step)}"
            )
        if self._curriculum is not None:
            standing = self._curriculum.standing
            self._say(
                f"step {self._state.step}: {standing}"
                if self._state.step
                else f"curriculum: {standing} to begin with"
            )
        log = self._make_log()
        with readable_disk_errors(self._run.output_dir):
            try:
                ended = self._loop(stop, log)
            finally:
                self._progress.finish()
                if log is not None:
                    log.close()
        # A worker that leaves before the chief has saved would take the chief down with it.
        self._workers.total(0.0)
        if ended == "signal":
            self._say(
                f"stopped at step {self._state.step}; a checkpoint is saved: the same command goes"
                " on from there."
            )
        return self._result(ended)

    def _warn_of_rate_zero(self) -> None:
        training = self._run.hparams.training
        decay_steps = training.decay_steps or training.train_steps
        if training.schedule == "cosine" and self._train_steps > decay_steps:
            self._say(
                f"warning: train_steps={self._train_steps} is above decay_steps={decay_steps}, from"
                " which on the cosine schedule's learning rate is 0 and nothing is learned: give"
                f" --hparams=decay_steps={self._train_steps}, in another output_dir if this one has"
                " a checkpoint."
            )

    def _loop(self, stop: StopRequest, log: RunLog | None) -> StoppedBy:
        make_dataset = (
            self._make_dataset if self._curriculum is None else self._curriculum.make_dataset()
        )
        batches = TrainingBatches(make_dataset, self._workers, self._state.position)
        step = TrainingStep(
            self._model, self._optimizer, self._run.hparams, self._workers, batches.element_spec
        )
        self._settle(step)
        try:
            return self._updates(stop, log, batches, step)
        finally:
            batches.close()

    def _updates(
        self, stop: StopRequest, log: RunLog | None, batches: TrainingBatches, step: TrainingStep
    ) -> StoppedBy:
        training = self._run.hparams.training
        first_step, began = self._state.step + 1, time.monotonic()
        self._start_clock()
        while True:
            self._pending.append(
                step.update([batches.next() for _ in range(training.accumulate_steps)])
            )
            self._state.step += 1
            self._state.position = batches.position
            if self._state.step == first_step:
                # The first update includes the tracing: speeds are measured from here.
                self._drain(step)
                self._progress.start(first_step)
                seconds = time.monotonic() - began
                self._say(
                    f"step {first_step} took {seconds:.0f} s, most of it for the graph; a line"
                    f" every {self._log_frequency} steps"
                )
                self._start_clock()
            if self._curriculum is not None and self._state.step % CHECK_FREQUENCY == 0:
                self._drain(step)
                self._advance(self._curriculum, batches, step)
            last = self._state.step >= self._train_steps
            if last or self._state.step % self._log_frequency == 0:
                self._drain(step)
                self._log_point(log)
            if last or self._state.step % training.eval_frequency == 0:
                self._drain(step)
                if self._evaluate(log):
                    return "early_stopping"
            if last:
                return "train_steps"
            if self._told_to_stop(stop):
                self._drain(step)
                self._save()
                return "signal"
            if len(self._pending) >= _MOST_PENDING:
                self._drain(step)

    def _make_dataset(self, epoch: int, skip_batches: int) -> Any:
        run = self._run
        return train_batches(
            self._problem,
            run.data_dir,
            run.hparams.training,
            self._workers.replicas,
            run.seed,
            epoch,
            skip_batches,
        )

    def _make_curriculum(self) -> Curriculum | None:
        run = self._run
        if run.hparams.training.curriculum == "none":
            return None
        data = (self._problem, run.data_dir, run.hparams.training)
        curriculum = Curriculum(*data, self._workers.replicas, run.seed, self._state.curriculum)
        if not self._state.step:
            curriculum.check_start()
        return curriculum

    def _settle(self, step: TrainingStep) -> None:
        if self._curriculum is not None and step.judge is not None:
            step.judge.settle(self._curriculum.judged_above, self._curriculum.pull)

    def _advance(
        self, curriculum: Curriculum, batches: TrainingBatches, step: TrainingStep
    ) -> None:
        """Goes on to the curriculum's next stage, or to its end, where the answers allow it."""
        if not curriculum.advance():
            return
        if self._state.curriculum.ended and self._run.hparams.network.relaxed_sets > 1:
            self._model.tie()
        self._settle(step)
        batches.restart(curriculum.make_dataset())
        self._state.position = batches.position
        self._say(f"step {self._state.step}: {curriculum.standing}")

    def _drain(self, step: TrainingStep) -> None:
        """Fetches the pending reports; raises UserError for the first update whose loss or gradient
        was not finite.
        """
        first = self._state.step - len(self._pending) + 1
        reports = step.read(self._pending)
        self._pending = []
        for number, report in enumerate(reports, first):
            self._check(number, report)
            self._state.window.add(report)
            self._state.curriculum.add(report.right, report.judged)
            self._clock_tokens += report.tokens

    def _check(self, step: int, report: StepReport) -> None:
        scaled = self._optimizer.scale is not None
        finite = math.isfinite(report.loss) and (scaled or math.isfinite(report.gradient_norm))
        if finite and (not scaled or report.loss_scale >= _SMALLEST_LOSS_SCALE):
            return
        found = (
            f"the loss is {report.loss}"
            if not math.isfinite(report.loss)
            else "the gradient is not finite"
        )
        kept = self._store.steps()
        rest = (
            f"the last checkpoint, of step {kept[-1]}, is from before"
            if kept
            else "there is no checkpoint yet"
        )
        raise UserError(
            f"{found} at step {step} (learning rate {report.learning_rate:.3g}), expected a finite"
            " number: lower learning_rate, raise warmup_steps or set clip_norm, and start anew in"
            f" another output_dir; {rest}."
        )

    def _log_point(self, log: RunLog | None) -> None:
        window = self._state.window
        speed = self._clock_tokens / max(time.monotonic() - self._clock_started, 1e-9)
        if log is not None and window.steps:
            stage = (
                {}
                if self._curriculum is None
                else {"curriculum_length": float(self._curriculum.longest)}
            )
            values = {**window.values(), **stage, **({"tokens_per_second": speed} if speed else {})}
            log.train(self._state.step, values, window.histogram)
            self._progress.show(
                self._state.step, values["loss"], window.learning_rate, speed, window.ponder_time
            )
        self._state.window = Window()
        self._start_clock()

    def _evaluate(self, log: RunLog | None) -> bool:
        """Evaluates and saves on the chief; returns whether all workers are to stop early."""
        began = time.monotonic()
        if log is not None:
            with self._averaged_weights():
                metrics = self._evaluator.evaluate(self._problem.validation_sets())
            name, direction = self._problem.selection_metric
            if name not in metrics:
                known = ", ".join(sorted(metrics))
                raise UserError(
                    f"problem {self._run.problem}: its selection_metric {name!r} is not among what"
                    f" was measured: {known}."
                )
            self._state.metrics, self._state.evaluated_step = metrics, self._state.step
            self._state.judge(metrics[name], direction)
            # Logged first: a run that is killed in between drops the line again, and does not miss
            # it.
            log.evaluation(self._state.step, metrics)
            self._save()
            best = " (best so far)" if self._state.best_step == self._state.step else ""
            self._progress.say(
                f"step {self._state.step} validation: "
                + "  ".join(f"{key} {metrics[key]:.4g}" for key in metrics)
                + best
            )
        self._clock_started += time.monotonic() - began
        return self._workers.total(float(log is not None and self._out_of_patience())) > 0

    def _out_of_patience(self) -> bool:
        patience = self._run.hparams.training.early_stopping_patience
        return patience > 0 and self._state.bad_evaluations >= patience

    @contextmanager
    def _averaged_weights(self) -> Iterator[None]:
        """Within the context the model has the averages of its weights, where they are kept."""
        weights, averages = self._model.trainable_variables, self._optimizer.averages
        if not averages:
            yield
            return
        kept = [tf.identity(weight.value) for weight in weights]
        for weight, average in zip(weights, averages, strict=True):
            weight.value.assign(tf.identity(average))
        try:
            yield
        finally:
            for weight, value in zip(weights, kept, strict=True):
                weight.value.assign(value)

    def _save(self) -> None:
        if not self._workers.is_chief or self._saved_step == self._state.step:
            return
        state = {**self._state.to_dict(), "averaged": bool(self._optimizer.averages)}
        weights = sum(math.prod(weight.shape) for weight in self._model.trainable_variables)
        needed_bytes = 4 * weights * (4 if self._optimizer.averages else 3) + _INDEX_BYTES
        self._store.save(self._state.step, self._checkpoint, state, needed_bytes)
        self._saved_step = self._state.step

    def _restore(self) -> TrainingState:
        if self._workers.is_chief:
            self._store.remove_leftovers()
        directory = self._store.newest_intact()
        state = TrainingState()
        if directory is not None:
            values = checkpoints.read_state(directory)
            if "averaged_steps" in values:
                steps = ", ".join(map(str, values["averaged_steps"]))
                raise UserError(
                    f"{directory} is the mean of the checkpoints of steps {steps}, which cannot be"
                    " trained on: train in the run that they are from, or begin another with"
                    f" --warm_start_from={self._run.output_dir}."
                )
            checkpoints.restore(directory, self._checkpoint)
            state = TrainingState.from_dict(values)
        if self._workers.total(float(state.step)) != state.step * self._workers.count:
            raise UserError(
                f"output_dir={self._run.output_dir}: the workers find different checkpoints there;"
                " give one that all can see."
            )
        if self._workers.is_chief and directory is not None:
            self._take_over(state)
        self._saved_step = state.step
        return state

    def _take_over(self, state: TrainingState) -> None:
        """Makes the directory what it was when `state` was saved: damaged newer checkpoints aside,
        the best one marked.
        """
        self._store.set_aside_newer(state.step)
        if state.best_step is not None and not self._store.path(state.best_step).is_dir():
            state.best_step, state.best_value = None, None
        self._store.mark_best(state.best_step)
        self._store.prune(state.best_step)

    def _already_ended(self) -> StoppedBy | None:
        if self._state.step >= self._train_steps:
            return "train_steps"
        return "early_stopping" if self._out_of_patience() else None

    def _told_to_stop(self, stop: StopRequest) -> bool:
        if self._workers.count == 1:
            return stop.requested
        return (
            self._state.step % _STOP_CHECK_FREQUENCY == 0
            and self._workers.total(float(stop.requested)) > 0
        )

    def _make_log(self) -> RunLog | None:
        return RunLog(self._run.output_dir, self._state.step) if self._workers.is_chief else None

    def _start_clock(self) -> None:
        self._clock_started = time.monotonic()
        self._clock_tokens = 0.0

    def _say(self, text: str) -> None:
        if self._workers.is_chief:
            self._progress.say(text)

    def _result(self, stopped_by: StoppedBy) -> TrainingResult:
        metrics = dict(self._state.metrics) if self._workers.is_chief else {}
        return TrainingResult(self._state.step, metrics, stopped_by, self._state.evaluated_step)
