"""How a search asks a model for the next symbols, whether the model remembers earlier positions or
computes them anew.

How it is used::

    stepper = make_stepper(model, beam_size=4)
    cache = stepper.start(features, capacity, max_length)
    # [batch * beam_size] -> [batch * beam_size, vocab]
    logits, cache = stepper.step(symbols, index, cache)
    cache = stepper.reorder(cache, parents)  # hypothesis k goes on from hypothesis parents[:, k]
    cache = stepper.resize(cache, kept, capacity)  # fewer examples, room for more positions

A model that decodes incrementally has ``start_decoding(features, capacity, beam_size)`` and
``decode_step(symbols, step, cache)``. Its cache is a dictionary: "constants" is the same at all
positions, "examples" holds tensors [batch, ...] that stay as they are, and all else are tensors
[batch, beam_size, ...] that change. A model whose tensors have another form keeps the examples on
the first axis and also has ``reorder_cache(cache, parents)``; one that can make room while it
decodes also has ``resize_cache(cache, kept, capacity)``, and its tensors may then change their
third size.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ut_tf.errors import UserError
from ut_tf.symbols import END_ID

CONSTANTS, EXAMPLES = "constants", "examples"


def make_stepper(
    model: Any, beam_size: int, incremental: bool | None = None
) -> IncrementalStepper | PrefixStepper:
    """Returns the stepper of a model.

    Args:
      model: a decoder model.
      beam_size: hypotheses for each example.
      incremental: whether the model's own cache is used; None: where it can.

    Raises:
      UserError: the cache is asked for, and the model says that it would not give what the whole
        prefix gives.
    """
    supported = bool(model.supports_incremental_decoding)
    if incremental and not supported:
        raise UserError(
            f"this {type(model).__name__} cannot decode incrementally: leave out incremental=True."
        )
    incremental = supported if incremental is None else incremental
    return IncrementalStepper(model, beam_size) if incremental else PrefixStepper(model, beam_size)


def _gather_examples(cache: dict[str, Any], kept: Any) -> dict[str, Any]:
    return {
        name: (
            part if name == CONSTANTS else tf.nest.map_structure(lambda x: tf.gather(x, kept), part)
        )
        for name, part in cache.items()
    }


class IncrementalStepper:
    """Steps of a model that remembers earlier positions.

    Args:
      model: with ``start_decoding`` and ``decode_step``.
      beam_size: hypotheses for each example.
    """

    def __init__(self, model: Any, beam_size: int) -> None:
        self.model = model
        self.beam_size = beam_size

    def start(self, features: dict[str, Any], capacity: Any, max_length: Any) -> dict[str, Any]:
        """Returns the cache before the first position, with room for `capacity` positions, or all
        if the model cannot make more later.
        """
        room = capacity if hasattr(self.model, "resize_cache") else max_length
        cache: dict[str, Any] = self.model.start_decoding(features, room, self.beam_size)
        return cache

    def step(self, symbols: Any, index: Any, cache: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Returns (float32 logits [batch * beam_size, vocab] of position `index`, the new cache),
        given the symbols before it.
        """
        logits, cache = self.model.decode_step(symbols, index, cache)
        return logits, cache

    def reorder(self, cache: dict[str, Any], parents: Any) -> dict[str, Any]:
        """Returns the cache in which each hypothesis goes on from another one: `parents`, int32
        [batch, beam_size].
        """
        if hasattr(self.model, "reorder_cache"):
            reordered: dict[str, Any] = self.model.reorder_cache(cache, parents)
            return reordered
        fixed = (CONSTANTS, EXAMPLES)
        follow = lambda x: tf.gather(x, parents, batch_dims=1)  # noqa: E731
        return {
            name: part if name in fixed else tf.nest.map_structure(follow, part)
            for name, part in cache.items()
        }

    def resize(self, cache: dict[str, Any], kept: Any, capacity: Any) -> dict[str, Any]:
        """Returns the cache of the examples `kept`, with room for `capacity` positions."""
        if not hasattr(self.model, "resize_cache"):
            return _gather_examples(cache, kept)
        resized: dict[str, Any] = self.model.resize_cache(cache, kept, capacity)
        return resized


class CopyingStepper:
    """Steps of examples that each stand in the batch several times, one copy behind the other: read
    once, then decoded on their own.

    Args:
      stepper: of one hypothesis.
      copies: of each example.
    """

    beam_size = 1

    def __init__(self, stepper: IncrementalStepper | PrefixStepper, copies: int) -> None:
        assert stepper.beam_size == 1
        self.copies = copies
        self._stepper = stepper
        self.step, self.reorder, self.resize = stepper.step, stepper.reorder, stepper.resize

    def start(self, features: dict[str, Any], capacity: Any, max_length: Any) -> dict[str, Any]:
        """Returns the cache before the first position, with `copies` examples for each one of
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
        """Returns the cache before the first position: the inputs, and room for the prefixes."""
        del capacity
        features = dict(features)
        batch_size = features.pop("batch_size")
        prefixes = tf.zeros(tf.stack([batch_size, self.beam_size, max_length]), tf.int32)
        return {EXAMPLES: features, "prefixes": prefixes}

    def step(self, symbols: Any, index: Any, cache: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Returns (float32 logits [batch * beam_size, vocab] of position `index`, the new cache),
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
        """Returns the cache in which each hypothesis goes on from another one: `parents`, int32
        [batch, beam_size].
        """
        return {**cache, "prefixes": tf.gather(cache["prefixes"], parents, batch_dims=1)}

    def resize(self, cache: dict[str, Any], kept: Any, capacity: Any) -> dict[str, Any]:
        """Returns the cache of the examples `kept`; there is room for all positions from
        the start.
        """
        del capacity
        return _gather_examples(cache, kept)
