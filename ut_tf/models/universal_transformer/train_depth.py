"""Training depth: the number of steps of an update, drawn anew for each update.

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

import builtins
import math
from typing import Any, ClassVar, Self

import tensorflow as tf

from ut_tf.errors import UserError, marked
from ut_tf.models.universal_transformer.catalogue import TRAIN_DEPTHS


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

    def checked_draw(self, seed: Any) -> tuple[Any, Any]:
        """Returns what ``draw`` does, at most `backprop_steps` with gradient.

        Raises:
          InvalidArgumentError: there are more.
        """
        without, with_gradient = self.draw(seed)
        # The loop would end there without a word.
        check = tf.debugging.assert_less_equal(
            with_gradient,
            self.backprop_steps,
            marked(
                f"{type(self).__name__}.draw gave more steps with gradient than its"
                f" backprop_steps={self.backprop_steps}: draw fewer, or raise it."
            ),
        )
        with tf.control_dependencies([check]):
            return without, tf.identity(with_gradient)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor, for models of Keras layers that are saved;
        default: there are none.
        """
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Makes the depth that ``get_config`` describes."""
        return cls(**config)


class Constant(TrainDepth):
    """The same number of steps in every update, of which the last have a gradient.

    Args:
      num_steps: steps of an update.
      backprop_steps: the most steps with gradient.
    """

    def __init__(self, num_steps: int, backprop_steps: int) -> None:
        self.max_steps = num_steps
        self.backprop_steps = min(backprop_steps, num_steps)

    def draw(self, seed: Any) -> tuple[Any, Any]:
        without = self.max_steps - self.backprop_steps
        return tf.constant(without), tf.constant(self.backprop_steps)

    def get_config(self) -> dict[str, Any]:
        return {"num_steps": self.max_steps, "backprop_steps": self.backprop_steps}


def fixed(num_steps: int, backprop_steps: int) -> Constant | None:
    """Returns the depth of updates that all take `num_steps`; None where all of them have a
    gradient, or where the halting form sets the depth.
    """
    return Constant(num_steps, backprop_steps) if backprop_steps else None


class DrawnTotal(TrainDepth):
    """Base class of the depths that draw the number of all steps: the last of them, at most
    `backprop_steps`, have a gradient.

    Args:
      max_steps: the most steps; larger draws become it.
      backprop_steps: the most steps with gradient; 0: all.
    """

    def __init__(self, max_steps: int, backprop_steps: int) -> None:
        self.max_steps = max_steps
        self.backprop_steps = min(backprop_steps or max_steps, max_steps)

    def total(self, seed: Any) -> Any:
        """Draws the number of steps, int32 []; arguments are those of ``draw``."""
        raise NotImplementedError

    def draw(self, seed: Any) -> tuple[Any, Any]:
        total = tf.clip_by_value(self.total(seed), 1, self.max_steps)
        with_gradient = tf.minimum(total, self.backprop_steps)
        return total - with_gradient, with_gradient


class LogNormalPoisson(DrawnTotal):
    """Huginn's depth (arXiv 2502.05171): 1 + Poisson(λ) steps, where λ is log-normal.

        ln λ ~ Normal(ln max(mean, backprop_steps) - sigma² / 2, sigma)

    The mean is thus mean + 1 steps.

    Args:
      backprop_steps: the most steps with gradient; 0: all.
      mean: mean of λ.
      sigma: standard deviation of its logarithm.
      max: the most steps; 0: eight times the mean.
    """

    options: ClassVar[dict[str, Any]] = TRAIN_DEPTHS["lognormal_poisson"].attributes["options"]

    def __init__(self, backprop_steps: int, mean: float, sigma: float, max: int) -> None:
        super().__init__(max or math.ceil(8 * mean), backprop_steps)
        self.mean, self.sigma, self.given = mean, sigma, backprop_steps

    def total(self, seed: Any) -> Any:
        middle = math.log(builtins.max(self.mean, self.given)) - self.sigma**2 / 2
        rate = tf.exp(middle + self.sigma * tf.random.stateless_normal([], seed))
        seed = tf.random.fold_in(seed, 1)
        return 1 + tf.random.stateless_poisson([], seed, rate, tf.int32)

    def get_config(self) -> dict[str, Any]:
        names = {"mean": self.mean, "sigma": self.sigma, "max": self.max_steps}
        return {"backprop_steps": self.given, **names}


class Poisson(DrawnTotal):
    """Parcae's depth (arXiv 2604.12946): max(1, Poisson(mean)) steps.

    Args:
      backprop_steps: the most steps with gradient; 0: all.
      mean: mean of the Poisson distribution.
      max: the most steps; 0: eight times the mean.
    """

    options: ClassVar[dict[str, Any]] = TRAIN_DEPTHS["poisson"].attributes["options"]

    def __init__(self, backprop_steps: int, mean: float, max: int) -> None:
        super().__init__(max or math.ceil(8 * mean), backprop_steps)
        self.mean, self.given = mean, backprop_steps

    def total(self, seed: Any) -> Any:
        return tf.random.stateless_poisson([], seed, self.mean, tf.int32)

    def get_config(self) -> dict[str, Any]:
        return {"backprop_steps": self.given, "mean": self.mean, "max": self.max_steps}


class Uniform(DrawnTotal):
    """Every number of steps from `min` to `max` with equal probability.

    Args:
      backprop_steps: the most steps with gradient; 0: all.
      min: the fewest steps.
      max: the most steps.
    """

    options: ClassVar[dict[str, Any]] = TRAIN_DEPTHS["uniform"].attributes["options"]

    def __init__(self, backprop_steps: int, min: int, max: int) -> None:
        if min > max:
            raise UserError(
                f"train_depth.min={min} is more than train_depth.max={max}: exchange them."
            )
        super().__init__(max, backprop_steps)
        self.min, self.given = min, backprop_steps

    def total(self, seed: Any) -> Any:
        return tf.random.stateless_uniform([], seed, self.min, self.max_steps + 1, tf.int32)

    def get_config(self) -> dict[str, Any]:
        return {"backprop_steps": self.given, "min": self.min, "max": self.max_steps}
