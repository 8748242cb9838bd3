"""What a checkpoint of training holds: every variable that decides how training goes on."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ut_tf.training.optimizer import Optimizer


def training_checkpoint(model: Any, optimizer: Optimizer) -> Any:
    """The tf.train.Checkpoint of weights, random states, the optimizer's state and averages."""
    return tf.train.Checkpoint(
        model=model,
        random_states=_random_states(model),
        optimizer=tf.train.Checkpoint(**optimizer.state()),
        averages=optimizer.averages,
    )


def _random_states(model: Any) -> list[Any]:
    """The variables of a model's random generators, which TensorFlow's checkpoints do not find."""
    weights = {id(weight) for weight in model.weights}
    return [variable.value for variable in model.variables if id(variable) not in weights]
