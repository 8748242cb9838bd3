"""The recurrence: a block repeated over all positions in parallel, for a fixed number of steps or
until every position halts.

It is put together from *what is repeated* (a ``Block``, or several in turn), *how states combine*
(a cell of ``cells.py``) and *when it stops* (fixed depth, or the halting of ``halting.py`` in a
``tf.while_loop``)::

    recurrence = Recurrence(NetworkConfig(halting="basic"))
    states, details = recurrence(inputs, symbol_mask=mask, positions=positions,
        context=BlockContext(bias=padding_bias(mask)))

A halted position's state is copied to the next step (halted_states="copy"), so what others read of
it no longer changes. Positions outside the mask have halted from the start unless padding_ponders.
"""

from __future__ import annotations

import functools
from typing import Any

import keras
import tensorflow as tf

from ut_tf.config.checks import impossible_memories
from ut_tf.config.network import NetworkConfig
from ut_tf.errors import UserError
from ut_tf.layers.block import Block, BlockContext, PositionContext
from ut_tf.layers.block_sequence import BlockSequence
from ut_tf.layers.cache import CachePosition
from ut_tf.layers.coordinates import Coordinates, positioned
from ut_tf.layers.details import Observer, RecurrenceDetails, StepView
from ut_tf.layers.normalization import LayerNorm
from ut_tf.layers.optional_outputs import OptionalOutputs
from ut_tf.models.universal_transformer.cells import CELLS
from ut_tf.models.universal_transformer.halting.halting import (
    HaltingRule,
    HaltingState,
    HaltingUnit,
    start_halting,
)
from ut_tf.models.universal_transformer.halting.pondernet import (
    divergence,
    expected_states,
    log_distribution,
    stopping_step,
)


@keras.saving.register_keras_serializable("ut_tf")
class Recurrence(OptionalOutputs, keras.layers.Layer):  # type: ignore[misc]
    """A Universal Transformer's encoder or decoder without its embedder and head.

    Args:
      network: NetworkConfig.
      causal: whether positions see only earlier ones (a decoder or a language model; the
        context' bias must say so too).
      with_memory: whether the block attends over an encoder's states.
      with_step_transitions: whether each step has a transition of its own
        (conditional_universal_transformer).
      with_final_norm: whether, pre-norm, one more norm ends the recurrence.
      with_step_outputs: whether, with halting="pondernet", something is answered from each step's
        states (a model's last stack), and not from their expectation; where it is not causal all
        positions of a sequence then halt together, as it has one answer.

    Call arguments:
      inputs: [batch, length, hidden_size], embedded.
      symbol_mask: float32 [batch, length], 0 on padding.
      positions: float32 [batch or 1, length], from 1; with position="learned" their embeddings
        [batch or 1, length, hidden_size].
      context: BlockContext of the block.
      steps: int32 [batch], depth of each example where depth follows from its input's length; None:
        the configured depth.
      training: whether to drop, and which of the training's and the evaluation's depth holds.
      return_attention: whether the details hold the attention weights of every step.
      observer: called with a StepView inside every step (in graph mode: while the step is traced).

    Returns:
      (states [batch, length, hidden_size] in the compute dtype, RecurrenceDetails, whose attention
      weights have an entry for each layer of each step).

    Raises:
      UserError: the network's recurrence does not go with its halting, or has no memory to be
        returned.
    """

    def __init__(
        self,
        network: NetworkConfig,
        causal: bool = False,
        with_memory: bool = False,
        with_step_transitions: bool = False,
        with_final_norm: bool = True,
        with_step_outputs: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.network = network
        self.causal = causal
        self.with_memory = with_memory
        self.with_step_transitions = with_step_transitions
        self.with_final_norm = with_final_norm
        self.with_step_outputs = with_step_outputs
        self.rule = HaltingRule(network, with_step_outputs)
        policy = self.dtype_policy
        cell = CELLS[network.recurrence]
        if cell.sees_earlier_states and (network.halting != "none" or network.steps_per_position):
            raise UserError(
                f"recurrence={network.recurrence} needs a fixed depth: halting=none and"
                " steps_per_position=0."
            )
        if mistakes := impossible_memories(network):
            raise UserError(f"{mistakes[0]}.")
        kinds = {
            "causal": causal,
            "with_memory": with_memory,
            "with_transition": cell.uses_transition,
        }
        options = {
            **kinds,
            "step_transitions": self._table_size() if with_step_transitions else 0,
            "name": "block",
            "dtype": policy,
        }
        several = network.recurrence_layers > 1
        self.block: Any = (
            BlockSequence(network, network.recurrence_layers, **options)
            if several
            else Block(network, **options)
        )
        self.cell = cell(network, name="cell", dtype=policy)
        self.coordinates = Coordinates(
            network, self._table_size(), name="coordinates", dtype=policy
        )
        per_sequence = self.rule.is_pondernet and with_step_outputs and not causal
        self.halting_unit = (
            HaltingUnit(network, per_sequence, causal, name="halting")
            if network.halting != "none"
            else None
        )
        normed = with_final_norm and network.norm == "pre"
        self.final_norm = (
            LayerNorm(network.norm_epsilon, name="final_norm", dtype=policy) if normed else None
        )

    def build(self, input_shape: Any) -> None:
        parts: list[Any] = [
            self.block,
            self.cell,
            self.coordinates,
            self.halting_unit,
            self.final_norm,
        ]
        for part in parts:
            if part is not None and not part.built:
                part.build(input_shape)

    def call(
        self,
        inputs: Any,
        symbol_mask: Any,
        positions: Any,
        context: BlockContext,
        steps: Any = None,
        training: bool = False,
        return_attention: bool = False,
        observer: Observer | None = None,
    ) -> tuple[Any, RecurrenceDetails]:
        context = BlockContext(*context)
        inputs, signal = self._positioned(inputs, positions)
        run = _Run(self, inputs, symbol_mask, signal, context, training, return_attention, observer)
        if self.rule.is_pondernet and training:
            states, details = run.all_steps()
        else:
            states, details = run.fixed(steps) if self.halting_unit is None else run.dynamic()
        return self._finish(states), details

    def project_memory(self, states: Any, rotation: Any = None) -> tuple[Any, Any]:
        """Returns keys and values of an encoder's states [batch, memory_length, hidden_size], for
        the context of every step.

        The block's weights are the same at every step and the encoder's states do not change: one
        projection serves all steps.
        """
        keys_values: tuple[Any, Any] = self.block.project_memory(states, rotation)
        return keys_values

    def prepare(self) -> dict[str, Any]:
        """Returns the weights for ``step``, read, joined and cast once for all positions
        and steps.
        """
        weights = {"block": self.block.prepare(), "cell": self.cell.prepare()}
        signals = self.coordinates.step_signals(self.depth(training=False))
        optional = {"steps": signals, "halting": self.halting_unit, "final_norm": self.final_norm}
        return weights | {
            name: part if name == "steps" else part.prepare()
            for name, part in optional.items()
            if part is not None
        }

    @property
    def cache_count(self) -> int:
        """How many caches ``step`` takes."""
        return self.depth(training=False) * self.network.recurrence_layers

    def empty_caches(self, batch_size: Any, capacity: Any, beam_size: int) -> list[dict[str, Any]]:
        """Returns the caches of ``step`` before the first position: one per recurrent step at
        evaluation and layer of it.
        """
        return self._flat(
            [
                self.block.empty_cache(batch_size, capacity, beam_size)
                for _ in range(self.depth(training=False))
            ]
        )

    def step(
        self,
        inputs: Any,
        weights: dict[str, Any],
        caches: list[dict[str, Any]],
        cache_position: CachePosition,
        positions: Any,
        context: PositionContext,
    ) -> tuple[Any, list[dict[str, Any]]]:
        """Computes one new position of each hypothesis, given the caches of the earlier ones:
        incremental decoding.

        Under dynamic halting every step's cache is filled for the positions to come, whatever the
        step at which this one halts.

        Args:
          inputs: [batch * beam_size, hidden_size], embedded.
          weights: from ``prepare``.
          caches: one per recurrent step and layer, from ``empty_caches`` or an earlier call.
          cache_position: of the new position.
          positions: float32 [batch * beam_size or 1], its coordinate, or its learned embedding.
          context: of the new position.

        Returns:
          (state [batch * beam_size, hidden_size], the new caches).
        """
        inputs, signal = self._positioned(inputs, positions)
        bias = self.block.cache_bias(cache_position, weights["block"])
        run = _PositionRun(self, weights, cache_position, bias, context)
        per_step = self._by_step(caches)
        signals = _sums(signal, weights.get("steps"), len(per_step))
        state, per_step = (run.fixed if self.halting_unit is None else run.dynamic)(
            inputs, signals, per_step
        )
        state = tf.cast(state, self.compute_dtype)
        return (
            state if self.final_norm is None else self.final_norm.step(state, weights["final_norm"])
        ), self._flat(per_step)

    @property
    def threshold(self) -> float:
        """The halting sum above which a position halts."""
        return self.rule.threshold

    def depth(self, training: bool) -> int:
        """Returns the fixed number of steps, or their upper bound under dynamic halting."""
        network = self.network
        fixed = (
            network.num_steps
            if training or network.eval_num_steps is None
            else network.eval_num_steps
        )
        if network.halting == "none":
            return fixed
        bound = 2 * network.num_steps if network.act_max_steps is None else network.act_max_steps
        return (
            bound if training or network.eval_act_max_steps is None else network.eval_act_max_steps
        )

    def _positioned(self, inputs: Any, positions: Any) -> tuple[Any, Any]:
        """Returns (inputs in the compute dtype, with the positions' signal where it is added once;
        the signal of every step, or None).
        """
        if self.network.position_every_step:
            return tf.cast(inputs, self.compute_dtype), self.coordinates.position_signal(positions)
        return positioned(self.network, inputs, positions, self.compute_dtype), None

    def _by_step(self, caches: list[dict[str, Any]]) -> list[Any]:
        """Returns for each step its cache, or the list of its layers' caches."""
        count = self.network.recurrence_layers
        return (
            caches
            if count == 1
            else [caches[first : first + count] for first in range(0, len(caches), count)]
        )

    def _flat(self, per_step: list[Any]) -> list[dict[str, Any]]:
        return (
            per_step
            if self.network.recurrence_layers == 1
            else [cache for caches in per_step for cache in caches]
        )

    def _result(self, state: Any, memory: Any, output: Any) -> Any:
        if self.halting_unit is not None:
            return output
        return memory if self.network.use_memory_as_final_state else state

    def _finish(self, states: Any) -> Any:
        states = tf.cast(states, self.compute_dtype)
        return states if self.final_norm is None else self.final_norm(states)

    def _table_size(self) -> int:
        return max(self.depth(training=True), self.depth(training=False))

    def get_config(self) -> dict[str, Any]:
        names = (
            "causal",
            "with_memory",
            "with_step_transitions",
            "with_final_norm",
            "with_step_outputs",
        )
        return {
            **super().get_config(),
            "network": self.network.to_dict(),
            **{name: getattr(self, name) for name in names},
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Recurrence:
        return cls(**{**config, "network": NetworkConfig.from_dict(config["network"])})


class _Run:
    """One pass through a recurrence: what stays the same over its steps."""

    def __init__(
        self,
        recurrence: Recurrence,
        inputs: Any,
        mask: Any,
        signal: Any,
        context: BlockContext,
        training: bool,
        return_attention: bool,
        observer: Observer | None,
    ) -> None:
        self.recurrence = recurrence
        self.inputs = inputs
        self.mask = tf.cast(mask, tf.float32)
        self.signal = signal
        self.context = context
        self.training = training
        self.observer = observer
        self.attention_parts = (
            (0, 1)
            if return_attention and recurrence.with_memory
            else (0,)
            if return_attention
            else ()
        )

    def fixed(self, steps: Any) -> tuple[Any, RecurrenceDetails]:
        """Runs the configured number of steps, unrolled, or each example's own number in a loop."""
        if steps is not None:
            return self._per_example(steps)
        depth = self.recurrence.depth(self.training)
        state, memory = self.inputs, self.recurrence.cell.start(self.inputs)
        records = []
        for step in range(depth):
            _, state, memory, weights = self._advance(step, state, memory)
            self._observe(step, state, None, None, weights)
            records.append([weights[part] for part in self.attention_parts])
        attention = [tf.stack(part) for part in zip(*records, strict=True)]
        times = float(depth) * self.mask
        return self.recurrence._result(state, memory, None), self._details(
            times, tf.zeros_like(times), self.mask, None, attention
        )

    def dynamic(self) -> tuple[Any, RecurrenceDetails]:
        """Runs until every position has halted, at most act_max_steps steps."""
        recurrence, counted = self.recurrence, self._counted()
        unit, depth = recurrence.halting_unit, recurrence.depth(self.training)
        assert unit is not None

        def unfinished(
            step: Any, state: Any, memory: Any, output: Any, halting: HaltingState, records: Any
        ) -> Any:
            del step, state, memory, output, records
            return tf.reduce_any(halting.halting_sum < recurrence.threshold)

        def body(
            step: Any, state: Any, memory: Any, output: Any, halting: HaltingState, records: Any
        ) -> Any:
            prepared, new_state, memory, weights = self._advance(step, state, memory)
            probability = unit(
                recurrence.rule.looks_at(prepared, new_state), counted=counted, step=step
            )
            new_state, output, halting, running = recurrence.rule.apply(
                probability, step == depth - 1, new_state, state, output, halting
            )
            self._observe(step, new_state, halting, probability, weights)
            probability = tf.where(running, probability, 0.0)
            records = self._record(
                records, step, [probability, *(weights[part] for part in self.attention_parts)]
            )
            return step + 1, new_state, memory, output, halting, records

        output = tf.zeros(tf.shape(self.inputs), tf.float32)
        output.set_shape(self.inputs.shape)
        memory = recurrence.cell.start(self.inputs)
        start = (
            tf.constant(0),
            self.inputs,
            memory,
            output,
            start_halting(counted),
            self._arrays(depth, True),
        )
        # maximum_iterations lets XLA take the gradient of the loop.
        _, _, _, output, halting, records = tf.while_loop(
            unfinished, body, start, maximum_iterations=depth
        )
        probabilities, *attention = [array.stack() for array in records]
        return output, self._details(
            halting.ponder_times, halting.remainders, counted, probabilities, attention
        )

    def all_steps(self) -> tuple[Any, RecurrenceDetails]:
        """Runs all steps, as PonderNet is trained, and keeps their states."""
        recurrence, counted = self.recurrence, self._counted()
        unit, depth = recurrence.halting_unit, recurrence.depth(self.training)
        assert unit is not None

        def body(step: Any, state: Any, memory: Any, states: Any, records: Any) -> Any:
            _, new_state, memory, weights = self._advance(step, state, memory)
            log_odds = unit.log_odds(new_state, counted)
            self._observe(step, new_state, None, tf.sigmoid(log_odds), weights)
            records = self._record(
                records, step, [log_odds, *(weights[part] for part in self.attention_parts)]
            )
            return step + 1, new_state, memory, states.write(step, new_state), records

        states = tf.TensorArray(self.inputs.dtype, depth, element_shape=self.inputs.shape)
        start = (
            tf.constant(0),
            self.inputs,
            recurrence.cell.start(self.inputs),
            states,
            self._arrays(depth, True),
        )
        _, _, _, states, records = tf.while_loop(
            lambda step, *_: step < depth, body, start, maximum_iterations=depth
        )
        log_odds, *attention = [array.stack() for array in records]
        log_shares = log_distribution(tf.ensure_shape(log_odds, [depth, *log_odds.shape[1:]]))
        step_states = tf.ensure_shape(states.stack(), [depth, *self.inputs.shape])
        times = stopping_step(log_shares, recurrence.threshold) * counted
        details = self._details(
            times, tf.zeros_like(times), counted, tf.sigmoid(log_odds), attention
        )._replace(
            divergence=divergence(log_shares, recurrence.network.ponder_prior),
            log_shares=log_shares,
            step_states=recurrence._finish(step_states) if recurrence.with_step_outputs else None,
        )
        return expected_states(log_shares, step_states), details

    def _counted(self) -> Any:
        return tf.ones_like(self.mask) if self.recurrence.network.padding_ponders else self.mask

    def _per_example(self, steps: Any) -> tuple[Any, RecurrenceDetails]:
        def body(step: Any, state: Any, memory: Any, records: Any) -> Any:
            _, new_state, new_memory, weights = self._advance(step, state, memory)
            running = (step < steps)[:, None, None]
            new_state, new_memory = (
                tf.where(running, new_state, state),
                tf.where(running, new_memory, memory),
            )
            self._observe(step, new_state, None, None, weights)
            records = self._record(records, step, [weights[part] for part in self.attention_parts])
            return step + 1, new_state, new_memory, records

        depth = tf.reduce_max(steps)
        start = (
            tf.constant(0),
            self.inputs,
            self.recurrence.cell.start(self.inputs),
            self._arrays(depth, False),
        )
        _, state, memory, records = tf.while_loop(lambda step, *_: step < depth, body, start)
        times = tf.cast(steps, tf.float32)[:, None] * self.mask
        attention = [array.stack() for array in records]
        return self.recurrence._result(state, memory, None), self._details(
            times, tf.zeros_like(times), self.mask, None, attention
        )

    def _advance(self, step: Any, state: Any, memory: Any) -> tuple[Any, Any, Any, tuple[Any, Any]]:
        recurrence = self.recurrence
        seen, memory = recurrence.cell.look(state, memory, step)
        prepared = recurrence.coordinates(seen, step=step, position_signal=self.signal)
        block_output, *weights = recurrence.block(
            prepared, context=self.context, training=self.training, step=step
        )
        new_state, new_memory = recurrence.cell(block_output, state, memory, self.inputs)
        return prepared, new_state, new_memory, (weights[0], weights[1])

    def _observe(
        self,
        step: Any,
        state: Any,
        halting: HaltingState | None,
        probability: Any,
        weights: tuple[Any, Any],
    ) -> None:
        if self.observer is not None:
            self.observer(
                StepView(
                    tf.convert_to_tensor(step), state, halting, probability, weights[0], weights[1]
                )
            )

    def _arrays(self, depth: Any, with_probability: bool) -> tuple[Any, ...]:
        batch, length = self.inputs.shape[:2]
        network = self.recurrence.network
        memory_keys = tf.nest.flatten(self.context.memory_keys)[0]
        memory_length = None if memory_keys is None else memory_keys.shape[2]
        layers = [network.recurrence_layers] if network.recurrence_layers > 1 else []
        shapes = [[batch, length]] if with_probability else []
        shapes += [
            [*layers, batch, network.num_heads, length, (length, memory_length)[part]]
            for part in self.attention_parts
        ]
        return tuple(tf.TensorArray(tf.float32, depth, element_shape=shape) for shape in shapes)

    def _record(self, arrays: tuple[Any, ...], step: Any, values: list[Any]) -> tuple[Any, ...]:
        return tuple(array.write(step, value) for array, value in zip(arrays, values, strict=True))

    def _details(
        self, times: Any, remainders: Any, mask: Any, probabilities: Any, attention: list[Any]
    ) -> RecurrenceDetails:
        if self.recurrence.network.recurrence_layers > 1:
            attention = [
                tf.reshape(part, tf.concat([[-1], tf.shape(part)[2:]], 0)) for part in attention
            ]
        weights = [*attention, None, None]
        return RecurrenceDetails(times, remainders, mask, probabilities, weights[0], weights[1])


class _PositionRun:
    """The steps of one new position of each hypothesis; arguments as for ``Recurrence.step``."""

    def __init__(
        self,
        recurrence: Recurrence,
        weights: dict[str, Any],
        cache_position: CachePosition,
        bias: Any,
        context: PositionContext,
    ) -> None:
        self.recurrence = recurrence
        self.block = recurrence.block
        self.weights = weights
        self.cache_position = cache_position
        self.bias = bias
        self.context = context

    def fixed(self, inputs: Any, signals: list[Any], caches: list[Any]) -> tuple[Any, list[Any]]:
        """Runs one step per cache."""
        cell = self.recurrence.cell
        state, memory = inputs, cell.start(inputs)
        new_caches = []
        for step, (signal, cache) in enumerate(zip(signals, caches, strict=True)):
            seen, memory = cell.look(state, memory, step)
            prepared = self._prepared(seen, signal)
            output, cache = self.block.step(
                prepared,
                self.weights["block"],
                cache,
                self.cache_position,
                self.bias,
                self.context,
                step,
            )
            state, memory = cell.step(output, state, memory, inputs, self.weights["cell"])
            new_caches.append(cache)
        return self.recurrence._result(state, memory, None), new_caches

    def dynamic(self, inputs: Any, signals: list[Any], caches: list[Any]) -> tuple[Any, list[Any]]:
        """Runs one step per cache; once all positions have halted, only as much of each as later
        positions read.
        """
        cell = self.recurrence.cell
        state, memory, output = inputs, cell.start(inputs), tf.zeros_like(inputs, tf.float32)
        halting = start_halting(tf.ones_like(inputs[:, 0], tf.float32))
        new_caches: list[Any] = []
        for step, (signal, cache) in enumerate(zip(signals, caches, strict=True)):
            seen, memory = cell.look(state, memory, step)
            prepared = self._prepared(seen, signal)
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
        network = self.recurrence.network
        return (
            self.recurrence.rule.copies
            and network.transition == "fc"
            and network.recurrence_layers == 1
        )

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
        recurrence, weights = self.recurrence, self.weights
        assert recurrence.halting_unit is not None
        around = (weights["block"], cache, self.cache_position, self.bias, self.context, step)
        block_output, cache = (
            self.block.step(prepared, *around)
            if queries is None
            else self.block.proceed(prepared, queries, *around)
        )
        new_state, memory = recurrence.cell.step(
            block_output, state, memory, inputs, weights["cell"]
        )
        probability = recurrence.halting_unit.step(
            recurrence.rule.looks_at(prepared, new_state), weights["halting"]
        )
        last = step == recurrence.depth(training=False) - 1
        new_state, output, halting, _ = recurrence.rule.apply(
            probability, last, new_state, state, output, halting
        )
        return new_state, memory, output, halting, cache

    def _prepared(self, state: Any, signal: Any) -> Any:
        return (
            state
            if signal is None
            else tf.cast(tf.cast(state, tf.float32) + signal, self.recurrence.compute_dtype)
        )


def _sums(signal: Any, steps: Any, count: int) -> list[Any]:
    """Returns what is added to the state at each step: position signal [rows or 1, hidden_size] or
    None plus its row of `steps` or None.
    """
    if steps is None:
        return [signal] * count
    steps = steps[:, None]
    return list(tf.unstack(steps if signal is None else signal + steps, count))
