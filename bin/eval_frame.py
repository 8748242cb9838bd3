"""What the ways of ut-eval share: a title, records, and the check of lengths."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from ut_tf.bin.frame.command import tell
from ut_tf.config.hparams import HParams
from ut_tf.errors import UserError
from ut_tf.evaluation.records import Record, append_record, now
from ut_tf.notices import printable
from ut_tf.run import Run
from ut_tf.storage.checkpoints import CheckpointStore

if TYPE_CHECKING:
    from ut_tf.data.problem import Problem
    from ut_tf.evaluation.measurement import CheckpointMeasurement

COMMAND = "ut-eval"


def title(run: Run, values: Any, step: int, other: str = "") -> str:
    """The run, the checkpoint's step and what else was asked for, in words."""
    used = ",".join(filter(None, [values.hparams, values.decode_hparams]))
    particular = (f", evaluated on {other}" if other else "") + (
        f", used with {used}" if used else ""
    )
    return printable(f"{run.problem} with {run.hparams_set}, checkpoint of step {step}{particular}")


def other_checkpoint(run: Run, values: Any, step: int) -> str:
    """A line about the last checkpoint, where validation chose another one; otherwise empty."""
    store = CheckpointStore(run.output_dir)
    last = max(store.steps(), default=step)
    if values.checkpoint != "best" or last == step or store.best_step() != step:
        return ""
    return f"\nvalidation chose step {step}; --checkpoint=last evaluates step {last}"


def changed(trained: HParams, used: HParams) -> str:
    """What differs at inference, "name=value,name=value" in alphabetical order."""
    before, after = vars(trained.network), vars(used.network)
    return ",".join(
        f"{name}={value}" for name, value in sorted(after.items()) if value != before[name]
    )


def record_of(
    run: Run,
    checkpoint: str,
    lengths: tuple[int, ...],
    measured: CheckpointMeasurement,
    trained: HParams,
    test_problem: str = "",
) -> Record:
    """The record of an evaluation of a run whose hyperparameters were others in training;
    `test_problem` is empty where it is the run's.
    """
    return Record(
        time=now(),
        problem=run.problem,
        hparams_set=run.hparams_set,
        seed=run.seed,
        checkpoint=checkpoint,
        step=measured.step,
        split=measured.split,
        lengths=lengths,
        metrics=measured.metrics,
        intervals=measured.intervals,
        examples=measured.examples,
        data_note=measured.data_note,
        test_problem=test_problem,
        parameters=measured.parameters,
        training_minutes=measured.training_minutes,
        selection=measured.selection,
        signatures=measured.signatures,
        headlines=measured.headlines,
        groups={name: dataclasses.asdict(group) for name, group in measured.groups.items()},
        decode=measured.decode,
        hparams=changed(trained, run.hparams),
    )


def keep(run: Run, record: Record) -> None:
    """Adds a record to the run directory, not to a saved model; warns where that cannot be."""
    if run.is_saved_model:
        return
    try:
        append_record(run.output_dir, record)
    except UserError as error:
        tell(COMMAND, f"warning: no record is kept: {error}")


def check_known_lengths(run: Run, problem: Problem, lengths: tuple[int, ...]) -> None:
    """Raises UserError where a problem makes no examples of given lengths."""
    if lengths and not any(examples.length for examples in problem.evaluation_sets(lengths)):
        raise UserError(
            f"--lengths={','.join(map(str, lengths))}: {run.problem} makes no examples of a given"
            " length; leave the flag out."
        )
