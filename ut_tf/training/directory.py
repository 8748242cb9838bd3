"""The output directory of a training: one process at a time, and free again after a refusal."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import tensorflow as tf

from ut_tf.errors import UserError
from ut_tf.storage.disk_errors import disk_errors
from ut_tf.storage.files import remove_leftovers
from ut_tf.storage.layout import (
    CHECKPOINTS_FOLDER,
    CONFIG_FILE,
    EVENTS_FOLDER,
    LOCK_FILE,
    METRICS_FILE,
    PROCESSES_FILE,
    START_LOCK_FILE,
    VOCAB_FOLDER,
    checkpoint_steps,
)
from ut_tf.storage.locks import held_alone
from ut_tf.training.distribution import Workers
from ut_tf.training.state_values import TrainingState

_OUT_OF_MEMORY = (MemoryError, tf.errors.ResourceExhaustedError)


@contextmanager
def alone(output_dir: Path, workers: Workers) -> Iterator[None]:
    """Within the context no other process trains in the directory; the chief holds its lock."""
    if not workers.is_chief:
        yield
        return
    with ExitStack() as stack:
        with disk_errors(output_dir):
            stack.enter_context(held_alone(output_dir))
            remove_leftovers(output_dir, METRICS_FILE, PROCESSES_FILE)
        yield


@contextmanager
def withdrawn(
    output_dir: Path, workers: Workers, is_refusal: Callable[[Exception], bool]
) -> Iterator[None]:
    """Takes back the directory of a run that is refused, unless it has a checkpoint.

    What cannot be trained is known late: the model says it, once it knows the data, or at the first
    update, as the memory does. Without config.json the directory is free for another run.
    """
    try:
        yield
    except Exception as error:
        if workers.is_chief and is_refusal(error) and not checkpoint_steps(output_dir):
            _remove(output_dir)
        raise


def is_refusal(state: TrainingState, error: Exception) -> bool:
    """Whether a run cannot be trained: a user's mistake before update 1 ended, or the memory."""
    return isinstance(error, _OUT_OF_MEMORY) or (isinstance(error, UserError) and not state.step)


def _remove(output_dir: Path) -> None:
    """Removes the files of a run without checkpoints, except logs of updates."""
    with suppress(OSError):
        if not (output_dir / METRICS_FILE).exists():
            shutil.rmtree(output_dir / EVENTS_FOLDER, ignore_errors=True)
        for name in (CONFIG_FILE, LOCK_FILE, START_LOCK_FILE):
            (output_dir / name).unlink(missing_ok=True)
        shutil.rmtree(output_dir / VOCAB_FOLDER, ignore_errors=True)
        with suppress(OSError):
            (output_dir / CHECKPOINTS_FOLDER).rmdir()
        output_dir.rmdir()
