"""Training a run: its parts, put together.

::

    result = train(Run.create("babi_qa", "ut_base"))  # the same call again resumes
    result.step, result.metrics, result.stopped_by    # after Ctrl-C: a TrainingInterrupted

One loop serves one device, the GPUs of one machine and several machines. All that decides how
training goes on is in each checkpoint: weights, the states of the random generators, the optimizer,
the averages, the position in the data, the best evaluation so far. On a CPU in float32, a run that
was killed at any moment and started again ends with the same bits as one that never was.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from ut_tf.argument_types import checked_types
from ut_tf.config.processor import describe_processor
from ut_tf.data.pipeline import train_batches
from ut_tf.data.problem import Problem
from ut_tf.errors import UserError
from ut_tf.evaluation.evaluator import Evaluator
from ut_tf.evaluation.records import now
from ut_tf.run import Run
from ut_tf.run_config import installed_versions
from ut_tf.run_weights import restore_weights
from ut_tf.storage.checkpoints import CheckpointStore
from ut_tf.storage.disk_errors import readable_disk_errors
from ut_tf.storage.files import remove_leftovers
from ut_tf.storage.layout import (
    CHECKPOINTS_FOLDER,
    CONFIG_FILE,
    EVENTS_FOLDER,
    LOCK_FILE,
    METRICS_FILE,
    PROCESSES_FILE,
    START_LOCK_FILE,
    TRACKER_FILE,
    VOCAB_FOLDER,
    checkpoint_steps,
)
from ut_tf.storage.locks import held_alone
from ut_tf.storage.processes import TrainingProcess, checkout_commit
from ut_tf.training.agreement import check_agreement, data_digest, facts_of
from ut_tf.training.batches import TrainingBatches
from ut_tf.training.curriculum import Curriculum
from ut_tf.training.distribution import (
    Workers,
    check_same_precision,
    describe_devices,
    lost_workers_named,
    make_strategy,
)
from ut_tf.training.hooks.changes import Changes
from ut_tf.training.hooks.first_minute import FirstMinute
from ut_tf.training.hooks.first_update import FirstUpdate
from ut_tf.training.hooks.graph import GraphOfUpdate
from ut_tf.training.hooks.hook import Hook, Schedule, StoppedBy
from ut_tf.training.hooks.logging import Logging
from ut_tf.training.hooks.ponder_watch import PonderWatch
from ut_tf.training.hooks.process_log import ProcessLog, Stopwatch
from ut_tf.training.hooks.stages import Stages
from ut_tf.training.hooks.stopping import LastUpdate, Signal
from ut_tf.training.hooks.validation import Validation
from ut_tf.training.logs import RunLog
from ut_tf.training.loop import TrainingLoop
from ut_tf.training.opening import Beginning, long_training, nothing_to_do, opening_lines
from ut_tf.training.optimizer import Optimizer, make_optimizer
from ut_tf.training.pending_reports import PendingReports
from ut_tf.training.progress import ProgressLine, Speedometer
from ut_tf.training.saver import Saver
from ut_tf.training.signals import StopRequest, unread_output_stops
from ut_tf.training.state import TrainingState
from ut_tf.training.step import TrainingStep
from ut_tf.training.summaries import WrittenExamples, check_views, flat_hparams, trial_name
from ut_tf.training.trackers import check_tracker, make_tracker
from ut_tf.training.train_state import TrainState
from ut_tf.training.warm_start import refuse_other_vocabulary

# Updates after which a mean ponder time that does not move is told.
PONDER_PATIENCE = 1000
_OUT_OF_MEMORY = (MemoryError, tf.errors.ResourceExhaustedError)


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


class TrainingInterrupted(KeyboardInterrupt):
    """Ctrl-C, another signal or output that nobody reads ended a training, which was saved first.

    Args:
      result: how far it came.
      output_dir: the run's directory.
    """

    def __init__(self, result: TrainingResult, output_dir: Path) -> None:
        super().__init__(
            f"training ended at step {result.step}, which is saved in {output_dir}; `train` resumes"
            " from it."
        )
        self.result = result


@checked_types
def train(
    run: Run,
    train_steps: int | None = None,
    num_gpus: int | None = None,
    strategy: Any = None,
    log_frequency: int = 100,
    keep: int | None = None,
    warm_start_from: Run | None = None,
    hooks: Sequence[Hook] = (),
    tensorboard: Collection[str] = (),
    tracker: str | None = None,
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
      hooks: what else happens between updates, after logging and before validation.
      tensorboard: what it shows besides: "examples", "figures", "graph" (``summaries``).
      tracker: "wandb" or "mlflow": where values go, besides TensorBoard and metrics.jsonl; None:
        nowhere else.

    Raises:
      UserError: the loss is not finite (names the step), the disk is full, no checkpoint is intact,
        the data has no batch, or another process trains in the same directory.
      TrainingInterrupted: a KeyboardInterrupt, after Ctrl-C, another signal that ends (``signals``)
        or output that nobody reads any more, once a checkpoint is saved.
    """
    check_views(tensorboard)
    if tracker is not None:
        check_tracker(tracker)
    stopwatch = Stopwatch()
    workers = Workers.of(strategy or make_strategy(num_gpus))
    with (
        _alone(run.output_dir, workers),
        StopRequest() as stop,
        unread_output_stops(stop),
        lost_workers_named(workers),
    ):
        with _withdrawn(run.output_dir, workers, lambda _: True):
            # It was taken back where a training of the same run was refused before.
            run = run.write_where_missing() if workers.is_chief else run
            parts = _make_parts(run, workers, train_steps, keep, warm_start_from)
        process_log = _make_process_log(parts, stopwatch, warm_start_from)
        stopped_by = parts.ended
        if stopped_by is None:
            for line in opening_lines(_beginning(parts)):
                parts.progress.say(line)
            views = _Views(frozenset(tensorboard), tracker)
            with _withdrawn(run.output_dir, workers, partial(_is_refusal, parts.state)):
                stopped_by = _updates(parts, stop, max(log_frequency, 1), hooks, process_log, views)
            # A worker that leaves before the chief has saved would take the chief down with it.
            workers.total(0.0)
            if stopped_by == "signal":
                parts.progress.say(
                    f"stopped at step {parts.state.step} and saved a checkpoint: the same command"
                    " resumes from it."
                )
        else:
            parts.progress.say(nothing_to_do(_beginning(parts), stopped_by))
        if process_log is not None:
            process_log.end(parts.state.step, stopped_by)
    metrics = dict(parts.state.metrics) if workers.is_chief else {}
    result = TrainingResult(parts.state.step, metrics, stopped_by, parts.state.evaluated_step)
    # A signal during the last update counts, too: whoever sent it wants nothing more to begin.
    if stopped_by == "signal" or stop.requested:
        raise TrainingInterrupted(result, run.output_dir)
    return result


@dataclass(frozen=True)
class _Parts:
    """The parts of a training, the same for a new and a resumed one."""

    run: Run
    problem: Problem
    workers: Workers
    train_steps: int
    model: Any
    optimizer: Optimizer
    store: CheckpointStore
    saver: Saver
    train_state: TrainState
    curriculum: Curriculum | None
    evaluator: Evaluator
    progress: ProgressLine

    @property
    def state(self) -> TrainingState:
        """Where training stands."""
        return self.train_state.progress

    @property
    def ended(self) -> StoppedBy | None:
        """Why nothing is left to be trained; None: something is."""
        if self.state.step >= self.train_steps:
            return "train_steps"
        patience = self.run.hparams.training.early_stopping_patience
        return "early_stopping" if self.state.out_of_patience(patience) else None


def _beginning(parts: _Parts) -> Beginning:
    return Beginning(
        parts.run,
        parts.state.step,
        parts.train_steps,
        parts.model.count_params(),
        describe_devices(parts.workers.strategy),
        None if parts.curriculum is None else parts.curriculum.standing,
    )


@dataclass(frozen=True)
class _Views:
    """Where values go besides metrics.jsonl, and what TensorBoard shows besides them."""

    tensorboard: frozenset[str]
    tracker: str | None


def _make_parts(
    run: Run, workers: Workers, train_steps: int | None, keep: int | None, warm_start: Run | None
) -> _Parts:
    training = run.hparams.training
    check_same_precision(workers, training.dtype_policy)
    steps = training.train_steps if train_steps is None else train_steps
    problem = run.make_problem()
    if workers.count > 1:
        digest = data_digest(problem, run.data_dir, run.seed)
        check_agreement(workers, facts_of(run, steps, digest))
    model, optimizer = _make_network(run, workers, warm_start)
    store = CheckpointStore(run.output_dir, keep or training.keep_checkpoint_max)
    train_state = TrainState(model, optimizer)
    saver = Saver(store, train_state, workers)
    state = saver.restore()
    curriculum = _make_curriculum(run, problem, workers, state)
    evaluator = Evaluator(model, problem, run.data_dir, vocab_dir=run.vocab_dir)
    evaluator.check(problem.validation_sets())
    unit = "examples" if problem.spec(run.data_dir).has_one_answer else "tokens"
    progress = ProgressLine(steps, unit, silent=not workers.is_chief)
    return _Parts(
        run,
        problem,
        workers,
        steps,
        model,
        optimizer,
        store,
        saver,
        train_state,
        curriculum,
        evaluator,
        progress,
    )


def _make_network(run: Run, workers: Workers, warm_start: Run | None) -> tuple[Any, Optimizer]:
    """The model, perhaps with the weights of another run, and the optimizer of its weights."""
    keras.utils.set_random_seed(run.seed)
    with workers.strategy.scope():
        model = run.make_model()
        if warm_start is not None:
            refuse_other_vocabulary(warm_start, run)
            restore_weights(model, warm_start)
            # The curriculum begins again, at whose end relaxed weights are to be tied.
            model.tie(False)
        return model, make_optimizer(model.trainable_variables, run.hparams, run.seed)


def _make_curriculum(
    run: Run, problem: Problem, workers: Workers, state: TrainingState
) -> Curriculum | None:
    training = run.hparams.training
    if training.curriculum == "none":
        return None
    curriculum = Curriculum(
        problem, run.data_dir, training, workers.replicas, run.seed, state.curriculum
    )
    if not state.step:
        curriculum.check_start()
    return curriculum


def _updates(
    parts: _Parts,
    stop: StopRequest,
    log_frequency: int,
    hooks: Sequence[Hook],
    process_log: ProcessLog | None,
    views: _Views,
) -> StoppedBy:
    """Trains on, and says why it stopped."""
    run, workers, state = parts.run, parts.workers, parts.state
    with ExitStack() as stack:
        stack.enter_context(readable_disk_errors(run.output_dir))
        stack.callback(parts.progress.finish)
        log = _make_log(run, state, views) if workers.is_chief else None
        if log is not None:
            stack.callback(log.close)
        batches = TrainingBatches(_make_datasets(parts), workers, state.position)
        stack.callback(batches.close)
        step = TrainingStep(
            parts.model, parts.optimizer, run.hparams, workers, batches.element_spec, run.seed
        )
        speedometer = Speedometer()
        reports = PendingReports(
            step, state, parts.optimizer.scale is not None, parts.store, speedometer
        )
        logging: list[Hook] = [
            FirstUpdate(state.step + 1, log_frequency, parts.progress, speedometer),
            _first_minute(parts, log_frequency, speedometer),
            *_stages(parts, batches, step),
            *_ponder_watch(parts, log_frequency),
            Changes(parts.model.changes(), parts.progress),
            _logging(parts, log, log_frequency, speedometer),
        ]
        if "graph" in views.tensorboard:
            logging.append(GraphOfUpdate(state.step + 1, step, log))
        endings: list[Hook] = [
            _validation(parts, log, speedometer, views),
            *([] if process_log is None else [process_log]),
            LastUpdate(parts.train_steps),
            Signal(stop, parts.saver, workers),
        ]
        ended = TrainingLoop(
            step,
            batches,
            parts.train_state,
            workers,
            reports,
            [*logging, *hooks, *endings],
            run.hparams.training.accumulate_steps,
        ).run()
        # A hook of the user's own may have ended it without a checkpoint.
        parts.saver.save(state)
        return ended


def _make_process_log(
    parts: _Parts, stopwatch: Stopwatch, warm_start: Run | None
) -> ProcessLog | None:
    """Keeps what trains the run; None on workers that are not the chief."""
    if not parts.workers.is_chief:
        return None
    process = TrainingProcess(
        now(),
        parts.state.step,
        parts.train_steps,
        processor=describe_processor(),
        devices=describe_devices(parts.workers.strategy).partition(" (")[0],
        versions=installed_versions(),
        commit=checkout_commit(),
        selection=dict(zip(("metric", "direction"), parts.problem.selection_metric, strict=True)),
        warm_start_from=None if warm_start is None else str(warm_start.output_dir),
    )
    schedule = Schedule(parts.run.hparams.training.eval_frequency, parts.train_steps)
    return ProcessLog(parts.run.output_dir, process, stopwatch, schedule)


def _make_log(run: Run, state: TrainingState, views: _Views) -> RunLog:
    tracker = None if views.tracker is None else make_tracker(views.tracker, run)
    log = RunLog(run.output_dir, state.step, tracker)
    if not state.step:
        log.hparams(trial_name(run), flat_hparams(run))
    return log


def _make_datasets(parts: _Parts) -> Callable[[int, int], Any]:
    """(epoch, batches to skip) -> the global batches."""
    if parts.curriculum is not None:
        return parts.curriculum.make_dataset()
    run = parts.run
    training, replicas = run.hparams.training, parts.workers.replicas
    return partial(train_batches, parts.problem, run.data_dir, training, replicas, run.seed)


def _stages(parts: _Parts, batches: TrainingBatches, step: TrainingStep) -> list[Hook]:
    if parts.curriculum is None or step.judge is None:
        return []
    return [Stages(parts.curriculum, batches, step.judge, parts.model, parts.progress)]


def _ponder_watch(parts: _Parts, frequency: int) -> list[Hook]:
    """Where there is halting that a hyperparameter could move."""
    model = parts.model
    remedies = model.ponder_remedy(few=True), model.ponder_remedy(few=False)
    if model.ponder_weight is None or None in remedies:
        return []
    schedule, max_steps = Schedule(frequency, parts.train_steps), model.max_steps(training=True)
    return [PonderWatch(schedule, remedies, max_steps, parts.progress, PONDER_PATIENCE)]


def _first_minute(parts: _Parts, frequency: int, speedometer: Speedometer) -> Hook:
    return FirstMinute(
        parts.state.step + 1,
        Schedule(frequency, parts.train_steps),
        parts.progress,
        speedometer,
        parts.workers.count == 1,
        partial(long_training, parts.run),
    )


def _logging(parts: _Parts, log: RunLog | None, frequency: int, speedometer: Speedometer) -> Hook:
    schedule = Schedule(frequency, parts.train_steps)
    return Logging(schedule, log, parts.progress, speedometer, parts.curriculum)


def _validation(parts: _Parts, log: RunLog | None, speedometer: Speedometer, views: _Views) -> Hook:
    training = parts.run.hparams.training
    shows_examples = log is not None and "examples" in views.tensorboard
    return Validation(
        Schedule(training.eval_frequency, parts.train_steps),
        parts.problem,
        parts.evaluator,
        parts.saver,
        log,
        parts.progress,
        speedometer,
        parts.workers,
        training.early_stopping_patience,
        WrittenExamples(parts.model, parts.problem, parts.run) if shows_examples else None,
        "figures" in views.tensorboard,
    )


@contextmanager
def _alone(output_dir: Path, workers: Workers) -> Iterator[None]:
    """Within the context no other process trains in the directory; the chief holds its lock."""
    if not workers.is_chief:
        yield
        return
    with ExitStack() as stack:
        with readable_disk_errors(output_dir):
            stack.enter_context(held_alone(output_dir))
            remove_leftovers(output_dir, METRICS_FILE, PROCESSES_FILE, TRACKER_FILE)
        yield


@contextmanager
def _withdrawn(
    output_dir: Path, workers: Workers, is_refusal: Callable[[Exception], bool]
) -> Iterator[None]:
    """Takes back the directory of a run that is refused, unless it has a checkpoint.

    What cannot be trained is known late: the model says it, once it knows the data, or at the first
    update, as the memory does. Without config.json the directory is free for another run.
    """
    try:
        yield
    except Exception as error:
        if workers.is_chief and is_refusal(error) and not checkpoint_steps(output_dir):
            _withdraw(output_dir)
        raise


def _is_refusal(state: TrainingState, error: Exception) -> bool:
    """Whether a run cannot be trained: a user's mistake before update 1 ended, or the memory."""
    return isinstance(error, _OUT_OF_MEMORY) or (isinstance(error, UserError) and not state.step)


def _withdraw(output_dir: Path) -> None:
    """Removes what a run without checkpoints has written, but for logs of updates."""
    with suppress(OSError):
        if not (output_dir / METRICS_FILE).exists():
            shutil.rmtree(output_dir / EVENTS_FOLDER, ignore_errors=True)
        for name in (CONFIG_FILE, LOCK_FILE, START_LOCK_FILE):
            (output_dir / name).unlink(missing_ok=True)
        shutil.rmtree(output_dir / VOCAB_FOLDER, ignore_errors=True)
        with suppress(OSError):
            (output_dir / CHECKPOINTS_FOLDER).rmdir()
        output_dir.rmdir()
