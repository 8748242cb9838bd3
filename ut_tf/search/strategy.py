"""Search strategies: classes that write outputs with a stepper.

Example, in user code::

    @registry.register_strategy("second_best")  # strategy=second_best
    class SecondBest(Greedy):
        def choose(self, logits, index, state):
            return tf.math.top_k(logits, 2).indices[..., 1]
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

from ut_tf.search.bounds import Bounds
from ut_tf.search.config import DecodeConfig

Features = dict[str, Any]
"""What is decoded, by name, as of ``decoder_features``."""


class Written(NamedTuple):
    """Outputs as a strategy wrote them.

    Fields:
      symbols: int32 [batch, outputs, length], END_ID last and then padding; without END_ID where an
        output was cut.
      scores: float32 [batch, outputs], log-probabilities.
    """

    symbols: Any
    scores: Any


class Seeds(NamedTuple):
    """The seeds of the random numbers of a batch.

    Fields:
      seed: int32 [2], of the whole search.
      numbers: int32 [batch], each example's own: its draws do not depend on the rest of the batch.
    """

    seed: Any
    numbers: Any


class Strategy(ABC):
    """A search for the outputs of a batch, made of TensorFlow operations alone.

    Args:
      config: the options; a strategy reads those that concern it.
    """

    random: ClassVar[bool] = False
    """Whether the outputs depend on the seeds; an exported model then draws new ones at each
    call.
    """

    def __init__(self, config: DecodeConfig) -> None:
        self.config = config

    @property
    def drafts(self) -> bool:
        """Whether the search takes a stepper that drafts symbols, as ``draft_steps`` asks for."""
        return False

    @property
    def hypotheses(self) -> int:
        """Hypotheses of each example that share one cache: those of the stepper."""
        return self.config.beam_size

    @property
    def rows(self) -> int:
        """Outputs of each example that are decoded at once; memory grows with them."""
        return self.hypotheses

    @abstractmethod
    def search(self, stepper: Any, features: Features, bounds: Bounds, seeds: Seeds) -> Written:
        """Writes config.n_best outputs of each example, best first.

        Args:
          stepper: of the model, with ``hypotheses`` hypotheses (see ``stepper``).
          features: from ``decoder_features``; where they have a "prefix", outputs begin with it.
          bounds: of the outputs' lengths.
          seeds: of random numbers.
        """
