"""The interface of hooks, which are called between updates.

::

    class Halve(Hook):
        def due(self, state):
            return state.step % 1000 == 0

        def after_update(self, state):
            self.temperature.assign(0.5 * self.temperature)

    train(run, hooks=[Halve()])
"""

import abc
from typing import Literal

from ut_tf.training.state_values import TrainingState

StoppedBy = Literal["train_steps", "early_stopping", "signal"]


class Hook(abc.ABC):
    """Something that happens after some updates, on every worker."""

    @abc.abstractmethod
    def due(self, state: TrainingState) -> bool:
        """Whether ``after_update`` is to be called after this update.

        It is asked after each update, without waiting for the device. All workers must answer
        alike.
        """

    @abc.abstractmethod
    def after_update(self, state: TrainingState) -> StoppedBy | None:
        """Acts; the reports of all updates up to this one are in `state`.

        Returns:
          Why training is to stop; None: it goes on.
        """


class Schedule:
    """Every so many updates, and after the last one.

    Args:
      frequency: updates between two.
      train_steps: number of the last update.
    """

    def __init__(self, frequency: int, train_steps: int) -> None:
        self._frequency = frequency
        self._train_steps = train_steps

    def __call__(self, step: int) -> bool:
        return step >= self._train_steps or step % self._frequency == 0
