"""The recurrence: a block repeated over all positions in parallel, for a fixed number of steps or
until every position halts.

    for step in range(max_steps):                                 # figure 4 of arXiv 1807.03819
        prepared = coordinates(state, step)                       # + position and step
        new_state = cell(block(prepared), state)                  # attention, transition
        state, output = halting.advance(halting.probabilities(prepared, new_state), ...)

``step.py`` has the step, ``depth.py`` says how often it is repeated, and ``loops.py``,
``compact_loop.py`` and ``position_loop.py`` repeat it.
A halted position's state is copied to the next step (halted_states="copy"), so what others read of
it no longer changes. Positions outside the mask have halted from the start unless padding_ponders.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import keras
import tensorflow as tf

from ut_tf.errors import UserError
from ut_tf.ids import is_compiled_by_xla
from ut_tf.layers.block import BlockContext
from ut_tf.layers.composite import Composite, build_parts
from ut_tf.layers.contracts import BlockLike, PositionInputs, StackInputs
from ut_tf.layers.coordinates import Coordinates, add_signal
from ut_tf.layers.optional_outputs import OptionalOutputs
from ut_tf.layers.recurrence_details import RecurrenceDetails
from ut_tf.models.universal_transformer.all_steps import AllSteps, EveryStep
from ut_tf.models.universal_transformer.cells import BasicCell, refuse_depth
from ut_tf.models.universal_transformer.compact_loop import (
    CompactLoop,
    can_skip_halted,
    computes_on_gpu,
    reads_only_keys,
)
from ut_tf.models.universal_transformer.depth import (
    Depth,
    DepthPerExample,
    Drawn,
    EarlyExit,
    UntilHalted,
)
from ut_tf.models.universal_transformer.exit_rules import AfterSteps, ExitRule
from ut_tf.models.universal_transformer.given_depth import InSlots, ToDepth
from ut_tf.models.universal_transformer.halting.base import Halting
from ut_tf.models.universal_transformer.initial_state import InitialState
from ut_tf.models.universal_transformer.injection import InputInjection
from ut_tf.models.universal_transformer.loops import LoopInputs, Watch, WholeLoop
from ut_tf.models.universal_transformer.position_loop import PositionHalting, PositionLoop
from ut_tf.models.universal_transformer.step import Carry, RecurrentStep
from ut_tf.models.universal_transformer.train_depth import TrainDepth
from ut_tf.models.universal_transformer.two_levels import Levels, TwoLevelStep


@keras.saving.register_keras_serializable("ut_tf")
class Recurrence(OptionalOutputs, Composite):
    """A Universal Transformer's encoder or decoder without its embedder and head.

    Args:
      block: what is repeated: a ``Block``, or a ``BlockSequence`` of several in turn.
      cell: how states combine.
      halting: when it stops.
      coordinates: what is added to the states, or concatenated with them, before each step.
      exit_rule: ``ExitRule`` by which positions stop at inference, besides their halting, or None.
      train_exit: whether positions that exit by the rule keep their states in training, too.
      final_norm: ``LayerNorm`` of the result (pre-norm), or None.
      train_depth: ``TrainDepth`` that draws the depth in training, or None.
      injection: ``InputInjection`` of the inputs into what the block reads, or None.
      initial_state: ``InitialState``, or None: the cell decides where the state begins.
      outer_norm: norm of the state that ends each step, or None.
      state_update: share of a step's result in the new state.
      q_head: ``Linear`` to two values of the first position's state, or None; the details of a call
        hold them.
      levels: ``Levels`` of a step of two levels, whose low block is `block`; None: there is one
        level.
      position_every_step: whether positions are added at every step, or to the inputs alone.
      use_memory_as_final_state: whether the result is the cell's memory in the place of its state.
      halting_compute: "compact": positions that have halted are not computed; "dense": all are;
        "auto": compact where exact, off GPUs. XLA, an observer and attention weights need dense.

    Call arguments:
      inputs: [batch, length, hidden_size], embedded.
      symbol_mask, position_signal, context, return_attention: fields of StackInputs for callers
        without `given`, such as functional models, whose layers take tensors one by one.
      training: whether to drop, and which of the training's and the evaluation's depth holds.
      given: StackInputs, in the place of its fields.

    Returns:
      (states [batch, length, hidden_size] in the compute dtype, RecurrenceDetails, whose attention
      weights have an entry for each layer of each step).

    Raises:
      UserError: the cell does not go with the halting, has no memory to be returned, or has a layer
        that is not built; or an exit rule lacks its head.
    """

    # Stored weights have the name of 0.1.
    attributes: ClassVar[Mapping[str, str]] = {"halting": "halting_unit"}

    def __init__(
        self,
        block: BlockLike,
        cell: BasicCell,
        halting: Halting,
        coordinates: Coordinates,
        exit_rule: ExitRule | None = None,
        train_exit: bool = False,
        final_norm: Any = None,
        train_depth: TrainDepth | None = None,
        injection: InputInjection | None = None,
        initial_state: InitialState | None = None,
        outer_norm: Any = None,
        state_update: float = 1.0,
        levels: Levels | None = None,
        q_head: Any = None,
        position_every_step: bool = True,
        use_memory_as_final_state: bool = False,
        halting_compute: str = "auto",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.block: Any = block
        self.cell = cell
        self.coordinates = coordinates
        self.halting_unit = halting
        self.exit_rule = exit_rule
        self.train_exit = train_exit
        self.final_norm = final_norm
        self.train_depth = train_depth
        self.injection = injection
        self.initial_state = initial_state
        self.outer_norm = outer_norm
        self.state_update = state_update
        self.levels = levels
        self.q_head = q_head
        # For calls without the number of the update, as in ``fit``.
        self.depth_seeds = None if train_depth is None else keras.random.SeedGenerator()
        self.position_every_step = position_every_step
        self.use_memory_as_final_state = use_memory_as_final_state
        self.halting_compute = halting_compute
        self.layers_per_step = block.layers_per_step
        if cell.sees_earlier_states and (halting.dynamic or exit_rule is not None):
            refuse_depth(cell)
        if use_memory_as_final_state and (halting.dynamic or not cell.has_final_memory):
            raise UserError(
                "`use_memory_as_final_state`=True needs a cell with a memory and a halting form of"
                f" fixed depth (LSTMCell and FixedDepth), not {type(cell).__name__} with"
                f" {type(halting).__name__}."
            )

        most: list[Any] = [halting.max_steps(training) for training in (True, False)]
        for steps in most:
            if isinstance(steps, float) or (isinstance(steps, int) and steps < 1):
                name = type(halting).__name__
                raise UserError(f"{name} takes {steps} steps: expected a whole number from 1.")
        if halting_compute == "compact" and not can_skip_halted(self.recurrent_step, halting):
            raise UserError(
                "halting_compute=compact needs positions that halt by themselves and stay as they"
                " are: halting=basic or accumulated with halted_states=copy, recurrence_layers=1,"
                " transition=fc, position_shift=none and no activity_regularizer; set"
                " halting_compute=auto."
            )

    def build(self, input_shape: Any) -> None:
        parts = [self.block, self.cell, self.coordinates, self.halting_unit, self.final_norm]
        parts += [self.injection, self.initial_state, self.outer_norm, self.levels, self.q_head]
        build_parts(parts, input_shape)
        if unbuilt := [part for part in self.cell._flatten_layers() if not part.built]:
            raise UserError(
                f"{type(self.cell).__name__} has the layer {unbuilt[0].name!r}, which is not built:"
                " define build(input_shape), and call the layer's build there."
            )

    def call(
        self,
        inputs: Any,
        symbol_mask: Any = None,
        position_signal: Any = None,
        context: BlockContext | None = None,
        training: bool = False,
        return_attention: bool = False,
        given: StackInputs | None = None,
    ) -> tuple[Any, RecurrenceDetails]:
        if given is None:
            given = StackInputs(symbol_mask, position_signal, context, None, return_attention)
        mask = tf.ones(tf.shape(inputs)[:2]) if given.symbol_mask is None else given.symbol_mask
        mask = tf.cast(mask, tf.float32)
        inputs, signal = self._add_positions(inputs, given.position_signal)
        loop_inputs = LoopInputs(inputs, signal, given.block_context(), training)
        watch = Watch(given.observer, given.return_attention, self.finish, self.q_head)
        counted = self.halting_unit.counted(mask)
        step = self.recurrent_step
        if given.feedback is not None:
            step.feedback = self._feedback(given.feedback, given.head)
        if given.to_depth is None:
            depth = self._depth(given, training)
        else:
            depth = self._to_depth(given, training, counts_all=not self._skips_halted(watch, given))
        carry = self._start(step, inputs, given)
        if depth.halts and given.carry is None and self._skips_halted(watch, given):
            states, details = CompactLoop(step, loop_inputs).repeated(depth, carry, counted, mask)
        else:
            loop = WholeLoop(step, loop_inputs, watch)
            kept: Any = ()
            if depth.unrolls:
                taken = depth.bound
                carry, attention = loop.unrolled(depth, carry)
            else:
                carry, kept, taken, attention = loop.repeated(depth, carry, counted)
            states, details = depth.result(carry, kept, counted, mask, taken)
            details = loop.with_attention(details, attention)
            if self.q_head is not None:
                details = details._replace(q_values=self.q_head(carry.state[:, 0]))
        if given.carry is not None:
            details = details._replace(carry=carry)
        if details.step_states is not None:
            details = details._replace(step_states=self.finish(details.step_states))
        return self.finish(states), details

    @property
    def goes_deeper(self) -> bool:
        """Whether a call takes ``to_depth``: not where the memory of the cell grows with it,
        positions depend on it, or halting draws numbers.
        """
        return (
            not self.cell.sees_earlier_states
            and self.coordinates.position_shift == "none"
            and self.halting_unit.seed_generator is None
        )

    @staticmethod
    def _start(step: RecurrentStep, inputs: Any, given: StackInputs) -> Carry:
        """The carry before the first step of a call."""
        if given.to_depth is not None and given.to_depth.progress is not None:
            progress, fresh = given.to_depth.progress, given.to_depth.fresh
            return step.begun(inputs, progress.carry, fresh, given.keys)
        return step.begun(inputs, given.carry, given.fresh, given.keys)

    def _feedback(self, feedback: Any, head: Any) -> Callable[[Any], Any]:
        """Returns what is added to states before the next step, given what they answer with."""
        return lambda states: feedback(tf.nn.softmax(head(self.finish(states))))

    def _to_depth(self, given: StackInputs, training: bool, counts_all: bool) -> Depth:
        if training or given.steps is not None or not self.goes_deeper:
            raise UserError(
                "`to_depth` is for evaluation at one depth for all examples, without"
                " recurrence=dwa, position_shift and random halting: leave it or them out."
            )
        in_slots = given.to_depth.by_example
        bound = self._evaluation_steps if in_slots else given.to_depth.steps
        depth = self._in_use(bound, self._rule(given), given)
        if in_slots:
            return InSlots(depth, given.to_depth)
        return ToDepth(depth, given.to_depth, counts_all)

    def _depth(self, given: StackInputs, training: bool) -> Depth:
        """The depth of a call."""
        unit = self.halting_unit
        rule = None if training else self._rule(given)
        if given.steps is not None:
            if self.cell.sees_earlier_states:
                refuse_depth(self.cell)
            if rule is not None:
                raise UserError(
                    f"`steps` and the exit rule {type(rule).__name__} both set the depth: leave one"
                    " of them out."
                )
            return DepthPerExample(given.steps, self._final_state)
        bound = unit.max_steps(training)
        if training and given.depth is not None:
            without, with_gradient = tf.unstack(given.depth)
            return Drawn(without, with_gradient, bound, self._final_state)
        if training and given.every_step:
            return EveryStep(bound, self._final_state, self._train_exits(bound, given))
        if training and self.train_depth is not None:
            return self._drawn(self.train_depth, given)
        if unit.dynamic and training and unit.trains_all_steps:
            return AllSteps(unit, bound)
        return self._in_use(bound, rule, given)

    def _rule(self, given: StackInputs) -> ExitRule | None:
        """The exit rule of a call at inference."""
        if given.exit_steps is None:
            return self.exit_rule
        if self.cell.sees_earlier_states:
            refuse_depth(self.cell)
        return AfterSteps(given.exit_steps)

    def _train_exits(self, bound: Any, given: StackInputs) -> EarlyExit | None:
        """The depth by whose rule positions exit in training, too."""
        if self.exit_rule is None or not self.train_exit:
            return None
        unit = UntilHalted(self.halting_unit, bound)
        return self._exiting(unit, self.exit_rule, given.head, self.finish)

    def _in_use(self, bound: Any, rule: ExitRule | None, given: StackInputs) -> Depth:
        """The depth of a call, given its exit rule, where nothing is drawn and not all steps are
        kept.
        """
        unit = self.halting_unit
        if rule is not None:
            return self._exiting(UntilHalted(unit, bound), rule, given.head, self.finish)
        return UntilHalted(unit, bound) if unit.dynamic else Depth(bound, self._final_state)

    def _drawn(self, train_depth: TrainDepth, given: StackInputs) -> Drawn:
        """The depth that is drawn for a call in training."""
        seed = given.update
        if seed is None:
            assert self.depth_seeds is not None
            seed = tf.cast(self.depth_seeds.next(), tf.int64)
        return Drawn(*train_depth.checked_draw(seed), train_depth.backprop_steps, self._final_state)

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
        weights = self.recurrent_step.prepare(self._evaluation_steps)
        weights["halting"] = self.halting_unit.prepare()
        if self.final_norm is not None:
            weights["final_norm"] = self.final_norm.prepare()
        return weights

    @property
    def cache_count(self) -> int:
        """The number of caches that ``step`` takes."""
        return self._evaluation_steps * (self.layers_per_step or 1)

    def empty_caches(self, batch_size: Any, capacity: Any, beam_size: int) -> list[dict[str, Any]]:
        """Returns the caches of ``step`` before the first position: one per recurrent step at
        evaluation and layer of it.
        """
        return self._flat(
            [
                self.block.empty_cache(batch_size, capacity, beam_size)
                for _ in range(self._evaluation_steps)
            ]
        )

    def step(
        self,
        inputs: Any,
        weights: dict[str, Any],
        caches: list[dict[str, Any]],
        given: PositionInputs,
    ) -> tuple[Any, list[dict[str, Any]]]:
        """Computes one new position of each hypothesis; arguments are those of
        ``contracts.Stack.step``, with a cache for each recurrent step and layer.

        Under dynamic halting every step's cache is filled for the positions to come, whatever the
        step at which this one halts.
        """
        state, _, caches = self.position_steps(inputs, weights, caches, given)
        return state, caches

    def position_steps(
        self,
        inputs: Any,
        weights: dict[str, Any],
        caches: list[dict[str, Any]],
        given: PositionInputs,
        first: int = 0,
        progress: Any = None,
    ) -> tuple[Any, Any, list[dict[str, Any]]]:
        """Does some of the steps of ``step``: those from `first` on, as many as there are caches,
        after `progress`. Returns (states [rows, hidden_size], as if these steps were the last, the
        progress, the new caches).
        """
        inputs, signal = self._add_positions(inputs, given.position_signal)

        def finish(state: Any) -> Any:
            state = tf.cast(state, self.compute_dtype)
            if self.final_norm is None:
                return state
            return self.final_norm.step(state, weights["final_norm"])

        step, unit, per_step = self.recurrent_step, self.halting_unit, self._by_step(caches)
        loop = PositionLoop(step, weights, given._replace(position_signal=signal), inputs, first)
        halts, most = unit.dynamic or self.exit_rule is not None, self._evaluation_steps
        halted = UntilHalted(unit, most, keeps_probabilities=False)
        depth: Depth = halted if halts else Depth(most, self._final_state)
        if self.exit_rule is not None:
            depth = self._exiting(halted, self.exit_rule, given.head, finish)
        progress = loop.start(depth) if progress is None else progress
        if halts:
            halting = PositionHalting(
                lambda read, state, index: unit.step(read, state, weights["halting"], index),
                reads_only_keys(step, unit),
                self.halting_compute == "dense",
            )
            progress, per_step = loop.until_halted(depth, halting, progress, per_step)
        else:
            progress, per_step = loop.unrolled(progress, per_step)
        output, taken = depth.output(*progress), first + len(per_step)
        if halts and taken < most:
            running = depth.active(taken, progress.kept)[:, None]
            output = tf.where(running, tf.cast(progress.carry.state, output.dtype), output)
        return finish(output), progress, self._flat(per_step)

    @property
    def threshold(self) -> float:
        """The halting sum at which a position halts."""
        return self.halting_unit.threshold

    @property
    def recurrent_step(self) -> RecurrentStep:
        """The recurrent step, which all loops repeat."""
        parts = (
            self.cell,
            self.coordinates,
            self.block,
            self.injection,
            self.initial_state,
            self.outer_norm,
            self.state_update,
        )
        if self.levels is None:
            return RecurrentStep(*parts)
        return TwoLevelStep(self.levels, *parts)

    def _final_state(self, carry: Carry) -> Any:
        """The result at fixed depth, of the carry after the last step."""
        return carry.memory if self.use_memory_as_final_state else carry.state

    def _exiting(
        self,
        depth: UntilHalted,
        rule: ExitRule,
        head: Callable[[Any], Any] | None,
        finish: Callable[[Any], Any],
    ) -> EarlyExit:
        """Returns the depth with an exit rule; `finish` makes the states that `head` reads from
        outputs.
        """
        if rule.reads_q_values:
            return EarlyExit(depth, rule, lambda outputs: self.q_head(outputs[:, 0]))
        if not rule.reads_logits:
            return EarlyExit(depth, rule, None)
        if head is None:
            raise UserError(
                f"the exit rule {type(rule).__name__} reads logits: call the layer with the `head`"
                " that makes them."
            )
        return EarlyExit(depth, rule, lambda outputs: head(finish(outputs)))

    def _skips_halted(self, watch: Watch, given: StackInputs) -> bool:
        """Whether only active positions are computed; not where somebody watches all of them, or
        others read more of a halted one than its state.
        """
        if self.halting_compute == "dense" or watch or is_compiled_by_xla():
            return False
        by_example = given.to_depth is not None and given.to_depth.by_example
        if by_example or self.q_head is not None or given.feedback is not None:
            return False
        # A GPU computes all positions sooner than it gathers some.
        if self.halting_compute == "auto" and computes_on_gpu():
            return False
        return can_skip_halted(self.recurrent_step, self.halting_unit)

    @property
    def _evaluation_steps(self) -> int:
        return self.halting_unit.max_steps(training=False)

    def _add_positions(self, inputs: Any, signal: Any) -> tuple[Any, Any]:
        """Returns (inputs in the compute dtype, with the signal if it is added once; the signal of
        every step, or None).
        """
        if self.position_every_step:
            return tf.cast(inputs, self.compute_dtype), signal
        return add_signal(inputs, signal, self.compute_dtype), None

    def _by_step(self, caches: list[dict[str, Any]]) -> list[Any]:
        """Returns for each step its cache, or the list of its layers' caches."""
        count = self.layers_per_step
        if count is None:
            return caches
        return [caches[first : first + count] for first in range(0, len(caches), count)]

    def _flat(self, per_step: list[Any]) -> list[dict[str, Any]]:
        if self.layers_per_step is None:
            return per_step
        return [cache for caches in per_step for cache in caches]

    def finish(self, states: Any) -> Any:
        """Returns outputs [batch, length, hidden_size] in the compute dtype, through the final norm
        if there is one.
        """
        states = tf.cast(states, self.compute_dtype)
        return states if self.final_norm is None else self.final_norm(states)
