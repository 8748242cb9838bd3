"""The interface between a search and a model: it asks for the next symbols, whether the model
caches earlier positions or computes the whole prefix again; ``contract.py`` declares the model's
side.

Example::

    stepper = make_stepper(model, beam_size=4)
    cache = stepper.start(features, capacity, max_length)
    # [batch * beam_size] -> [batch * beam_size, vocab]
    logits, cache = stepper.step(symbols, index, cache)
    cache = stepper.reorder(cache, parents)  # hypothesis k goes on from hypothesis parents[:, k]
    cache = stepper.resize(cache, kept, capacity)  # fewer examples, room for more positions
"""

from typing import Any

import tensorflow as tf

from ut_tf.errors import UserError
from ut_tf.search.contract import EXAMPLES, DecoderModel, gather_examples
from ut_tf.symbols import END_ID


def make_stepper(
    model: DecoderModel, beam_size: int, incremental: bool | None = None, draft_steps: int = 0
) -> Any:
    """The stepper of a model.

    Args:
      model: a decoder model.
      beam_size: hypotheses for each example.
      incremental: whether the model's own cache is used; None: where it can.
      draft_steps: recurrent steps that draft symbols, as of ``speculation``; 0: none are drafted.

    Raises:
      UserError: the model cannot draft, or the cache is asked for, and the model says that it would
        not give what the whole prefix gives.
    """
    if draft_steps:
        return model.drafting_stepper(draft_steps)
    supported = bool(model.supports_incremental_decoding)
    if incremental and not supported:
        raise UserError(
            f"this {type(model).__name__} cannot decode incrementally: leave out incremental=True."
        )
    incremental = supported if incremental is None else incremental
    return IncrementalStepper(model, beam_size) if incremental else PrefixStepper(model, beam_size)


class IncrementalStepper:
    """Steps of a model that caches earlier positions.

    Args:
      model: one that supports incremental decoding.
      beam_size: hypotheses for each example.
    """

    def __init__(self, model: DecoderModel, beam_size: int) -> None:
        self.model = model
        self.beam_size = beam_size

    def start(self, features: dict[str, Any], capacity: Any, max_length: Any) -> dict[str, Any]:
        """The cache before the first position, with room for `capacity` positions."""
        return self.model.start_decoding(features, capacity, self.beam_size)

    def step(self, symbols: Any, index: Any, cache: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """(float32 logits [batch * beam_size, vocab] of position `index`, the new cache),
        given the symbols before it.
        """
        return self.model.decode_step(symbols, index, cache)

    def reorder(self, cache: dict[str, Any], parents: Any) -> dict[str, Any]:
        """The cache in which each hypothesis goes on from another one: `parents`, int32
        [batch, beam_size].
        """
        return self.model.reorder_cache(cache, parents)

    def resize(self, cache: dict[str, Any], kept: Any, capacity: Any) -> dict[str, Any]:
        """The cache of the examples `kept`, with room for `capacity` positions."""
        return self.model.resize_cache(cache, kept, capacity)


class CopyingStepper:
    """Steps of several copies of each example, one behind the other: the inputs are read once, then
    each copy is decoded on its own.

    Args:
      stepper: of one hypothesis.
      copies: of each example.
    """

    beam_size = 1

    def __init__(self, stepper: "IncrementalStepper | PrefixStepper", copies: int) -> None:
        assert stepper.beam_size == 1
        self.copies = copies
        self._stepper = stepper
        self.step, self.reorder, self.resize = stepper.step, stepper.reorder, stepper.resize

    def start(self, features: dict[str, Any], capacity: Any, max_length: Any) -> dict[str, Any]:
        """The cache before the first position, with `copies` examples for each one of
        `features`.
        """
        cache = self._stepper.start(features, capacity, max_length)
        return self.resize(
            cache, tf.repeat(tf.range(features["batch_size"]), self.copies), capacity
        )


class PrefixStepper:
    """Steps of a model that runs over the whole prefix for each new symbol.

    Args:
      model: called as model({**features, "targets": ...}, training=False).
      beam_size: hypotheses for each example.
    """

    def __init__(self, model: Any, beam_size: int) -> None:
        self.model = model
        self.beam_size = beam_size

    def start(self, features: dict[str, Any], capacity: Any, max_length: Any) -> dict[str, Any]:
        """The cache before the first position: the inputs, and room for the prefixes."""
        features = dict(features)
        batch_size = features.pop("batch_size")
        prefixes = tf.zeros(tf.stack([batch_size, self.beam_size, max_length]), tf.int32)
        return {EXAMPLES: features, "prefixes": prefixes}

    def step(self, symbols: Any, index: Any, cache: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """(float32 logits [batch * beam_size, vocab] of position `index`, the new cache),
        given the symbols before it.
        """
        prefixes = cache["prefixes"]
        size = tf.shape(prefixes)
        before = tf.range(size[2]) == index - 1
        prefixes = tf.where(before, tf.reshape(symbols, [-1, self.beam_size, 1]), prefixes)
        # The model shifts the targets right itself: the last target only has to be there, and not
        # be padding.
        targets = tf.reshape(prefixes[:, :, :index], tf.stack([size[0] * self.beam_size, index]))
        targets = tf.pad(targets, [[0, 0], [0, 1]], constant_values=END_ID)
        features = {
            name: tf.repeat(feature, self.beam_size, 0) for name, feature in cache[EXAMPLES].items()
        }
        logits = self.model({**features, "targets": targets}, training=False)
        return logits[:, -1], {**cache, "prefixes": prefixes}

    def reorder(self, cache: dict[str, Any], parents: Any) -> dict[str, Any]:
        """The cache in which each hypothesis goes on from another one: `parents`, int32
        [batch, beam_size].
        """
        return {**cache, "prefixes": tf.gather(cache["prefixes"], parents, batch_dims=1)}

    def resize(self, cache: dict[str, Any], kept: Any, capacity: Any) -> dict[str, Any]:
        """The cache of the examples `kept`; there is room for all positions from
        the start.
        """
        return gather_examples(cache, kept)
