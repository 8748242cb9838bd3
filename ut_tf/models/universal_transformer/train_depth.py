"""Training depth: how many steps an update takes, drawn anew for each update.

A drawn depth has a part without and a part with gradient: the state after the first is a constant
for the second, so memory does not grow with it (truncated back-propagation through depth). One of
your own is registered and named by ``train_depth``::

    @registry.register_train_depth("up_to")
    class UpTo(TrainDepth):
        def __init__(self, num_steps):
            self.max_steps = num_steps          # a field of the configuration
            self.backprop_steps = 2

        def draw(self, seed):
            steps = tf.random.stateless_uniform([], seed, 1, self.max_steps + 1, tf.int32)
            with_gradient = tf.minimum(steps, self.backprop_steps)
            return steps - with_gradient, with_gradient

In evaluation and use depth is as without it: ``eval_num_steps``, and ``eval_exit``.
"""

from __future__ import annotations

from typing import Any, Self


class TrainDepth:
    """Base class of the training depths, which draw the depth of an update.

    Attributes:
      max_steps: the most steps that it draws.
      backprop_steps: the most steps with gradient that it draws.
    """

    max_steps: int
    backprop_steps: int

    def draw(self, seed: Any) -> tuple[Any, Any]:
        """Draws a depth.

        Args:
          seed: int64 [2], for TensorFlow's stateless random numbers. A trainer makes it of the
            run's seed and the number of the update: all replicas and accumulated batches draw the
            same.

        Returns:
          int32 [] each: (steps without gradient, the steps with gradient that follow).
        """
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor, for models of Keras layers that are saved;
        default: there are none.
        """
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Makes the depth that ``get_config`` describes."""
        return cls(**config)


def fixed() -> None:
    """Stands for no drawn depth: each update takes the steps of the halting form."""
