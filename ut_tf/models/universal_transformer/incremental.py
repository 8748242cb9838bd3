"""The steps of a recurrence over one new position of each hypothesis: incremental decoding."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import tensorflow as tf

from ut_tf.layers.block import PositionContext
from ut_tf.layers.coordinates import add_signal
from ut_tf.layers.key_value_cache import CachePosition
from ut_tf.layers.linear import matmul
from ut_tf.layers.running_positions import RunningPositions
from ut_tf.models.universal_transformer.exit_rules import Exits
from ut_tf.models.universal_transformer.halting.base import HaltingState, start_halting

if TYPE_CHECKING:
    from ut_tf.models.universal_transformer.recurrence import Recurrence


class Progress(NamedTuple):
    """How far hypotheses have come with a new position.

    Fields:
      state: [rows, hidden_size].
      memory: the cell's, tensors [rows, ...].
      output: float32 [rows, hidden_size].
      halting: HaltingState of [rows].
      carried: the exit rule's, tensors [rows, ...].
    """

    state: Any
    memory: Any
    output: Any
    halting: HaltingState
    carried: Any


class PositionRun:
    """The steps of one new position; arguments as for ``Recurrence.step``.

    Its methods take the inputs [rows, hidden_size] in the compute dtype, the position signal of
    every step or None, and a cache for each step, and return (the result, the new caches).
    """

    def __init__(
        self,
        recurrence: Recurrence,
        weights: dict[str, Any],
        cache_position: CachePosition,
        context: PositionContext,
        exits: Exits,
    ) -> None:
        self.recurrence = recurrence
        self.block = recurrence.block
        self.weights = weights
        self.cache_position = cache_position
        self.bias = self.block.cache_bias(cache_position, weights["block"])
        self.context = context
        self.exits = exits

    def fixed_depth(self, inputs: Any, signal: Any, caches: list[Any]) -> tuple[Any, list[Any]]:
        """Runs one step per cache."""
        cell = self.recurrence.cell
        state, memory = inputs, cell.start(inputs)
        new_caches = []
        signals = self._signals(signal, len(caches))
        for step, (step_signal, cache) in enumerate(zip(signals, caches, strict=True)):
            seen, memory = cell.look(state, memory, step)
            prepared = self._prepared(seen, step_signal)
            output, cache = self.block.step(prepared, **self._around(cache, step))
            state, memory = cell.step(output, state, memory, inputs, self.weights["cell"])
            new_caches.append(cache)
        return self.recurrence.final_state(state, memory), new_caches

    def until_halted(self, inputs: Any, signal: Any, caches: list[Any]) -> tuple[Any, list[Any]]:
        """Runs one step per cache; of hypotheses that have halted only as much of each as later
        positions read, and of all where these read more than keys and values.
        """
        progress = Progress(
            inputs,
            self.recurrence.cell.start(inputs),
            tf.zeros_like(inputs, tf.float32),
            start_halting(tf.ones_like(inputs[:, 0], tf.float32)),
            self.exits.start(inputs),
        )
        new_caches: list[Any] = []
        signals = self._signals(signal, len(caches))
        for step, (step_signal, cache) in enumerate(zip(signals, caches, strict=True)):
            seen, memory = self.recurrence.cell.look(progress.state, progress.memory, step)
            progress = progress._replace(memory=memory)
            prepared = self._prepared(seen, step_signal)
            if self.recurrence.reads_only_keys:
                queries, cache = self.block.remember(
                    prepared, self.weights["block"], cache, self.cache_position, self.context
                )
                proceed = functools.partial(
                    self.block.proceed, queries=queries, **self._around(cache, step)
                )
                progress = self._of_running(step, prepared, inputs, progress, proceed)
            else:
                output, cache = self.block.step(prepared, **self._around(cache, step))
                progress = self._advance(step, prepared, inputs, progress, output)
            new_caches.append(cache)
        return progress.output, new_caches

    def _of_running(
        self,
        step: int,
        prepared: Any,
        inputs: Any,
        progress: Progress,
        proceed: Callable[..., tuple[Any, Any]],
    ) -> Progress:
        """The progress after a step that hypotheses which have halted do not take."""

        def everything() -> Progress:
            return self._advance(step, prepared, inputs, progress, proceed(prepared)[0])

        if step == 0:
            return everything()
        running = progress.halting.halting_sum < self.recurrence.threshold
        count = tf.math.count_nonzero(running, dtype=tf.int32)
        if self.recurrence.halting_compute == "dense":
            return Progress(*tf.cond(count > 0, everything, lambda: progress))

        def some() -> Progress:
            index = tf.cast(tf.where(running)[:, 0], tf.int32)
            beam_size = self.cache_position.beam_size
            rows = RunningPositions.of(index, tf.size(running) // beam_size, beam_size)
            chosen = tf.nest.map_structure(lambda values: tf.gather(values, index), progress)
            own = tf.gather(prepared, index)
            output, _ = proceed(own, running=rows)
            chosen = self._advance(step, own, tf.gather(inputs, index), chosen, output)
            return Progress(
                *tf.nest.map_structure(
                    lambda values, new: tf.tensor_scatter_nd_update(values, index[:, None], new),
                    progress,
                    chosen,
                )
            )

        # Moving rows costs more than computing those that have halted, if they are few.
        most = 2 * count > tf.size(running)
        branch = tf.where(count == 0, 0, tf.where(most, 1, 2))
        return Progress(*tf.switch_case(branch, [lambda: progress, everything, some]))

    def _advance(
        self, step: int, prepared: Any, inputs: Any, progress: Progress, block_output: Any
    ) -> Progress:
        """The progress of rows [rows, hidden_size] after a step whose block gave `block_output`."""
        recurrence, weights, unit = self.recurrence, self.weights, self.recurrence.halting_unit
        state, memory, output, halting, carried = progress
        new_state, memory = recurrence.cell.step(
            block_output, state, memory, inputs, weights["cell"]
        )
        probability = unit.step(prepared, new_state, weights["halting"], step)
        now = (new_state, state, output, halting)
        probability, carried = self.exits.check(step, probability, *now, carried)
        last = step == unit.max_steps(training=False) - 1
        new_state, output, halting, _ = unit.advance(probability, last, *now)
        return Progress(new_state, memory, output, halting, carried)

    def _around(self, cache: Any, step: int) -> dict[str, Any]:
        return {
            "weights": self.weights["block"],
            "cache": cache,
            "cache_position": self.cache_position,
            "bias": self.bias,
            "context": self.context,
            "step": step,
        }

    def _prepared(self, state: Any, signal: Any) -> Any:
        kernels = self.weights.get("coordinates")
        if kernels:
            state = matmul(tf.cast(state, kernels[0].dtype), kernels[0])
        if signal is None:
            return state
        return add_signal(state, signal, self.recurrence.compute_dtype)

    def _signals(self, signal: Any, count: int) -> list[Any]:
        """The signals added to the state at each step: the position's [rows or 1, hidden_size] or
        None, plus the step's or None; projected where these are.
        """
        steps = self.weights.get("steps")
        if kernels := self.weights.get("coordinates"):
            _, signal, steps = self.recurrence.coordinates.projected(kernels, signal, signal, steps)
        if steps is None:
            return [signal] * count
        steps = steps[:, None]
        return list(tf.unstack(steps if signal is None else signal + steps, count))
