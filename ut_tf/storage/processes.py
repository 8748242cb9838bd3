"""The processes that trained a run: ``processes.jsonl``, one JSON object a line.

::

    processes = read_processes(folder)
    processes[-1].ended                        # "train_steps"
    minutes_until(processes, step=500)         # Minutes(wall=3.1, processor=5.9)

Each process writes its line anew at every validation, so that one that is killed leaves what it had
used until then. Imports neither TensorFlow nor numpy.
"""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ut_tf.errors import UserError
from ut_tf.notices import warn
from ut_tf.storage.files import write_text
from ut_tf.storage.json_lines import sealed
from ut_tf.storage.layout import PROCESSES_FILE
from ut_tf.storage.typed_lines import plain, read_typed

_ROOT = Path(__file__).resolve().parent.parent.parent
_GIT_SECONDS = 10
HOPELESS = "hopeless"
"""How a run ended that a sweep stopped early."""


class Point(NamedTuple):
    """What a process had used when it had made an update, since it began to train.

    Fields:
      step: number of the update.
      wall: seconds that passed.
      processor: seconds of all its threads.
    """

    step: int
    wall: float
    processor: float


class Minutes(NamedTuple):
    """Minutes that passed, and minutes of processor time."""

    wall: float
    processor: float


@dataclass(frozen=True)
class TrainingProcess:
    """A process that trained a run.

    Args:
      started: when, ISO 8601 in UTC.
      begun_at: the update that it went on from.
      train_steps: the update that it was to end at.
      ended: why it ended, "train_steps", "early_stopping" or "signal", or "hopeless" where a sweep
        stopped it; empty: it runs, or was killed.
      points: at each validation and at its end.
      processor: {"model", "flags" (those that decide speed), "cores"}.
      devices: what it trained on, in words.
      versions: of ut_tf, tensorflow, keras and python.
      commit: of the checkout that ut_tf ran from, "-dirty" where files were changed; None: it was
        installed.
      selection: what chooses the best checkpoint, {"metric", "direction" ("min" or "max")}.
      warm_start_from: the run directory that its first weights came from; None: none.
    """

    started: str
    begun_at: int
    train_steps: int
    ended: str = ""
    points: tuple[Point, ...] = ()
    processor: dict[str, Any] = field(default_factory=dict)
    devices: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    commit: str | None = None
    selection: dict[str, str] = field(default_factory=dict)
    warm_start_from: str | None = None


def read_processes(folder: Path) -> list[TrainingProcess]:
    """The processes of a run directory, the oldest first; none where ut_tf 0.4 trained it.

    Raises:
      UserError: the file cannot be read, or a line is not of such a process; names file and line.
    """
    return read_typed(Path(folder) / PROCESSES_FILE, TrainingProcess, "line of ut-trainer")


def write_processes(folder: Path, processes: Sequence[TrainingProcess]) -> None:
    """Writes the processes of a run directory, whole or not at all."""
    lines = [sealed(json.dumps(plain(process))) for process in processes]
    write_text(Path(folder) / PROCESSES_FILE, "".join(f"{line}\n" for line in lines))


def minutes_until(processes: Sequence[TrainingProcess], step: int) -> Minutes | None:
    """The minutes of training up to `step`, over all processes; None: its beginning is unknown."""
    if not processes or processes[0].begun_at != 0:
        return None
    reached = [[point for point in process.points if point.step <= step] for process in processes]
    last = [points[-1] for points in reached if points]
    return Minutes(
        sum(point.wall for point in last) / 60, sum(point.processor for point in last) / 60
    )


def training_minutes(folder: Path, step: int) -> float | None:
    """The minutes that a run was trained up to `step`, validation included; None where its
    directory does not tell, or with a warning where its file is damaged.
    """
    try:
        minutes = minutes_until(read_processes(folder), step)
    except UserError as error:
        warn(f"the minutes of the training are not known: {error}")
        return None
    return minutes.wall if minutes else None


def checkout_commit() -> str | None:
    """The commit of the checkout that ut_tf runs from, with "-dirty" where files were changed; None
    where it runs from no checkout, or git is missing.
    """
    if not (_ROOT / ".git").exists():
        return None
    try:
        commit = _git("rev-parse", "HEAD")
        return f"{commit}-dirty" if _git("status", "-s", "-uno") else commit
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*words: str) -> str:
    command = ["git", "-C", str(_ROOT), *words]
    told = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_SECONDS, check=True)
    return told.stdout.strip()
