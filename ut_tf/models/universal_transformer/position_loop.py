"""The loop over the steps of one new position of each hypothesis: incremental decoding."""

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import tensorflow as tf

from ut_tf.layers.active_positions import ActivePositions
from ut_tf.layers.contracts import PositionInputs
from ut_tf.models.universal_transformer.depth import Depth
from ut_tf.models.universal_transformer.step import Carry, RecurrentStep


class Progress(NamedTuple):
    """The progress of hypotheses with a new position: their Carry, and the depth's kept values."""

    carry: Carry
    kept: Any


class PositionHalting(NamedTuple):
    """The halting of one new position.

    Fields:
      probability: (what the block read, new states, step) -> float32 [rows].
      reads_only_keys: whether later positions see a halted one only through keys and values, so
        that the rest of its steps need not be computed.
      is_dense: whether all hypotheses are computed as long as one has not halted.
    """

    probability: Callable[[Any, Any, int], Any]
    reads_only_keys: bool
    is_dense: bool


class PositionLoop:
    """Repeats a step over one new position.

    Args:
      step: RecurrentStep.
      weights: of the step, from ``RecurrentStep.prepare``.
      given: PositionInputs, with the signal of every step.
      inputs: [rows, hidden_size], in the compute dtype.
      first: the step that is taken first.

    Its methods take a cache for each step and return the new caches besides their result.
    """

    def __init__(
        self,
        step: RecurrentStep,
        weights: dict[str, Any],
        given: PositionInputs,
        inputs: Any,
        first: int = 0,
    ) -> None:
        self.first = first
        self.step = step
        self.block: Any = step.block
        self.weights = weights
        self.given = given
        self.inputs = inputs
        self.bias = self.block.cache_bias(given.cache_position, weights["block"])

    def start(self, depth: Depth) -> Progress:
        """Returns the progress before the first step."""
        carry = self.step.start(self.inputs, self.given.keys, self.given.cache_position.index)
        return Progress(carry, depth.start(carry, tf.ones_like(carry.state[:, 0], tf.float32)))

    def unrolled(self, progress: Progress, caches: list[Any]) -> tuple[Progress, list[Any]]:
        """Takes one step per cache; returns (the progress, the new caches)."""
        new_caches, carry = [], progress.carry
        for index, signal, cache in self._steps(caches):
            read, carry = self.step.position_input(carry, self.inputs, index, signal, self.weights)
            output, cache = self.block.step(read, **self._around(cache, index))
            carry = self.step.advance(output, carry, self.inputs, self.weights, index)
            new_caches.append(cache)
        return progress._replace(carry=carry), new_caches

    def until_halted(
        self, depth: Depth, halting: PositionHalting, progress: Progress, caches: list[Any]
    ) -> tuple[Progress, list[Any]]:
        """Takes one step per cache; of hypotheses that have halted only as much of each as later
        positions read, and of all where these read more than keys and values.

        Args:
          depth: Depth.
          halting: PositionHalting.
          progress: before the first step.
          caches: one per step.

        Returns:
          (the progress, the new caches).
        """
        advance = functools.partial(self._advance, depth, halting)
        new_caches: list[Any] = []
        for index, signal, cache in self._steps(caches):
            read, carry = self.step.position_input(
                progress.carry, self.inputs, index, signal, self.weights
            )
            progress = progress._replace(carry=carry)
            if halting.reads_only_keys:
                queries, cache = self.block.append(
                    read,
                    self.weights["block"],
                    cache,
                    self.given.cache_position,
                    self.given.context,
                )
                finish = functools.partial(
                    self.block.finish, queries=queries, **self._around(cache, index)
                )
                active = depth.active(index, progress.kept)
                progress = self._of_active(index, active, read, progress, finish, advance, halting)
            else:
                output, cache = self.block.step(read, **self._around(cache, index))
                progress = advance(index, read, self.inputs, progress, output)
            new_caches.append(cache)
        return progress, new_caches

    def _of_active(
        self,
        index: int,
        active: Any,
        read: Any,
        progress: Progress,
        finish: Callable[..., tuple[Any, Any]],
        advance: Callable[..., Progress],
        halting: PositionHalting,
    ) -> Progress:
        """Returns the progress after a step that the hypotheses outside `active`, bool [rows], do
        not take.
        """

        def everything() -> Progress:
            return advance(index, read, self.inputs, progress, finish(read)[0])

        if index == 0:
            return everything()
        count = tf.math.count_nonzero(active, dtype=tf.int32)
        if halting.is_dense:
            return _as_progress(tf.cond(count > 0, everything, lambda: progress))

        def some() -> Progress:
            rows = tf.cast(tf.where(active)[:, 0], tf.int32)
            beam_size = self.given.cache_position.beam_size
            positions = ActivePositions.of(rows, tf.size(active) // beam_size, beam_size)
            chosen = tf.nest.map_structure(lambda values: tf.gather(values, rows), progress)
            own = tf.gather(read, rows)
            output, _ = finish(own, active=positions)
            chosen = advance(index, own, tf.gather(self.inputs, rows), chosen, output)
            return _as_progress(
                tf.nest.map_structure(
                    lambda values, new: tf.tensor_scatter_nd_update(values, rows[:, None], new),
                    progress,
                    chosen,
                )
            )

        # Moving rows costs more than computing those that have halted, if they are few.
        most = 2 * count > tf.size(active)
        branch = tf.where(count == 0, 0, tf.where(most, 1, 2))
        return _as_progress(tf.switch_case(branch, [lambda: progress, everything, some]))

    def _advance(
        self,
        depth: Depth,
        halting: PositionHalting,
        index: int,
        read: Any,
        inputs: Any,
        progress: Progress,
        block_output: Any,
    ) -> Progress:
        """Returns the progress of rows [rows, hidden_size] after a step whose block gave
        `block_output` of `read`.
        """
        carry, kept = progress
        new = self.step.advance(block_output, carry, inputs, self.weights, index)
        probability = halting.probability(read, new.state, index)
        carry, kept, _ = depth.after(index, probability, carry, new, kept)
        return Progress(carry, kept)

    def _steps(self, caches: list[Any]) -> Iterator[tuple[int, Any, Any]]:
        """Yields each step, its signal and its cache."""
        signal, count = self.given.position_signal, len(caches)
        signals = self.step.position_signals(signal, self.weights, self.first, count)
        steps = range(self.first, self.first + count)
        return zip(steps, signals, caches, strict=True)

    def _around(self, cache: Any, index: int) -> dict[str, Any]:
        return {
            "weights": self.weights["block"],
            "cache": cache,
            "cache_position": self.given.cache_position,
            "bias": self.bias,
            "context": self.given.context,
            "step": index,
        }


def _as_progress(values: Any) -> Progress:
    """The progress that a condition of TensorFlow returned as nested tuples."""
    return Progress(*values)
