"""Training a run: its parts, put together.

::

    result = train(Run.create("babi_qa", "ut_base"))  # the same call again resumes
    result.step, result.metrics, result.stopped_by    # after Ctrl-C: a TrainingInterrupted

One loop serves one device, the GPUs of one machine and several machines. All that decides how
training goes on is in each checkpoint: weights, the states of the random generators, the optimizer,
the averages, the position in the data, the best evaluation so far. On a CPU in float32, a run that
was killed at any moment and started again ends with the same bits as one that never was.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ut_tf.argument_types import check_types
from ut_tf.config.processor import describe_processor
from ut_tf.data.pipeline import train_batches
from ut_tf.evaluation.records import now
from ut_tf.run import Run
from ut_tf.run_config import installed_versions
from ut_tf.storage.disk_errors import disk_errors
from ut_tf.storage.model_folder import refuse_training
from ut_tf.storage.processes import TrainingProcess, checkout_commit
from ut_tf.training.batches import TrainingBatches
from ut_tf.training.directory import alone, is_refusal, withdrawn
from ut_tf.training.distribution import Workers, describe_devices, lost_workers_named, make_strategy
from ut_tf.training.hooks.changes import Changes
from ut_tf.training.hooks.first_minute import FirstMinute
from ut_tf.training.hooks.first_update import FirstUpdate
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
from ut_tf.training.parts import TrainingParts
from ut_tf.training.pending_reports import PendingReports
from ut_tf.training.progress import Speedometer
from ut_tf.training.signals import StopRequest, unread_output_stops
from ut_tf.training.state_values import TrainingState
from ut_tf.training.step import TrainingStep
from ut_tf.training.summaries import flat_hparams, trial_name

# Updates after which a mean ponder time that does not move is told.
PONDER_PATIENCE = 1000


@dataclass(frozen=True)
class TrainingResult:
    """The end of a training.

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


def train(
    run: Run,
    train_steps: int | None = None,
    num_gpus: int | None = None,
    strategy: Any = None,
    log_frequency: int = 100,
    keep: int | None = None,
    warm_start_from: Run | None = None,
    hooks: Sequence[Hook] = (),
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

    Raises:
      UserError: the loss is not finite (names the step), the disk is full, no checkpoint is intact,
        the data has no batch, or another process trains in the same directory.
      TrainingInterrupted: a KeyboardInterrupt, after Ctrl-C, another signal that ends (``signals``)
        or output that nobody reads any more, once a checkpoint is saved.
    """
    check_types(train, locals())
    refuse_training(run.output_dir)
    stopwatch = Stopwatch()
    workers = Workers.of(strategy or make_strategy(num_gpus))
    with (
        alone(run.output_dir, workers),
        StopRequest() as stop,
        unread_output_stops(stop),
        lost_workers_named(workers),
    ):
        with withdrawn(run.output_dir, workers, lambda _: True):
            # It was taken back where a training of the same run was refused before.
            run = run.write_where_missing() if workers.is_chief else run
            parts = TrainingParts.of(run, workers, train_steps, keep, warm_start_from)
        process_log = _make_process_log(parts, stopwatch, warm_start_from)
        stopped_by = parts.ended
        if stopped_by is None:
            for line in opening_lines(_beginning(parts)):
                parts.progress.say(line)
            with withdrawn(run.output_dir, workers, partial(is_refusal, parts.state)):
                frequency = max(log_frequency, 1)
                with _made_loop(parts, stop, frequency, hooks, process_log) as loop:
                    stopped_by = loop.run()
                    # A hook of the user's own may have ended it without a checkpoint.
                    parts.saver.save(parts.state)
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


def _beginning(parts: TrainingParts) -> Beginning:
    return Beginning(
        parts.run,
        parts.state.step,
        parts.train_steps,
        parts.model.count_params(),
        describe_devices(parts.workers.strategy),
        None if parts.curriculum is None else parts.curriculum.description,
    )


@contextmanager
def _made_loop(
    parts: TrainingParts,
    stop: StopRequest,
    log_frequency: int,
    hooks: Sequence[Hook],
    process_log: ProcessLog | None,
) -> Iterator[TrainingLoop]:
    """Makes the loop of the updates; closes its log and its batches at the context's end."""
    run, workers, state = parts.run, parts.workers, parts.state
    with ExitStack() as stack:
        stack.enter_context(disk_errors(run.output_dir))
        stack.callback(parts.progress.finish)
        log = _make_log(run, state) if workers.is_chief else None
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
        schedule = Schedule(log_frequency, parts.train_steps)
        logging: list[Hook] = [
            FirstUpdate(state.step + 1, log_frequency, parts.progress, speedometer),
            FirstMinute(
                state.step + 1,
                schedule,
                parts.progress,
                speedometer,
                workers.count == 1,
                partial(long_training, run),
            ),
            *_stages(parts, batches, step),
            *_ponder_watch(parts, schedule),
            Changes(parts.model.changes(), parts.progress),
            Logging(schedule, log, parts.progress, speedometer, parts.curriculum),
        ]
        endings: list[Hook] = [
            _validation(parts, log, speedometer),
            *([] if process_log is None else [process_log]),
            LastUpdate(parts.train_steps),
            Signal(stop, parts.saver, workers),
        ]
        yield TrainingLoop(
            step,
            batches,
            parts.train_state,
            workers,
            reports,
            [*logging, *hooks, *endings],
            run.hparams.training.accumulate_steps,
        )


def _make_process_log(
    parts: TrainingParts, stopwatch: Stopwatch, warm_start: Run | None
) -> ProcessLog | None:
    """Returns the log of the run's training processes; None on workers that are not the chief."""
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


def _make_log(run: Run, state: TrainingState) -> RunLog:
    log = RunLog(run.output_dir, state.step)
    if not state.step:
        log.hparams(trial_name(run), flat_hparams(run))
    return log


def _make_datasets(parts: TrainingParts) -> Callable[[int, int], Any]:
    """(epoch, batches to skip) -> the global batches."""
    if parts.curriculum is not None:
        return parts.curriculum.make_dataset()
    run = parts.run
    training, replicas = run.hparams.training, parts.workers.replicas
    return partial(train_batches, parts.problem, run.data_dir, training, replicas, run.seed)


def _stages(parts: TrainingParts, batches: TrainingBatches, step: TrainingStep) -> list[Hook]:
    if parts.curriculum is None or step.judge is None:
        return []
    return [Stages(parts.curriculum, batches, step.judge, parts.model, parts.progress)]


def _ponder_watch(parts: TrainingParts, schedule: Schedule) -> list[Hook]:
    """Returns the hook that watches ponder times, if a hyperparameter could move them."""
    model = parts.model
    remedies = model.ponder_remedy(few=True), model.ponder_remedy(few=False)
    if model.ponder_weight is None or None in remedies:
        return []
    max_steps = model.max_steps(training=True)
    return [PonderWatch(schedule, remedies, max_steps, parts.progress, PONDER_PATIENCE)]


def _validation(parts: TrainingParts, log: RunLog | None, speedometer: Speedometer) -> Hook:
    training = parts.run.hparams.training
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
    )
