"""The parts of an ``EncoderDecoder``: the methods of encoders and decoders, and their results."""

from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from ut_tf.layers.recurrence_details import Observer, RecurrenceDetails

Memory = dict[str, Any]
"""What a decoder reads of an encoder, by name; empty without one."""


class Encoded(NamedTuple):
    """An encoder's result.

    Fields:
      states: [batch, length, hidden_size].
      mask: float32 [batch, length], 0 where the states represent nothing.
      summary: [batch, hidden_size], the state that has read everything; None: that of the last
        symbol.
      extra: a structure of tensors with the examples on the first axis, whatever else its own
        decoder reads.
      details: RecurrenceDetails; None where every position passes the same number of layers.
    """

    states: Any
    mask: Any
    summary: Any = None
    extra: Any = None
    details: RecurrenceDetails | None = None


class ModelDetails(NamedTuple):
    """The details of the encoder and of the decoder; None where the model has none."""

    encoder: RecurrenceDetails | None
    decoder: RecurrenceDetails | None

    @property
    def answered(self) -> RecurrenceDetails | None:
        """Those of the stack that is answered from."""
        return self.encoder if self.decoder is None else self.decoder

    def with_step_scores(self, scores: tuple[Any, ...]) -> "ModelDetails":
        """Returns the details with the ``step_scores`` of the stack that is answered from."""
        assert self.answered is not None
        part = self.answered._replace(step_scores=scores)
        return (
            ModelDetails(part, None) if self.decoder is None else ModelDetails(self.encoder, part)
        )


class EncoderPart(Protocol):
    """A Keras layer from embedded inputs to ``Encoded``."""

    def __call__(self, inputs: Any, padding_mask: Any, training: bool = False) -> Encoded:
        """Encodes inputs [batch, length, hidden_size]; padding_mask float32 [batch, length], 0 on
        padding.
        """


class DecoderPart(Protocol):
    """A Keras layer that carries a state of fixed size from position to position."""

    def __call__(
        self, inputs: Any, memory: dict[str, Any], training: bool = False
    ) -> tuple[Any, list[Any]]:
        """Decodes inputs [batch, length, hidden_size].

        Returns:
          (states of the same shape, attention weights: a list of float32 [batch, length,
          memory_length], which may be empty).
        """

    def read(self, encoded: Encoded) -> dict[str, Any]:
        """Returns the memory, the tensors of an encoder that the decoder reads, [batch, ...]; those
        of rank 3 end with hidden_size. Without an encoder the memory is empty.
        """

    def prepare(self) -> Any:
        """The weights for ``step``."""

    def start(self, memory: dict[str, Any], batch_size: Any, beam_size: int) -> Any:
        """The state before the first position: tensors [batch, beam_size, ..., channels]; those of
        rank 3 end with hidden_size.
        """

    def step(self, x: Any, index: Any, weights: Any, memory: Memory, state: Any) -> tuple[Any, Any]:
        """Computes one new position of n hypotheses per example.

        Args:
          x: [batch, n, hidden_size].
          index: int32 [], the position, from 0.
          weights: from ``prepare``.
          memory: from ``read``; empty without an encoder.
          state: from ``start`` or an earlier step.

        Returns:
          (states [batch, n, hidden_size], the new state).
        """


class CallOptions(NamedTuple):
    """The options of a model's call.

    Fields:
      training: whether to drop, and which depth and offsets hold.
      return_attention: whether the details hold attention weights.
      observer: called with a StepView inside every recurrent step, or None.
      update: int64 [2], the seed of the run and the number of the update, or None.
      carry: Carry that the stack which is answered from begins with, or None.
      depth: int32 [2], steps without and with gradient of that stack in training, or None: it
        decides.
      every_step: whether, in training, the states after all steps of that stack are answered from.
      to_depth: GivenDepth of all stacks, in the place of the evaluation's; or None.
      fresh: bool [batch], the examples that begin anew in the place of their `carry`, or None.
      puzzles: int32 [batch], whose vectors the encoder's memory has, or None.
      restart: int64 [batch], which of several initial states an example has; None: the first.
      exit_steps: int32 [batch, length], at inference the step, from 1, after which a position of
        the encoder exits besides its halting; None: no position does.
    """

    training: bool = False
    return_attention: bool = False
    observer: Observer | None = None
    update: Any = None
    carry: Any = None
    depth: Any = None
    every_step: bool = False
    to_depth: Any = None
    puzzles: Any = None
    fresh: Any = None
    restart: Any = None
    exit_steps: Any = None


def fixed_depth(
    num_layers: int, mask: Any, attention: list[Any] | None = None
) -> RecurrenceDetails:
    """The details of a part in which every position passes num_layers layers.

    Args:
      num_layers: becomes the ponder time of all positions that count.
      mask: float32 [batch, length], 0 on padding.
      attention: of a decoder over the encoder's positions, float32 [batch, length, memory_length]
        of each attention.
    """
    times = float(num_layers) * mask
    weights = tf.stack(attention)[:, :, None] if attention else None
    return RecurrenceDetails(times, tf.zeros_like(times), mask, memory_attention_weights=weights)
