"""Records made from run directories.

::

    records = records_of(run, table, RecordingOptions(row="UT"), commands)

Only JSON is read: no TensorFlow is imported.
"""

import hashlib
import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Protocol

from ut_tf import registry
from ut_tf.errors import UserError
from ut_tf.evaluation.records import Record, latest_of_best
from ut_tf.run_config import read_values
from ut_tf.storage.processes import TrainingProcess, minutes_until, read_processes
from ut_tf.tables.finished import check_finished, check_selected
from ut_tf.tables.layout import Table
from ut_tf.tables.record import ResultRecord
from ut_tf.tables.runs import FoundRun
from ut_tf.tables.summary import headline

_UNNOTED_VERSION = "0.4.0"


class Commands(Protocol):
    """How runs are trained and evaluated, as a user would type it."""

    def training(self, config: dict[str, Any], train_steps: int | None, warm_start: str) -> str:
        """The command that trains a run.

        Args:
          config: the values of its config.json, files by their names alone.
          train_steps: updates, where they are other than the set's; otherwise None.
          warm_start: name of the run directory that its first weights came from; empty: none.
        """

    def evaluation(self, config: dict[str, Any], evaluation: Record) -> str:
        """The command that evaluates it like this."""


@dataclass(frozen=True)
class RecordingOptions:
    """What a user says of a run.

    Args:
      row: what the table calls it; empty: what the model is.
      metrics: figures to keep; empty: those of the table, or the headline where it has no layout.
      note: what is other than in the published benchmark; empty: what ut-eval said.
    """

    row: str = ""
    metrics: tuple[str, ...] = ()
    note: str = ""


def records_of(
    run: FoundRun, table: Table, options: RecordingOptions, commands: Commands
) -> list[ResultRecord]:
    """A record for each figure of a finished run that belongs into a table.

    Raises:
      UserError: the run is not finished or not evaluated, validation did not choose its checkpoint,
        it has none of the figures, or one that the table shows is not finite.
    """
    check_finished(run.folder)
    if not run.records:
        raise UserError(f"{run.folder} was not evaluated: evaluate it with ut-eval first.")
    facts = _facts(run, commands)
    records = []
    for evaluation in latest_of_best(run.records):
        for metric, paper in _metrics(run, evaluation, table, options).items():
            check_selected(run.folder, evaluation)
            records.append(_record(run, evaluation, metric, paper, table, options, facts))
    _check_all_kept(run, records, table, options)
    # Of the same figure measured twice, on other lengths too, the last counts.
    return list({record.key: record for record in records}.values())


def _check_all_kept(
    run: FoundRun, records: Iterable[ResultRecord], table: Table, options: RecordingOptions
) -> None:
    """Raises UserError where a run lacks a figure that the user named, or has none at all."""
    kept = {record.metric for record in records}
    missing = [name for name in options.metrics if name not in kept]
    if missing and kept:
        raise UserError(
            f"{run.folder} has no finite figure {', '.join(missing)}: evaluate it for them, or name"
            " others."
        )
    if not kept:
        wanted = options.metrics or [name for item in table.figures for name in item.metrics]
        raise UserError(
            f"{run.folder} has none of the figures {', '.join(wanted)}: evaluate it for them, or"
            " name others."
        )


@dataclass(frozen=True)
class _Facts:
    """What is known of a run's training."""

    config: dict[str, Any]
    processes: list[TrainingProcess]
    train_steps: int | None
    warm_start: str
    commands: Commands


def _facts(run: FoundRun, commands: Commands) -> _Facts:
    config = read_values(run.folder)
    assert config is not None  # It was read before.
    declared = registry.problems.file_arguments(run.problem)
    arguments = {
        name: _without_folders(value) if name in declared or _is_place(value) else value
        for name, value in config["problem_args"].items()
    }
    config = {**config, "problem_args": arguments}
    processes = read_processes(run.folder)
    steps = processes[-1].train_steps if processes else None
    usual = config["hparams"]["training"]["train_steps"]
    warm_start = next((item.warm_start_from for item in processes if item.warm_start_from), "")
    return _Facts(
        config, processes, None if steps == usual else steps, PurePath(warm_start).name, commands
    )


def _is_place(value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return any(isinstance(name, str) and PurePath(name).is_absolute() for name in values)


def _without_folders(value: Any) -> Any:
    if isinstance(value, list):
        return [PurePath(str(name)).name for name in value]
    return None if value is None else PurePath(str(value)).name


def _metrics(
    run: FoundRun, evaluation: Record, table: Table, options: RecordingOptions
) -> dict[str, str | None]:
    """The figures of an evaluation that are kept, each with the publication's."""
    if options.metrics:
        wanted = list(options.metrics)
    elif table.figures:
        wanted = [
            name
            for name in evaluation.metrics
            if any(table.metric_in(figure, name) for figure in table.figures)
        ]
    else:
        wanted = [headline(evaluation)]
    kept: dict[str, str | None] = {}
    task, row = table.task_of(run.problem), options.row or run.system
    names = (f"{task}, {row}", task, row)
    for metric in dict.fromkeys(wanted):
        value = evaluation.metrics.get(metric)
        figures = table.figures_of(metric, evaluation.test_problem, evaluation.split)
        is_shown = figures or options.metrics or not table.figures
        if value is None or not is_shown:
            continue
        if figures and not math.isfinite(value):
            raise UserError(
                f"{run.folder}: {metric} is {value} in its record of step {evaluation.step}"
                f" ({evaluation.split}, {evaluation.time}), and the table {table.name} shows it:"
                " expected a finite figure; evaluate the run again, or name other figures."
            )
        if not math.isfinite(value):
            continue
        texts = (figure.paper_of(table.metric_in(figure, metric), names) for figure in figures)
        kept[metric] = next((text for text in texts if text is not None), None)
    return kept


def _record(
    run: FoundRun,
    evaluation: Record,
    metric: str,
    paper: str | None,
    table: Table,
    options: RecordingOptions,
    facts: _Facts,
) -> ResultRecord:
    config = facts.config
    # Processes that only trained on did not make the checkpoint.
    made = [process for process in facts.processes if process.begun_at < evaluation.step]
    last = made[-1] if made else None
    minutes = minutes_until(facts.processes, evaluation.step)
    whole = minutes_until(facts.processes, sys.maxsize)
    wall = minutes.wall if minutes else evaluation.training_minutes
    versions = dict(config.get("versions", {})) if last is None else dict(last.versions)
    return ResultRecord(
        table=table.name,
        row=options.row or run.system,
        metric=metric,
        value=evaluation.metrics[metric],
        interval=evaluation.intervals.get(metric),
        examples=_examples(evaluation, metric),
        split=evaluation.split,
        test_problem=evaluation.test_problem,
        problem=run.problem,
        problem_args=config["problem_args"],
        data_version=config.get("data_version", 1),
        hparams_set=run.hparams_set,
        overrides=config["overrides"],
        used_with=evaluation.used_with,
        train_steps=facts.train_steps,
        warm_start=facts.warm_start,
        seed=run.seed,
        command=facts.commands.training(config, facts.train_steps, facts.warm_start),
        evaluation=facts.commands.evaluation(config, evaluation),
        step=evaluation.step,
        parameters=evaluation.parameters,
        minutes=None if wall is None else round(wall, 2),
        processor_minutes=round(minutes.processor, 2) if minutes else None,
        total_minutes=round(whole.wall, 2) if whole else None,
        processor=None if last is None else {**last.processor, "devices": last.devices},
        commit=None if last is None else last.commit,
        version=versions.pop("ut_tf", _UNNOTED_VERSION),
        versions=versions or None,
        selection=evaluation.selection,
        test_read=tuple(
            sorted(
                record.time
                for record in run.records
                if (record.split, record.test_problem)
                == (evaluation.split, evaluation.test_problem)
            )
        ),
        paper=paper,
        note=options.note or evaluation.data_note,
    )


def _examples(evaluation: Record, metric: str) -> int | None:
    """The examples behind a metric: of its group, or of its set."""
    name, _, group = metric.rpartition("/")
    if name and group in evaluation.groups:
        return int(evaluation.groups[group]["examples"])
    fitting = [
        (name, count)
        for name, count in evaluation.examples.items()
        if not name or metric.startswith(f"{name}/")
    ]
    if not fitting:
        # A figure over several sets, such as the mean error of tasks.
        return sum(evaluation.examples.values()) or None
    return max(fitting, key=lambda item: len(item[0]))[1]


def name_of_curve(record: ResultRecord) -> str:
    """The name of the file of a run's learning curve."""
    digest = hashlib.sha256(repr(record.run_key).encode()).hexdigest()[:8]
    return f"{record.problem}-{record.hparams_set}-seed{record.seed}-{digest}.csv"
