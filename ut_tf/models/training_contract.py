"""The contract between training and a model, besides its call and its loss.

How it is used, by a model of your own::

    class Model(keras.Model, TrainableModel):
        def call(self, features, training=False, return_details=False): ...

Everything has a default that is right for a model of fixed depth. A model with halting overrides
what is said of pondering, one whose steps take several sets of parameters in turn what is said of
relaxed weights, one that begins as another network its changes.
"""

from collections.abc import Callable
from typing import Any


class TrainableModel:
    """A Keras model that is called with (features, training, return_details) and that is built
    when it is constructed.
    """

    @property
    def sees_later_targets(self) -> bool:
        """Whether the logits of a target depend on those behind it."""
        return False

    # Pondering.

    ponder_loss: Any = None
    """What the last call added to the losses for pondering, if it did: the trainer adds the cost
    itself, as a mean over the global batch.
    """

    @property
    def ponder_weight(self) -> float | None:
        """The weight of the ponder cost in the loss; None: depth is fixed."""
        return None

    @property
    def padding_ponders(self) -> bool:
        """Whether padding takes part in halting and in the ponder cost."""
        return False

    @property
    def expects_scores(self) -> bool:
        """Whether the call returns, in training, expected log-probabilities instead of logits."""
        return False

    def max_steps(self, training: bool) -> int:
        """The most steps that a position takes; read where the model has a ``ponder_weight``."""
        raise NotImplementedError

    def has_ponder_cost(self, training: bool) -> bool:
        """Whether the call adds the ponder cost to the losses."""
        return False

    def ponder_remedy(self, few: bool) -> str | None:
        """The hyperparameters to change where ponder times do not move, in words; None: there are
        none.

        Args:
          few: whether they stand at few steps; otherwise at ``max_steps``.
        """
        return None

    def counted_positions(self, features: dict[str, Any]) -> tuple[Any, ...]:
        """The positions that count in the ponder cost, without computing the model; read where it
        has a ``ponder_weight``.

        Args:
          features: as in the call.

        Returns:
          float32 [batch, length] of the encoder and float32 [batch, target_length] of the decoder,
          of those that the model has: the masks of their details.
        """
        raise NotImplementedError

    # Relaxed weights.

    def relaxed_weights(self) -> list[Any]:
        """The relaxed parameters: those with several sets, each [sets, ...]."""
        return []

    def tie(self, tied: bool = True) -> None:
        """Replaces each set of the relaxed weights by the mean of all sets; with tied=False the
        sets differ again, from there.
        """

    # Changes of the network.

    def changes(self) -> dict[int, Callable[[], None]]:
        """Returns functions by the number of the update after which each is called, once.
        Checkpoints must hold the values that they change.
        """
        return {}
