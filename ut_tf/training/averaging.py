"""The mean of several checkpoints' weights, as a run directory that every other command takes.

How it is used::

    average_checkpoints(Run.load("runs/big"), 8, Path("runs/big-averaged"))     # then: ut-eval --output_dir=runs/big-averaged
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from ut_tf.errors import UserError
from ut_tf.run import CONFIG_FILE, VOCAB_FOLDER, Run
from ut_tf.training import checkpoints
from ut_tf.training.checkpoints import CheckpointStore


def average_checkpoints(run: Run, n: int, destination: Path) -> int:
    """Writes a run directory whose only checkpoint has the mean of the weights of the run's last `n` checkpoints.

    It can be evaluated, decoded with and exported, but not trained on: the optimizer's state is not in it. Damaged checkpoints are
    skipped with a warning. Where a checkpoint holds a moving average of its weights, that is what enters the mean.

    Args:
      run: trained.
      n: how many checkpoints, at least 1.
      destination: must not exist, or be empty.

    Returns:
      The step of the newest of them, under which the mean is saved.

    Raises:
      UserError: there are fewer than `n` intact checkpoints, or something lies in `destination`.
    """
    if n < 1:
        raise UserError(f"n={n}: expected the number of checkpoints to average, at least 1.")
    if destination.exists() and (not destination.is_dir() or any(destination.iterdir())):
        raise UserError(f"{destination} already exists: name an output directory that is new or empty.")
    steps = _intact_steps(CheckpointStore(run.output_dir), n)
    model = run.make_model()
    means = _mean_weights(model, run, steps)
    for weight, mean in zip(model.trainable_variables, means, strict=True):
        weight.assign(mean)
    _copy_configuration(run, destination)
    state = {"best_step": steps[-1], "averaged": False, "averaged_steps": steps}
    needed_bytes = 4 * sum(mean.size for mean in means)
    CheckpointStore(destination).save(steps[-1], tf.train.Checkpoint(model=model), state, needed_bytes)
    return steps[-1]


def _intact_steps(store: CheckpointStore, n: int) -> list[int]:
    """Returns the steps of the last `n` intact checkpoints, ascending."""
    found: list[int] = []
    for step in reversed(store.steps()):
        if len(found) == n:
            break
        fault = checkpoints.find_fault(store.path(step))
        if fault is None:
            found.append(step)
        else:
            checkpoints.warn_of_fault(store.path(step), fault)
    if len(found) < n:
        raise UserError(
            f"n={n}: {store.folder} has {len(found)} intact checkpoints; ask for no more, or train with a larger keep_checkpoint_max."
        )
    return sorted(found)


def _mean_weights(model: Any, run: Run, steps: list[int]) -> list[Any]:
    """Returns the mean of every trainable weight, added up in float64."""
    sums = [np.zeros(weight.shape, np.float64) for weight in model.trainable_variables]
    for step in steps:
        checkpoints.restore_weights(model, run, str(step))
        for total, weight in zip(sums, model.trainable_variables, strict=True):
            total += weight.numpy()
    return [total / len(steps) for total in sums]


def _copy_configuration(run: Run, destination: Path) -> None:
    with checkpoints.readable_disk_errors(destination):
        destination.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(run.output_dir / CONFIG_FILE, destination / CONFIG_FILE)
        if (run.output_dir / VOCAB_FOLDER).is_dir():
            shutil.copytree(run.output_dir / VOCAB_FOLDER, destination / VOCAB_FOLDER)
