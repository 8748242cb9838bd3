"""ut-sweep --launcher: a sweep by the tasks of a job array."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ut_tf.bin.frame.flags import Flag, FlagError
from ut_tf.errors import UserError
from ut_tf.storage.folders import make_writable, no_empty_folders_left
from ut_tf.storage.locks import held_alone
from ut_tf.sweeping.claims import Claims
from ut_tf.sweeping.launchers import DEFAULT_MOUNT, kubernetes_job, slurm_array
from ut_tf.sweeping.shared import CLAIMS_FOLDER, run_shared
from ut_tf.sweeping.sweep import Sweep, SweepResult

LAUNCHER = Flag(
    "launcher",
    "local: the runs are processes of this command. slurm, kubernetes: queues a job array of"
    " --parallel tasks. shared: what each of these tasks runs, on any machine: one run at a time"
    " that no other task has claimed.",
    "How",
    default="local",
)
LAUNCHER_ARGS = Flag(
    "launcher_args",
    "For slurm options of sbatch, with blanks between; for kubernetes image=IMAGE,claim=VOLUME and"
    " perhaps mount=PATH,gpus=NUMBER.",
    "How",
    default="",
    shown_default="none",
)
FLAGS = (LAUNCHER, LAUNCHER_ARGS)
_QUEUES = ("slurm", "kubernetes")
_LAUNCHERS = ("local", *_QUEUES, "shared")
_START_SECONDS = 30.0
_BEGUN = "UT_TF_SWEEP_BEGUN"
# What the command that queues is told itself.
_OWN = ("launcher", "launcher_args", "parallel", "dry_run", "trainer_flags")


def check_launcher(values: Any) -> None:
    """Raises FlagError where --launcher is unknown, or other flags do not go with it."""
    if values.launcher not in _LAUNCHERS:
        raise FlagError(f"--launcher={values.launcher}: expected one of {', '.join(_LAUNCHERS)}.")
    if values.launcher == "shared" and values.parallel > 1:
        raise FlagError(
            f"--parallel={values.parallel} with --launcher=shared: start as many tasks, each of"
            " which has one run at a time."
        )
    if values.launcher != "local" and values.halving:
        raise FlagError(
            f"--halving with --launcher={values.launcher}: the tasks do not compare seeds; leave it"
            " out, or use --launcher=local."
        )
    if values.launcher_args and values.launcher not in _QUEUES:
        raise FlagError("--launcher_args is for --launcher=slurm and --launcher=kubernetes.")


def queues(values: Any) -> bool:
    """Whether the command queues tasks and runs nothing itself."""
    return values.launcher in _QUEUES


def queue(values: Any, flags: Sequence[Flag], folder: Path, say: Callable[[str], None]) -> None:
    """Queues the job array, or with --dry_run prints what would.

    Args:
      values: of the flags.
      flags: of ut-sweep.
      folder: of the sweep.
      say: called with what the queue answered.

    Raises:
      FlagError: --launcher_args cannot be read, or pods would not see --output_dir.
      UserError: sbatch or kubectl is not there, or refuses.
    """
    command = task_command(values, flags, folder)
    if values.launcher == "slurm":
        words = slurm_array(command, values.parallel, _words(values.launcher_args), _begun())
        manifest = ""
    else:
        words = ["kubectl", "create", "-f", "-"]
        manifest = _manifest(command, values, folder)
    if values.dry_run:
        print(manifest or shlex.join(words))
        return
    with no_empty_folders_left(folder):
        if values.launcher == "slurm":
            make_writable(folder)
        say(_queued(words, manifest))


def _queued(words: list[str], manifest: str) -> str:
    """What the queue's command says of the jobs that it takes."""
    try:
        done = subprocess.run(words, input=manifest, capture_output=True, text=True, check=False)
    except OSError as error:
        raise UserError(
            f"{words[0]} cannot be started ({error.strerror or error}): queue the sweep where it is"
            " installed, or see what would be queued with --dry_run."
        ) from error
    if done.returncode:
        raise UserError(f"{words[0]} refused the job array: {done.stderr.strip()}")
    return done.stdout.strip()


def task_command(values: Any, flags: Sequence[Flag], folder: Path) -> list[str]:
    """The ut-sweep of one task: the same grid, by claims."""
    words = ["ut-sweep"]
    for flag in flags:
        if flag.name in (*_OWN, "output_dir") or not values[flag.name].present:
            continue
        value = values[flag.name].value
        parts = value if flag.kind == "words" else [value]
        words += [f"--{flag.name}={part}" for part in parts]
    words += [f"--output_dir={folder.absolute()}", "--launcher=shared"]
    return [*words, *(["--", *values.trainer_flags] if values.trainer_flags else [])]


def share(sweep: Sweep, say: Callable[[str], None]) -> SweepResult:
    """Works through the sweep beside others.

    Raises:
      UserError: a local ut-sweep, which makes no claims, runs in the folder.
    """
    begun = _read_begun()
    # The trainings of tasks of one job step do not train together.
    os.environ.pop("SLURM_STEP_NUM_TASKS", None)
    claims = Claims(sweep.folder / CLAIMS_FOLDER)
    with contextlib.ExitStack() as stack:
        # Other tasks that start now hold the lock for a moment, a local sweep as long as it runs.
        with held_alone(sweep.folder, _START_SECONDS):
            # What a local sweep sees of this task, also between two runs.
            stack.enter_context(claims.take(f"task-{uuid.uuid4().hex}"))
        return run_shared(sweep, claims, say, begun)


def check_unshared(folder: Path) -> None:
    """Raises UserError where tasks with claims work on the sweep in a folder, whose lock the caller
    holds.
    """
    claims = Claims(folder / CLAIMS_FOLDER)
    fresh = claims.fresh()
    if fresh:
        raise UserError(
            f"{claims.owner(fresh[0]) or 'a task'} works on {folder} with --launcher=shared: wait"
            " until it ends, or start this command with --launcher=shared as well; a task that was"
            f" killed counts for {claims.patience / 60:.0f} minutes, unless {claims.folder} is"
            " removed."
        )


def _begun() -> dict[str, str]:
    """What tells a task when its array was queued, also one that starts late or again."""
    return {_BEGUN: str(int(time.time()))}


def _read_begun() -> float | None:
    text = os.environ.get(_BEGUN, "")
    if text and not re.fullmatch(r"[0-9]{1,12}", text):
        raise UserError(f"{_BEGUN}={text}: expected seconds since 1970; unset it.")
    return float(text) if text else None


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        raise FlagError(
            f"--launcher_args={text}: a quote has no other half; expected options of sbatch with"
            " blanks between."
        ) from None


def _manifest(command: Sequence[str], values: Any, folder: Path) -> str:
    options = _options(values.launcher_args)
    mount = options.get("mount", DEFAULT_MOUNT)
    if not Path(os.path.normpath(folder.absolute())).is_relative_to(mount):
        raise FlagError(
            f"--output_dir={folder}: the pods see {mount} alone: name a folder below it, or give"
            " another mount=PATH in --launcher_args."
        )
    try:
        return kubernetes_job(command, values.parallel, options, _begun())
    except UserError as error:
        raise FlagError(str(error)) from None


def _options(text: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    return {name.strip(): value.strip() for name, _, value in pairs}
