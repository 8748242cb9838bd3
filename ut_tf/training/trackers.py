"""Experiment trackers: Weights & Biases and MLflow, through their own packages.

::

    tracker = make_tracker("mlflow", run)  # or goes on in what an earlier process began
    tracker.log(100, {"train/loss": 0.5})
    tracker.close()

Where values go is theirs to decide (MLFLOW_TRACKING_URI, WANDB_MODE, ...). The identifier of the
tracked run is kept in tracker.json of the run directory, so that a resumed training goes on in it.
"""

import importlib
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ut_tf.errors import UserError, did_you_mean
from ut_tf.packages import check_package
from ut_tf.run import Run
from ut_tf.storage.files import read_bounded, write_text
from ut_tf.storage.layout import TRACKER_FILE
from ut_tf.training.summaries import flat_hparams

# MLflow takes so many parameters at once.
_MOST_PARAMETERS = 100


class Tracker(Protocol):
    """Trackers: places for the values of a training besides TensorBoard and metrics.jsonl."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Takes in values by name; those that are not finite are left out."""

    def close(self) -> None:
        """Ends the tracked run of this process."""


class WandbTracker:
    """Weights & Biases: a run of the project "ut-tf", in the group of the problem."""

    def __init__(self, run: Run) -> None:
        wandb = importlib.import_module("wandb")
        self._run = wandb.init(
            project="ut-tf",
            group=run.problem,
            name=run.output_dir.name,
            dir=str(run.output_dir),
            config=flat_hparams(run),
            id=_kept_id(run, "wandb"),
            resume="allow",
        )
        _keep_id(run, "wandb", self._run.id)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(_finite(values), step=step)

    def close(self) -> None:
        self._run.finish()


class MlflowTracker:
    """MLflow: a run of the experiment of the problem's name.

    Of the slashes in a name only the first stays, the others become full stops: in a folder of
    MLflow's a metric is a file, and "eval/ponder_time" could not hold "eval/ponder_time/question".
    """

    def __init__(self, run: Run) -> None:
        self._mlflow = importlib.import_module("mlflow")
        self._mlflow.set_experiment(run.problem)
        kept = _kept_id(run, "mlflow")
        if kept is not None:
            self._mlflow.start_run(run_id=kept)
            return
        started = self._mlflow.start_run(run_name=run.output_dir.name)
        _keep_id(run, "mlflow", started.info.run_id)
        parameters = list(flat_hparams(run).items())
        for first in range(0, len(parameters), _MOST_PARAMETERS):
            self._mlflow.log_params(dict(parameters[first : first + _MOST_PARAMETERS]))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        metrics = {_with_one_slash(name): value for name, value in _finite(values).items()}
        self._mlflow.log_metrics(metrics, step=step)

    def close(self) -> None:
        self._mlflow.end_run()


_TRACKERS: dict[str, Callable[[Run], Tracker]] = {"wandb": WandbTracker, "mlflow": MlflowTracker}
_PACKAGES = {"mlflow": "mlflow-skinny"}


def check_tracker(name: str) -> None:
    """Raises UserError if there is no tracker of this name, or its package is missing."""
    if name not in _TRACKERS:
        raise UserError(
            f"`tracker`={name}: expected one of {', '.join(_TRACKERS)}"
            f"{did_you_mean(name, _TRACKERS).rstrip('?')}."
        )
    package = _PACKAGES.get(name, name)
    check_package(name, f"`tracker`={name} needs", package, "leave the tracker out")


def make_tracker(name: str, run: Run) -> Tracker:
    """Returns the tracker of a run. Raises as ``check_tracker`` does, and if the tracker cannot
    begin.
    """
    check_tracker(name)
    try:
        return _TRACKERS[name](run)
    except Exception as error:
        # Which classes of errors there are depends on the tracker's package.
        reason = " ".join(str(error).split())[:300]
        raise UserError(
            f"`tracker`={name} cannot begin ({type(error).__name__}: {reason}): check its login and"
            f" address, and {run.output_dir / TRACKER_FILE}; or leave the tracker out."
        ) from error


def _with_one_slash(name: str) -> str:
    kind, slash, rest = name.partition("/")
    return f"{kind}{slash}{rest.replace('/', '.')}"


def _finite(values: Mapping[str, float]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items() if math.isfinite(value)}


def _kept_id(run: Run, name: str) -> str | None:
    path = run.output_dir / TRACKER_FILE
    if not path.is_file():
        return None
    identifier: Any = json.loads(read_bounded(path)).get(name)
    return None if identifier is None else str(identifier)


def _keep_id(run: Run, name: str, identifier: str) -> None:
    path = run.output_dir / TRACKER_FILE
    kept = json.loads(read_bounded(path)) if path.is_file() else {}
    write_text(path, json.dumps({**kept, name: identifier}) + "\n")
