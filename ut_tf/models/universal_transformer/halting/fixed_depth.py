"""No dynamic halting: all positions take the same number of steps."""

from __future__ import annotations

from typing import Any, ClassVar

import keras

from ut_tf.models.universal_transformer.halting.base import Halting


@keras.saving.register_keras_serializable("ut_tf")
class FixedDepth(Halting):
    """``halting="none"``: every position takes all steps.

    Args:
      num_steps: number of steps.
      eval_num_steps: the same at evaluation; None: as in training.
    """

    dynamic: ClassVar[bool] = False

    def __init__(self, num_steps: int, eval_num_steps: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_steps = num_steps
        self.eval_num_steps = eval_num_steps
        self.built = True

    def max_steps(self, training: bool) -> int:
        return self.num_steps if training or self.eval_num_steps is None else self.eval_num_steps
