"""The weights of a run's checkpoints (the moving average, where one was kept) and of saved models.

::

    model = load_model(Run.load("runs/babi_qa-ut_base"))
    step = restore_weights(model, run, "last")
"""

import collections
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from ut_tf.argument_types import checked_types
from ut_tf.errors import UserError
from ut_tf.run import Run
from ut_tf.storage.checkpoints import read_state, restore
from ut_tf.storage.find_checkpoint import read_checkpoint
from ut_tf.storage.model_folder import check_weights, holds_model, open_weights


@dataclass(frozen=True)
class LoadedCheckpoint:
    """A model with the weights of a checkpoint, and what else was read of it at that moment. A
    training may have removed the checkpoint since.

    Args:
      model: the keras.Model.
      state: plain values saved with the weights, as of ``read_state``.
    """

    model: Any
    state: Mapping[str, Any]

    @property
    def step(self) -> int:
        """The step after which the weights were saved."""
        return int(self.state["step"])


@checked_types
def load_model(run: Run, which: str = "best") -> Any:
    """Makes a run's keras.Model with the weights of a checkpoint.

    Args:
      run: as ``Run.load`` gives it.
      which: as for ``find_checkpoint``.

    Raises:
      UserError: there is no such checkpoint, or it does not fit the model.
    """
    return load_checkpoint(run, which).model


def load_checkpoint(run: Run, which: str | LoadedCheckpoint = "best") -> LoadedCheckpoint:
    """The same with the state of the checkpoint; one that is loaded already stays as it is."""
    if isinstance(which, LoadedCheckpoint):
        return which
    model = run.make_model()
    return LoadedCheckpoint(model, read_weights(model, run, which))


def restore_weights(model: Any, run: Run, which: str = "best") -> int:
    """The step of what ``read_weights`` reads."""
    return int(read_weights(model, run, which)["step"])


def read_weights(model: Any, run: Run, which: str = "best") -> dict[str, Any]:
    """Reads a checkpoint's weights, or those of a saved model, into a model.

    Args:
      model: the run's keras.Model.
      run: whose checkpoints are meant.
      which: as for ``find_checkpoint``. Where a training removes the "best" or the "last" one
        meanwhile, the one that has taken its place is read, with a warning.

    Returns:
      The state that was saved with the weights; "step" is in it.

    Raises:
      UserError: there is no such checkpoint, or it does not fit the model.
    """
    return read_checkpoint(run.output_dir, which, lambda folder: _read(model, folder))


def _read(model: Any, directory: Path) -> dict[str, Any]:
    """Reads the weights in a folder into a model, and returns their state."""
    if holds_model(directory):
        _assign(model, directory)
        return read_state(directory)
    restore(directory, tf.train.Checkpoint(model=model), partial=True)
    state = read_state(directory)
    if state.get("averaged"):
        averages = [
            tf.Variable(tf.zeros(weight.shape, weight.dtype))
            for weight in model.trainable_variables
        ]
        restore(directory, tf.train.Checkpoint(averages=averages), partial=True)
        for weight, average in zip(model.trainable_variables, averages, strict=True):
            weight.assign(average)
    return state


def named_weights(model: Any) -> dict[str, Any]:
    """The variables of a built keras.Model by name, "encoder/step/block/kernel".

    A name follows from the attributes that lead to the variable, not from how many layers this
    process has made, and so is the same in every process. Seeds of random layers are left out.
    """
    wanted = {id(variable) for variable in model.weights}
    view, names, seen = tf.train.TrackableView(model), {}, {id(model)}
    waiting = collections.deque([("", model)])
    while waiting:
        name, part = waiting.popleft()
        if id(part) in wanted:
            names[name] = part
            continue
        for child_name, child in view.children(part).items():
            if id(child) not in seen:
                seen.add(id(child))
                waiting.append((f"{name}/{child_name}".lstrip("/"), child))
    assert len(names) == len(wanted), "a weight that no attribute leads to"
    return names


def copy_weights(source: Any, target: Any) -> None:
    """Gives a built keras.Model the weights of another one of the same form."""
    values = named_weights(source)
    for name, variable in named_weights(target).items():
        variable.assign(values[name])


def _assign(model: Any, folder: Path) -> None:
    """Reads the weights of a saved model."""
    variables = named_weights(model)
    with open_weights(folder) as file:
        shapes = file.shapes()
        expected = {name: tuple(variable.shape) for name, variable in variables.items()}
        if shapes != expected:
            names = sorted({name for name, _ in shapes.items() ^ expected.items()})
            raise UserError(
                f"{folder}: its weights do not fit its config.json ({names[0]} has the shape"
                f" {shapes.get(names[0])}, expected {expected.get(names[0])}): copy or download"
                " the whole folder again."
            )
        check_weights(folder)
        for name, variable in variables.items():
            variable.assign(file.array(name).astype(variable.dtype))
