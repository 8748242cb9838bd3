"""Whether a run may become a result: trained to its end, and its checkpoint chosen by validation.

::

    check_finished(folder)                  # raises UserError where it is not
    check_selected(folder, evaluation)
"""

from pathlib import Path

from ut_tf.errors import UserError
from ut_tf.evaluation.records import Record
from ut_tf.run_config import read_values
from ut_tf.storage.json_lines import read_object_of
from ut_tf.storage.layout import (
    BEST_FILE,
    CHECKPOINTS_FOLDER,
    STATE_FILE,
    checkpoint_name,
    checkpoint_steps,
)
from ut_tf.storage.processes import HOPELESS, read_processes

_ENDINGS = ("train_steps", "early_stopping")
_HOW = {
    "": "is still being trained, or was killed,",
    HOPELESS: "was stopped by ut-sweep as hopeless",
}


def check_finished(folder: Path) -> None:
    """Raises UserError where a run was not trained to its end."""
    steps = checkpoint_steps(folder)
    if not steps:
        raise UserError(f"{folder} has no checkpoint: train it first.")
    processes = read_processes(folder)
    if not processes:
        _check_finished_before_processes(folder, steps[-1])
        return
    last = processes[-1]
    if last.ended not in _ENDINGS:
        how = _HOW.get(last.ended, "was interrupted")
        raise UserError(
            f"{folder} is not finished: it {how} at step {steps[-1]} of {last.train_steps}; train"
            " it to its end with the same command, or with the `train_steps` that it has reached."
        )


def _check_finished_before_processes(folder: Path, step: int) -> None:
    """The same of a run of ut_tf 0.4, which did not note how it ended."""
    values = read_values(folder)
    if values is None:
        raise UserError(f"{folder} holds no run: name a folder that ut-trainer wrote.")
    training = values["hparams"]["training"]
    patience = int(training.get("early_stopping_patience", 0))
    state = read_object_of(folder / CHECKPOINTS_FOLDER / checkpoint_name(step) / STATE_FILE)
    if step < int(training["train_steps"]) and not (
        patience and int(state.get("bad_evaluations", 0)) >= patience
    ):
        raise UserError(
            f"{folder} is not finished: its last checkpoint is of step {step} of"
            f" {training['train_steps']}; train it to its end with the same command, or with the"
            " `train_steps` that it has reached."
        )


def check_selected(folder: Path, evaluation: Record) -> None:
    """Raises UserError where validation did not choose the checkpoint that was evaluated."""
    best = read_object_of(folder / CHECKPOINTS_FOLDER / BEST_FILE).get("step")
    if evaluation.selection is None or evaluation.step != best:
        chosen = "none" if best is None else f"that of step {best}"
        raise UserError(
            f"{folder}: the checkpoint of step {evaluation.step} was not chosen by validation"
            f" (which chose {chosen}): evaluate the best one with ut-eval."
        )
