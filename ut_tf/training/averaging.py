"""The mean of several checkpoints' weights, as a run directory that every other command takes.

::

    run = Run.load("runs/big")
    average_checkpoints(run, last_steps(run, 8), Path("runs/big-avg8"))
    average_checkpoints(run, best_steps(run, 5), Path("runs/big-avgbest5"))

The mean is written beside its place and renamed when it is complete. Its state holds the averaged
steps.
"""

import math
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from ut_tf.errors import UserError
from ut_tf.evaluation.validations import judged
from ut_tf.run import Run
from ut_tf.run_weights import restore_weights
from ut_tf.storage import checkpoints
from ut_tf.storage.checkpoints import CheckpointStore, manifest_digest
from ut_tf.storage.disk_errors import disk_errors
from ut_tf.storage.layout import CONFIG_FILE, METRICS_FILE, VOCAB_FOLDER
from ut_tf.storage.leftovers import filled_beside
from ut_tf.storage.model_folder import copy_vocabulary

MOST = 8
_ADVICE = "give a new or empty folder as `destination`"
_STEPS, _SOURCES = "averaged_steps", "averaged_from"


def average_checkpoints(run: Run, steps: Sequence[int], destination: Path) -> int:
    """Writes a run directory whose only checkpoint has the mean of the weights of the run's
    checkpoints of `steps`.

    It can be evaluated, decoded with and exported, but not trained on: the optimizer's state is not
    in it. Where a checkpoint holds a moving average of its weights, that is what enters the mean.

    Args:
      run: trained.
      steps: which checkpoints, at least one.
      destination: must not exist, be empty, or hold the mean of these checkpoints already.

    Returns:
      The step of the newest of them, under which the mean is saved.

    Raises:
      CheckpointGone: one of the checkpoints was removed meanwhile.
      UserError: one of the checkpoints is missing or damaged, or something else lies in
        `destination`.
    """
    destination = Path(os.path.realpath(destination))
    steps = sorted({*steps})
    if not steps:
        raise UserError("no checkpoint is named: expected at least one to average.")
    with disk_errors(destination, advice=_ADVICE):
        held = _state(destination).get(_SOURCES)
        if held and held == _digests(run, steps):
            # The same command again, perhaps after it was killed.
            return steps[-1]
        _check_free(destination)
    model = run.make_model()
    means = _mean_weights(model, run, steps)
    for weight, mean in zip(model.trainable_variables, means, strict=True):
        weight.assign(mean)
    state = {"best_step": steps[-1], "averaged": False, _STEPS: steps}
    state[_SOURCES] = _digests(run, steps)
    needed_bytes = 4 * sum(mean.size for mean in means)
    with disk_errors(destination, needed_bytes, _ADVICE), filled_beside(destination) as temporary:
        shutil.copyfile(run.output_dir / CONFIG_FILE, temporary / CONFIG_FILE)
        copy_vocabulary(run.vocab_dir, temporary / VOCAB_FOLDER)
        CheckpointStore(temporary).save(
            steps[-1], tf.train.Checkpoint(model=model), state, needed_bytes
        )
        temporary.rename(destination)
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


def _digests(run: Run, steps: Sequence[int]) -> list[str]:
    """Returns what tells the checkpoints of a run from all others."""
    store = CheckpointStore(run.output_dir)
    return [manifest_digest(store.path(step)) for step in steps]


def _check_free(destination: Path) -> None:
    """Raises UserError where something lies in `destination`."""
    if not destination.exists() or (destination.is_dir() and not any(destination.iterdir())):
        return
    steps = ", ".join(map(str, averaged_steps(destination)))
    held = f"holds the mean of the steps {steps}" if steps else "is not empty"
    raise UserError(f"{destination} already exists and {held}: remove it, or {_ADVICE}.")
