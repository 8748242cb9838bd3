"""The contract between a search and a model.

How it is used, by a model of your own::

    class Model(keras.Model, DecoderModel):
        supports_incremental_decoding = True
        def start_decoding(self, features, capacity, beam_size=1): ...
        def decode_step(self, symbols, step, cache): ...

A model without incremental decoding needs no more than its call: a search then computes the whole
prefix for each new symbol.
"""

from typing import Any, Protocol

import tensorflow as tf

from ut_tf.errors import UserError

CONSTANTS, EXAMPLES = "constants", "examples"
_FIXED = (CONSTANTS, EXAMPLES)

Cache = dict[str, Any]


class DecoderModel(Protocol):
    """A model that writes sequences, with its targets shifted right inside.

    The cache of incremental decoding is a dictionary: "constants" is the same at all positions,
    "examples" holds tensors [batch, ...] that stay as they are, and all else are tensors [batch,
    beam_size, ...] that change. A model whose tensors have another form keeps the examples on the
    first axis and overrides ``reorder_cache``; one whose cache has room for a number of positions,
    on the third axis, overrides ``resize_cache``.
    """

    def __call__(self, features: dict[str, Any], training: bool = False) -> Any:
        """Logits float32 [batch, target_length, target_vocab_size] of {"inputs": ..., "targets":
        int32 [batch, target_length]}.
        """

    @property
    def supports_incremental_decoding(self) -> bool:
        """Whether ``decode_step`` equals the whole sequence; default: no."""
        return False

    def start_decoding(self, features: dict[str, Any], capacity: Any, beam_size: int = 1) -> Cache:
        """Encodes the inputs.

        Args:
          features: {"inputs": ...} as in the call; for a language model {"batch_size": int32 []}.
          capacity: int32 [], positions that there is room for; ``resize_cache`` makes more.
          beam_size: hypotheses for each example.

        Returns:
          the cache before the first position.
        """
        raise NotImplementedError

    def decode_step(self, symbols: Any, step: Any, cache: Cache) -> tuple[Any, Cache]:
        """Decodes one position of every hypothesis.

        Args:
          symbols: int32 [batch * beam_size], the decoder's input at this position: the symbol
            before it, 0 at the start.
          step: int32 [], the position, from 0.
          cache: from ``start_decoding`` or an earlier step.

        Returns:
          (float32 logits [batch * beam_size, target_vocab_size], the new cache).
        """
        raise NotImplementedError

    def drafting_stepper(self, draft_steps: int) -> Any:
        """The stepper of ``speculation.speculate``, which drafts symbols with so many of the
        model's recurrent steps.

        Raises:
          UserError: the model has no such steps.
        """
        raise UserError(
            f"draft_steps={draft_steps}: this {type(self).__name__} has no recurrent steps to draft"
            " symbols with: set it to 0."
        )

    def reorder_cache(self, cache: Cache, parents: Any) -> Cache:
        """The cache in which hypothesis k of an example continues its hypothesis parents[:, k].

        Args:
          cache: from ``decode_step``.
          parents: int32 [batch, beam_size].
        """
        return {
            name: part if name in _FIXED else gather_hypotheses(part, parents)
            for name, part in cache.items()
        }

    def resize_cache(self, cache: Cache, kept: Any, capacity: Any) -> Cache:
        """The cache of some of its examples, with room for more positions.

        Args:
          cache: from ``decode_step`` or ``start_decoding``.
          kept: int32 [kept], the examples that are decoded further.
          capacity: int32 [], positions that there must be room for; at least as many as now.
        """
        return gather_examples(cache, kept)


def gather_hypotheses(structure: Any, parents: Any) -> Any:
    """Tensors [batch, beam_size, ...] whose hypothesis k is the former hypothesis parents[:, k]."""
    return tf.nest.map_structure(lambda x: tf.gather(x, parents, batch_dims=1), structure)


def gather_examples(cache: Cache, kept: Any) -> Cache:
    """The cache of the examples `kept`, int32 [kept]."""
    return {
        name: (
            part if name == CONSTANTS else tf.nest.map_structure(lambda x: tf.gather(x, kept), part)
        )
        for name, part in cache.items()
    }
