"""The steps of a recurrence over one new position of each hypothesis: incremental decoding."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ut_tf.layers.block import PositionContext
from ut_tf.layers.coordinates import add_signal
from ut_tf.layers.key_value_cache import CachePosition
from ut_tf.models.universal_transformer.halting.base import HaltingState, start_halting

if TYPE_CHECKING:
    from ut_tf.models.universal_transformer.recurrence import Recurrence


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
    ) -> None:
        self.recurrence = recurrence
        self.block = recurrence.block
        self.weights = weights
        self.cache_position = cache_position
        self.bias = self.block.cache_bias(cache_position, weights["block"])
        self.context = context

    def fixed_depth(self, inputs: Any, signal: Any, caches: list[Any]) -> tuple[Any, list[Any]]:
        """Runs one step per cache."""
        cell = self.recurrence.cell
        state, memory = inputs, cell.start(inputs)
        new_caches = []
        signals = self._signals(signal, len(caches))
        for step, (step_signal, cache) in enumerate(zip(signals, caches, strict=True)):
            seen, memory = cell.look(state, memory, step)
            prepared = self._prepared(seen, step_signal)
            output, cache = self.block.step(prepared, *self._around(cache, step))
            state, memory = cell.step(output, state, memory, inputs, self.weights["cell"])
            new_caches.append(cache)
        return self.recurrence.final_state(state, memory), new_caches

    def until_halted(self, inputs: Any, signal: Any, caches: list[Any]) -> tuple[Any, list[Any]]:
        """Runs one step per cache; once all positions have halted, only as much of each as later
        positions read.
        """
        cell = self.recurrence.cell
        state, memory, output = inputs, cell.start(inputs), tf.zeros_like(inputs, tf.float32)
        halting = start_halting(tf.ones_like(inputs[:, 0], tf.float32))
        new_caches: list[Any] = []
        signals = self._signals(signal, len(caches))
        for step, (step_signal, cache) in enumerate(zip(signals, caches, strict=True)):
            seen, memory = cell.look(state, memory, step)
            prepared = self._prepared(seen, step_signal)
            queries = None
            if self._may_stop:
                queries, cache = self.block.remember(
                    prepared, self.weights["block"], cache, self.cache_position, self.context
                )
            advance = functools.partial(
                self._advance,
                step,
                prepared,
                queries,
                cache,
                inputs,
                state,
                memory,
                output,
                halting,
            )
            if new_caches and self._may_stop:
                running = tf.reduce_any(halting.halting_sum < self.recurrence.threshold)
                # A halted state is copied, and a position's own past is all that its block would
                # read again.
                now = (state, memory, output, halting)
                state, memory, output, halting = tf.cond(
                    running, lambda go=advance: go()[:4], lambda now=now: now
                )
            else:
                state, memory, output, halting, cache = advance()
            new_caches.append(cache)
        return output, new_caches

    @property
    def _may_stop(self) -> bool:
        """Whether nothing but keys and values comes of a step at which all positions have halted,
        and without computing its block.
        """
        return self.recurrence.halting_unit.copies_halted_states and self.block.remembers_only_keys

    def _advance(
        self,
        step: int,
        prepared: Any,
        queries: Any,
        cache: Any,
        inputs: Any,
        state: Any,
        memory: Any,
        output: Any,
        halting: HaltingState,
    ) -> tuple[Any, Any, Any, HaltingState, Any]:
        recurrence, weights, unit = self.recurrence, self.weights, self.recurrence.halting_unit
        around = self._around(cache, step)
        block_output, cache = (
            self.block.step(prepared, *around)
            if queries is None
            else self.block.proceed(prepared, queries, *around)
        )
        new_state, memory = recurrence.cell.step(
            block_output, state, memory, inputs, weights["cell"]
        )
        probability = unit.step(prepared, new_state, weights["halting"], step)
        last = step == unit.max_steps(training=False) - 1
        new_state, output, halting, _ = unit.advance(
            probability, last, new_state, state, output, halting
        )
        return new_state, memory, output, halting, cache

    def _around(self, cache: Any, step: int) -> tuple[Any, ...]:
        weights = self.weights["block"]
        return (weights, cache, self.cache_position, self.bias, self.context, step)

    def _prepared(self, state: Any, signal: Any) -> Any:
        if signal is None:
            return state
        return add_signal(state, signal, self.recurrence.compute_dtype)

    def _signals(self, signal: Any, count: int) -> list[Any]:
        """The signals added to the state at each step: the position's [rows or 1, hidden_size] or
        None, plus the step's or None.
        """
        steps = self.weights.get("steps")
        if steps is None:
            return [signal] * count
        steps = steps[:, None]
        return list(tf.unstack(steps if signal is None else signal + steps, count))
