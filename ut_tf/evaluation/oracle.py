"""Exits of an oracle: each position of a task of known depth stops after as many steps as its
algorithm needs, times a factor.

::

    exiting = AtOracle(model, 2.0)           # 2 steps for each step of the algorithm
    logits, details = exiting(batch, return_details=True)

No model knows the difficulty, so this is no exit rule of the hyperparameters: it measures what a
rule could reach that knows it.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from ut_tf.errors import UserError
from ut_tf.run import Run

ORACLE = "oracle"
DIFFICULTY = "position_difficulty"


class AtOracle:
    """A model whose positions exit after scale * difficulty steps, rounded up, besides its halting:
    those of difficulty 0, which are given, after one; those of unknown depth, below 0, never.

    Args:
      model: the keras.Model of a Universal Transformer.
      scale: steps for each step of the algorithm.
    """

    def __init__(self, model: Any, scale: float) -> None:
        self._model = model
        self._scale = scale

    def __call__(self, features: Mapping[str, Any], **options: Any) -> Any:
        """Calls the model on features with "position_difficulty", int32 [batch, length]."""
        shape = tf.shape(features["inputs"])
        difficulty = tf.cast(features[DIFFICULTY], tf.float32)
        # Zeros at the end of all rows are left out of a batch.
        difficulty = tf.pad(difficulty, [[0, 0], [0, shape[1] - tf.shape(difficulty)[1]]])
        steps = tf.cast(steps_at(difficulty, self._scale), tf.int32)
        steps = tf.where(difficulty < 0.0, tf.int32.max, steps)
        return self._model({**features, "exit_steps": steps}, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def steps_at(difficulty: Any, scale: float) -> Any:
    """Returns the oracle's steps, float32 of the shape of `difficulty`: at least 1."""
    # A product such as 0.1 * 30 is not rounded up for its last bit.
    return tf.maximum(tf.math.ceil(scale * difficulty - 1e-4), 1.0)


def can_exit(run: Run) -> bool:
    """Whether the positions of a run's model can exit by themselves."""
    try:
        run.in_use("eval_exit=state_difference")
    except UserError:
        return False
    return True
