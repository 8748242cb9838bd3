"""The mean of several checkpoints' weights, as a run directory that every other command takes.

::

    run = Run.load("runs/big")
    average_checkpoints(run, last_steps(run, 8), Path("runs/big-avg8"))
    average_checkpoints(run, best_steps(run, 5), Path("runs/big-avgbest5"))

The mean is written beside its place and renamed when it is complete. Its state holds the averaged
steps. It replaces a former mean of the same run.
"""

import math
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from ut_tf.config.hparams import differences
from ut_tf.errors import UserError
from ut_tf.evaluation.validations import judged
from ut_tf.run import Run
from ut_tf.run_config import RESUMABLE_FIELDS
from ut_tf.run_weights import restore_weights
from ut_tf.storage import checkpoints
from ut_tf.storage.checkpoints import CheckpointStore
from ut_tf.storage.disk_errors import disk_errors
from ut_tf.storage.layout import (
    CHECKPOINTS_FOLDER,
    CONFIG_FILE,
    EVENTS_FOLDER,
    EXPORT_FOLDER,
    LOCK_FILE,
    METRICS_FILE,
    RECORDS_FILE,
    START_LOCK_FILE,
    SWEEPS,
    VOCAB_FOLDER,
)
from ut_tf.storage.leftovers import beside, filled_beside, left_beside, locked_at_once
from ut_tf.storage.model_folder import copy_vocabulary

MOST = 8
# How a former mean is called while it gives way.
_FORMER = "old"
_ADVICE = "give a new or empty folder as `destination`"
_STEPS = "averaged_steps"
# What a new mean takes over from a former one: nothing else could make it again. Versions up to 0.4
# wrote translations, and bleu.jsonl.
_KEPT = ("translations", EXPORT_FOLDER)
# What lies in the folder of a mean: its own files, and what the commands derive from them.
_DERIVED = frozenset(
    {
        *_KEPT,
        CONFIG_FILE,
        VOCAB_FOLDER,
        CHECKPOINTS_FOLDER,
        "bleu.jsonl",
        RECORDS_FILE,
        *(f"{stem}{end}" for stem in SWEEPS for end in (".json", ".csv")),
        EVENTS_FOLDER,
        LOCK_FILE,
        START_LOCK_FILE,
    }
)


def average_checkpoints(run: Run, steps: Sequence[int], destination: Path) -> int:
    """Writes a run directory whose only checkpoint has the mean of the weights of the run's
    checkpoints of `steps`.

    It can be evaluated, decoded with and exported, but not trained on: the optimizer's state is not
    in it. Where a checkpoint holds a moving average of its weights, that is what enters the mean.

    Args:
      run: trained.
      steps: which checkpoints, at least one.
      destination: must not exist, or be empty, or hold a mean of the same run: that is replaced,
        its translations and its exported versions are kept.

    Returns:
      The step of the newest of them, under which the mean is saved.

    Raises:
      CheckpointGone: one of the checkpoints was removed meanwhile.
      UserError: one of the checkpoints is missing or damaged, or something else lies in
        `destination`.
    """
    destination = Path(os.path.realpath(destination))
    with disk_errors(destination, advice=_ADVICE):
        _put_back(destination)
        _check_replaceable(run, destination)
    steps = sorted({*steps})
    if not steps:
        raise UserError("no checkpoint is named: expected at least one to average.")
    model = run.make_model()
    means = _mean_weights(model, run, steps)
    for weight, mean in zip(model.trainable_variables, means, strict=True):
        weight.assign(mean)
    state = {"best_step": steps[-1], "averaged": False, _STEPS: steps}
    needed_bytes = 4 * sum(mean.size for mean in means)
    with (
        disk_errors(destination, needed_bytes, _ADVICE),
        filled_beside(destination) as temporary,
    ):
        _copy_configuration(run, temporary)
        CheckpointStore(temporary).save(
            steps[-1], tf.train.Checkpoint(model=model), state, needed_bytes
        )
        _put_in_place(temporary, destination)
    return steps[-1]


def averaged_steps(destination: Path) -> list[int]:
    """Returns the steps of the checkpoints whose mean `destination` holds; empty if none."""
    steps = _state(destination).get(_STEPS)
    if not isinstance(steps, list) or not all(isinstance(step, int) for step in steps):
        return []
    return steps


def last_steps(run: Run, n: int | None = None) -> list[int]:
    """The steps of the last `n` intact checkpoints, ascending; without `n` of all there are, at
    most MOST.

    Damaged checkpoints are skipped with a warning.

    Raises:
      CheckpointGone: a training has removed one meanwhile.
      UserError: there are fewer than `n`, or none.
    """
    store = CheckpointStore(run.output_dir)
    return _chosen(run, reversed(store.steps()), "n", n, "intact checkpoints")


def best_steps(run: Run, best: int | None = None) -> list[int]:
    """The steps of the best intact checkpoints, ascending.

    Args:
      run: trained and judged.
      best: how many; without it all that were judged, at most MOST.

    Best is by the problem's selection_metric, as metrics.jsonl has it of the evaluation at that
    step; of equals the one with the lower loss.

    Raises:
      UserError: fewer than `best` of the checkpoints that are there were judged by that metric,
        or none.
    """
    name, direction = run.make_problem().selection_metric
    there = {*CheckpointStore(run.output_dir).steps()}
    values = {
        step: value for step, value in judged(run.output_dir / METRICS_FILE, name) if step in there
    }
    if there and not values:
        file = run.output_dir / METRICS_FILE
        raise UserError(
            f"{file} has no {name} of any checkpoint of {sorted(there)}: average the last ones, or"
            " name the steps to average."
        )
    losses = dict(judged(run.output_dir / METRICS_FILE, "loss"))
    sign = 1.0 if direction == "min" else -1.0
    ranking = sorted(
        values, key=lambda step: (sign * values[step], losses.get(step, math.inf), -step)
    )
    return _chosen(run, ranking, "best", best, f"intact checkpoints judged by {name}")


def _chosen(
    run: Run, candidates: Iterable[int], argument: str, count: int | None, kind: str
) -> list[int]:
    """The first `count` intact checkpoints of `candidates`, ascending; `argument` and `kind` name
    the count and the candidates in messages.
    """
    store = CheckpointStore(run.output_dir)
    intact: list[int] = []
    for step in candidates:
        if len(intact) == (count or MOST):
            break
        fault = checkpoints.find_fault(store.path(step))
        if fault is None:
            intact.append(step)
        elif not store.path(step).is_dir():
            raise checkpoints.CheckpointGone(
                f"{store.path(step)} has gone while checkpoints were chosen."
            )
        else:
            checkpoints.warn_of_fault(store.path(step), fault)
    if len(intact) < (count or 1):
        kept, needed = run.hparams.training.keep_checkpoint_max, count or 1
        raise UserError(
            f"`{argument}`={needed}: {store.folder} has {len(intact)} {kind}; ask for no more, or"
            f" train on with `keep_checkpoint_max`={max(needed, kept)} (the run's was {kept}),"
            " which keeps that many of the latest."
        )
    return sorted(intact)


def _mean_weights(model: Any, run: Run, steps: list[int]) -> list[Any]:
    """Returns the mean of every trainable weight, added up in float64."""
    sums = [np.zeros(weight.shape, np.float64) for weight in model.trainable_variables]
    for step in steps:
        restore_weights(model, run, str(step))
        for total, weight in zip(sums, model.trainable_variables, strict=True):
            total += weight.numpy()
    return [total / len(steps) for total in sums]


def _state(destination: Path) -> dict[str, Any]:
    """Returns the state of the newest checkpoint in a folder; empty if there is none."""
    store = CheckpointStore(destination)
    try:
        return checkpoints.read_state(store.path(store.steps()[-1]))
    except (IndexError, OSError, UserError):
        return {}


def _check_replaceable(run: Run, destination: Path) -> None:
    """Raises UserError where something lies in `destination` that is no mean of the run, or more
    than a mean.
    """
    if not destination.exists() or (destination.is_dir() and not any(destination.iterdir())):
        return
    if not averaged_steps(destination):
        raise UserError(
            f"{destination} already exists and holds no mean of checkpoints: {_ADVICE}."
        )
    others = sorted({entry.name for entry in destination.iterdir()} - _DERIVED)
    if others:
        raise UserError(
            f"{destination} already exists and holds, besides a mean of checkpoints,"
            f" {', '.join(others)}: {_ADVICE}."
        )
    former = Run.load(destination, usr_dir=run.usr_dir)
    changes = [
        name
        for name in ("problem", "problem_args", "seed")
        if getattr(former, name) != getattr(run, name)
    ]
    changes += differences(former.hparams, run.hparams, RESUMABLE_FIELDS | {"decay_steps"})
    if changes:
        raise UserError(
            f"{destination} already exists and holds the mean of another run"
            f" ({'; '.join(changes)}): {_ADVICE}."
        )


def _put_in_place(temporary: Path, destination: Path) -> None:
    """Renames a complete mean to its place and moves over the kept files of a former one."""
    if not averaged_steps(destination):
        temporary.rename(destination)
        return
    old = beside(destination, _FORMER)
    with locked_at_once(destination):
        destination.rename(old)
        try:
            temporary.rename(destination)
        except OSError:
            old.rename(destination)
            raise
        _take_over(old, destination)


def _put_back(destination: Path) -> None:
    """Completes a replacement of a former mean during which a process was killed."""
    for old in left_beside(destination, _FORMER):
        with locked_at_once(old) as is_ours:
            if not is_ours:
                continue
            if destination.exists():
                _take_over(old, destination)
            else:
                old.rename(destination)


def _take_over(old: Path, destination: Path) -> None:
    """Moves the kept files of a former mean to the new one, and removes the rest."""
    for name in _KEPT:
        if (old / name).is_dir() and not (destination / name).exists():
            (old / name).rename(destination / name)
    shutil.rmtree(old, ignore_errors=True)


def _copy_configuration(run: Run, folder: Path) -> None:
    shutil.copyfile(run.output_dir / CONFIG_FILE, folder / CONFIG_FILE)
    copy_vocabulary(run.vocab_dir, folder / VOCAB_FOLDER)
