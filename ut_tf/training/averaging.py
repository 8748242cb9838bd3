"""The mean of several checkpoints' weights, as a run directory that every other command takes.

How it is used::

    run = Run.load("runs/big")
    average_checkpoints(run, last_steps(run, 8), Path("runs/big-avg8"))         # then: ut-eval --output_dir=runs/big-avg8
    average_checkpoints(run, best_steps(run, 5), Path("runs/big-avgbest5"))     # the best by the metric that chooses checkpoints
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from ut_tf.errors import UserError
from ut_tf.run import CONFIG_FILE, VOCAB_FOLDER, Run
from ut_tf.training import checkpoints
from ut_tf.training.checkpoints import CheckpointStore
from ut_tf.training.logs import METRICS_FILE

MOST = 8


def average_checkpoints(run: Run, steps: Sequence[int], destination: Path) -> int:
    """Writes a run directory whose only checkpoint has the mean of the weights of the run's checkpoints of `steps`.

    It can be evaluated, decoded with and exported, but not trained on: the optimizer's state is not in it. Where a checkpoint holds a
    moving average of its weights, that is what enters the mean.

    Args:
      run: trained.
      steps: which checkpoints, at least one.
      destination: must not exist, or be empty.

    Returns:
      The step of the newest of them, under which the mean is saved.

    Raises:
      UserError: one of the checkpoints is missing or damaged, or something lies in `destination`.
    """
    if destination.exists() and (not destination.is_dir() or any(destination.iterdir())):
        raise UserError(f"{destination} already exists: name an output directory that is new or empty.")
    steps = sorted({*steps})
    if not steps:
        raise UserError("no checkpoint is named: expected at least one to average.")
    model = run.make_model()
    means = _mean_weights(model, run, steps)
    for weight, mean in zip(model.trainable_variables, means, strict=True):
        weight.assign(mean)
    _copy_configuration(run, destination)
    state = {"best_step": steps[-1], "averaged": False, "averaged_steps": steps}
    needed_bytes = 4 * sum(mean.size for mean in means)
    CheckpointStore(destination).save(steps[-1], tf.train.Checkpoint(model=model), state, needed_bytes)
    return steps[-1]


def averaged_steps(destination: Path) -> list[int]:
    """Returns the steps of the checkpoints whose mean lies in `destination`; empty where there is no such mean."""
    store = CheckpointStore(destination)
    try:
        found: list[int] = checkpoints.read_state(store.path(store.steps()[-1]))["averaged_steps"]
    except (IndexError, OSError, ValueError, KeyError):
        return []
    return found


def last_steps(run: Run, n: int | None = None) -> list[int]:
    """Returns the steps of the last `n` intact checkpoints, ascending; without `n` of all there are, at most MOST.

    Damaged checkpoints are skipped with a warning.

    Raises:
      UserError: there are fewer than `n`, or none.
    """
    store = CheckpointStore(run.output_dir)
    return _chosen(run, reversed(store.steps()), n, "intact checkpoints")


def best_steps(run: Run, n: int | None = None) -> list[int]:
    """Returns the steps of the best `n` intact checkpoints, ascending; without `n` of all that were judged, at most MOST.

    Best is by the problem's selection_metric, as metrics.jsonl has it of the evaluation at that step.

    Raises:
      UserError: fewer than `n` of the checkpoints that are there were judged by that metric, or none.
    """
    name, direction = run.make_problem().selection_metric
    there = {*CheckpointStore(run.output_dir).steps()}
    values = {step: value for step, value in _judged(run.output_dir / METRICS_FILE, name) if step in there}
    if there and not values:
        file = run.output_dir / METRICS_FILE
        raise UserError(f"{file} has no {name} of any checkpoint of {sorted(there)}: average the last ones, or name the steps to average.")
    ranking = sorted(values, key=lambda step: (values[step] if direction == "min" else -values[step], -step))
    return _chosen(run, ranking, n, f"intact checkpoints judged by {name}")


def _chosen(run: Run, candidates: Iterable[int], n: int | None, what: str) -> list[int]:
    """Returns the first `n` intact ones of `candidates`, ascending."""
    store = CheckpointStore(run.output_dir)
    found: list[int] = []
    for step in candidates:
        if len(found) == (n or MOST):
            break
        fault = checkpoints.find_fault(store.path(step))
        if fault is None:
            found.append(step)
        else:
            checkpoints.warn_of_fault(store.path(step), fault)
    if len(found) < (n or 1):
        kept, needed = run.hparams.training.keep_checkpoint_max, n or 1
        raise UserError(
            f"n={needed}: {store.folder} has {len(found)} {what}; ask for no more, or train on with "
            f"--keep_checkpoint_max={max(needed, kept)} (the run's was {kept}), which keeps that many of the latest."
        )
    return sorted(found)


def _judged(path: Path, name: str) -> Iterator[tuple[int, float]]:
    """Yields (step, value) of each evaluation in a metrics file that has a finite value of the metric."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    for line in lines:
        try:
            values = json.loads(line)
        except ValueError:
            continue  # The last line of a run that was killed while it wrote.
        value = values.get(name)
        if values.get("kind") == "eval" and isinstance(value, int | float) and math.isfinite(value):
            yield int(values["step"]), float(value)


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
