"""Run directories as a report sees them: what was trained, with which seed, and what ut-eval found.

::

    runs, warnings = find_runs([Path("runs")])
    # "UT, dynamic halting", "ut_act_babi, dropout=0.2", 3
    runs[0].system, runs[0].recipe, runs[0].seed
    runs[0].records                                      # the evaluations, oldest first

A folder that holds a config.json of ut-trainer is a run; folders below it are not
searched. Only JSON is read: no problem and no TensorFlow is imported, so that a hundred runs take a
second.
"""

import dataclasses
import itertools
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ut_tf import registry
from ut_tf.config.overrides import parse_assignments
from ut_tf.errors import UserError, file_errors
from ut_tf.evaluation.records import Record, read_records
from ut_tf.run_config import RESUMABLE_FIELDS, warn_of_changes
from ut_tf.storage.files import read_bounded
from ut_tf.storage.layout import (
    CHECKPOINTS_FOLDER,
    CONFIG_FILE,
    STATE_FILE,
    checkpoint_name,
    checkpoint_steps,
)
from ut_tf.storage.processes import HOPELESS, read_processes

_SYSTEMS = {
    "universal_transformer": "UT",
    "transformer": "Transformer",
    "lstm": "LSTM",
    "neural_gpu": "Neural GPU",
    "mem_transformer": "Memory Transformer",
    "mem_bottleneck_transformer": "Memory Transformer with bottleneck",
    "memn2n": "MemN2N",
    "convs2s": "ConvS2S",
    "bytenet": "ByteNet",
}
# Overrides that say how long and how often, and what follows from it: seeds of one recipe may
# differ in them.
NOT_THE_RECIPE = RESUMABLE_FIELDS | {"decay_steps", "early_stopping_patience"}

_USED_WITH = ", used with "


@dataclass(frozen=True)
class FoundRun:
    """A run directory.

    Args:
      folder: where it lies, as it was reached from the command line.
      problem: registered name of the problem.
      problem_args: arguments that the problem was given.
      system: what the model is, as a table's row names it.
      recipe: the set, the overrides that matter, and what was changed at inference, as a table's
        row names them.
      hparams_set: the set alone.
      seed: of the training.
      trained: whether there is a checkpoint to evaluate.
      records: its evaluations, oldest first.
      hopeless: whether a sweep stopped it early, so that it is no result.
    """

    folder: Path
    problem: str
    problem_args: Mapping[str, Any]
    system: str
    recipe: str
    hparams_set: str
    seed: int
    trained: bool
    records: Sequence[Record]
    hopeless: bool = False


def find_runs(places: Iterable[Path]) -> tuple[list[FoundRun], list[str]]:
    """The runs in `places`, each once and sorted by place, and a warning for each that
    cannot be read.

    A run that was also evaluated with other hyperparameters than it was trained with
    (``Record.hparams``) is there once more for each.

    Args:
      places: run directories, or folders with runs at any depth.

    Raises:
      UserError: a place is no folder, or holds no run.
    """
    runs: dict[Path, list[FoundRun]] = {}
    warnings: list[str] = []
    for place in places:
        if not place.is_dir():
            raise UserError(
                f"{place} is no folder: name run directories of ut-trainer, or folders that hold"
                " some."
            )
        folders = list(_run_folders(place))
        if not folders:
            raise UserError(
                f"{place} holds no run, at any depth (no {CONFIG_FILE}): name a folder that"
                " ut-trainer wrote."
            )
        for folder in folders:
            try:
                runs.setdefault(Path(os.path.realpath(folder)), _by_use(_read(folder)))
            except _NotARun:
                warnings.append(f"{folder / CONFIG_FILE} is not of a run; {folder} is left out.")
            except UserError as error:
                warnings.append(f"{folder} is left out: {error}")
    return list(itertools.chain.from_iterable(runs.values())), warnings


def _by_use(run: FoundRun) -> list[FoundRun]:
    """The run with its evaluations as trained, if any or none at all, and once more for
    each other depth, memory or search at inference.
    """
    uses = list(dict.fromkeys(record.used_with for record in run.records)) or [""]
    return [
        dataclasses.replace(
            run,
            recipe=f"{run.recipe}{_USED_WITH}{use}" if use else run.recipe,
            records=[record for record in run.records if record.used_with == use],
        )
        for use in sorted(uses)
    ]


def of_folders(runs: Iterable[FoundRun]) -> list[FoundRun]:
    """Each run directory once, in whatever uses it was evaluated."""
    folders = {run.folder: run for run in runs}
    return [
        dataclasses.replace(run, recipe=run.recipe.partition(_USED_WITH)[0])
        for run in folders.values()
    ]


def _run_folders(place: Path) -> Iterable[Path]:
    for folder, below, files in os.walk(place):
        below.sort()
        if CONFIG_FILE in files:
            below.clear()
            yield Path(folder)


class _NotARun(Exception):
    """A config.json that another program wrote."""


def _read(folder: Path) -> FoundRun:
    path = folder / CONFIG_FILE
    with file_errors(path, "", also=(ValueError, RecursionError)):
        values = json.loads(read_bounded(path))
    processes = read_processes(folder)
    hopeless = bool(processes) and processes[-1].ended == HOPELESS
    try:
        warn_of_changes(values, folder)
        return FoundRun(
            folder=folder,
            problem=str(values["problem"]),
            problem_args=dict(values["problem_args"]),
            system=_system(values["model"], values["hparams"]["network"])
            + (", averaged checkpoints" if _averaged(folder) else ""),
            recipe=_recipe(values["hparams_set"], values["overrides"]),
            hparams_set=str(values["hparams_set"]),
            seed=int(values["seed"]),
            trained=bool(checkpoint_steps(folder)),
            records=[] if hopeless else read_records(folder),
            hopeless=hopeless,
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise _NotARun from None


def _system(model: str, network: Mapping[str, Any]) -> str:
    """The model and what sets it apart: "UT, dynamic halting", "UT, gru recurrence"."""
    parts = [_SYSTEMS.get(model, model.replace("_", " "))]
    if model != "universal_transformer":
        return parts[0]
    if network["recurrence"] != "basic":
        parts.append(f"{network['recurrence']} recurrence")
    form = network["halting"]
    if registry.halting_forms.attribute(form, "dynamic", default=True):
        parts.append(registry.halting_forms.row(form) or f"dynamic halting ({form})")
    return ", ".join(parts)


def _recipe(hparams_set: str, overrides: str) -> str:
    values, _ = parse_assignments(overrides)
    kept = sorted(f"{name}={value}" for name, value in values.items() if name not in NOT_THE_RECIPE)
    return ", ".join([hparams_set, *kept])


def _averaged(folder: Path) -> bool:
    """Whether the run is a mean of checkpoints, as its one checkpoint says."""
    steps = checkpoint_steps(folder)
    if len(steps) != 1:
        return False
    state = folder / CHECKPOINTS_FOLDER / checkpoint_name(steps[0]) / STATE_FILE
    try:
        return "averaged_steps" in json.loads(read_bounded(state))
    except (OSError, ValueError, TypeError, RecursionError):
        return False
