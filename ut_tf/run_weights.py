"""The weights of a run's checkpoints (the moving average, where one was kept) and of saved models.

::

    model = load_model(Run.load("runs/babi_qa-ut_base"))
    step = restore_weights(model, run, "last")
"""

from __future__ import annotations

import collections
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ut_tf.errors import UserError
from ut_tf.storage.checkpoints import find_checkpoint, read_state, restore
from ut_tf.storage.model_folder import check_weights, holds_model, open_weights

if TYPE_CHECKING:
    from ut_tf.run import Run


def load_model(run: Run, which: str = "best") -> Any:
    """Makes a run's keras.Model with the weights of a checkpoint.

    Args:
      run: as ``Run.load`` gives it.
      which: as for ``find_checkpoint``.

    Raises:
      UserError: there is no such checkpoint, or it does not fit the model.
    """
    model = run.make_model()
    restore_weights(model, run, which)
    return model


def restore_weights(model: Any, run: Run, which: str = "best") -> int:
    """Reads a checkpoint's weights, or those of a saved model, into a model.

    Args:
      model: the run's keras.Model.
      run: whose checkpoints are meant.
      which: as for ``find_checkpoint``.

    Returns:
      The step after which the weights were saved.

    Raises:
      UserError: there is no such checkpoint, or it does not fit the model.
    """
    directory = find_checkpoint(run.output_dir, which)
    if holds_model(directory):
        _assign(model, directory)
        return int(read_state(directory)["step"])
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
    return int(state["step"])


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
