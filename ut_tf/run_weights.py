"""The weights of a run's checkpoints: the moving average, where one was kept.

::

    model = load_model(Run.load("runs/babi_qa-ut_base"))
    step = restore_weights(model, run, "last")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ut_tf.storage.checkpoints import find_checkpoint, read_state, restore

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
    """Reads a checkpoint's weights into a model.

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
