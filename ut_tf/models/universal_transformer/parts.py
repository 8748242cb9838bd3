"""Makes a Universal Transformer's encoder or decoder from its configuration."""

from typing import Any

from ut_tf import registry
from ut_tf.errors import UserError
from ut_tf.layers.block_sequence import BlockSequence
from ut_tf.layers.coordinates import Coordinates
from ut_tf.layers.linear import Linear
from ut_tf.layers.recurrent_layer import RecurrentLayer
from ut_tf.models.memory_transformer.memory import MemoryStack, MemoryVectors, PuzzleVectors
from ut_tf.models.parts_from_config import (
    make_block,
    make_chosen,
    make_final_norm,
    make_layer_stack,
    make_named_norm,
    make_part,
    make_position_encoding,
)
from ut_tf.models.universal_transformer.exit_rules import ExitRule
from ut_tf.models.universal_transformer.halting.base import Halting
from ut_tf.models.universal_transformer.mixed import MixedStack
from ut_tf.models.universal_transformer.recurrence import Recurrence
from ut_tf.models.universal_transformer.two_levels import Levels


def make_halting(config: Any, **offered: Any) -> Halting:
    """The halting form that the configuration names."""
    halting: Halting = make_chosen(
        registry.halting_forms, config, "halting", name="halting", **offered
    )
    return halting


def make_exit_rule(config: Any, with_position_outputs: bool) -> ExitRule | None:
    """Returns the exit rule that the configuration names; None where there is none, or where it
    reads logits and the model does not answer at each position.
    """
    rule: ExitRule | None = make_chosen(registry.exit_rules, config, "eval_exit")
    return None if rule is None or (rule.reads_logits and not with_position_outputs) else rule


def make_recurrence(
    config: Any,
    causal: bool = False,
    with_memory: bool = False,
    with_step_transitions: bool = False,
    with_step_outputs: bool = False,
    with_position_outputs: bool = False,
    with_final_norm: bool = True,
    name: str = "recurrence",
    dtype: Any = None,
) -> Recurrence:
    """A recurrence.

    Args:
      config: UniversalTransformerConfig.
      causal: whether positions see only earlier ones (a decoder or a language model).
      with_memory: whether the block attends over an encoder's states.
      with_step_transitions: whether each step has a transition of its own
        (conditional_universal_transformer).
      with_step_outputs: whether something is answered from the recurrence's states (a model's last
        stack), so that halting="pondernet" answers from every step's.
      with_position_outputs: whether each position is answered from for itself, as in a decoder and
        with aligned targets.
      with_final_norm: whether, pre-norm, one more norm ends the recurrence.
      name, dtype: of the layer.

    Raises:
      UserError: parts do not go together.
    """
    cell = make_chosen(registry.cells, config, "recurrence", name="cell", dtype=dtype)
    if with_step_transitions and not cell.uses_transition:
        raise UserError(
            f"recurrence={config.recurrence} takes the transition's place, and a"
            " conditional_universal_transformer has one for each step: choose another recurrence."
        )
    with_position_outputs = with_position_outputs or causal
    halting = make_halting(
        config,
        causal=causal,
        with_step_outputs=with_step_outputs,
        with_position_outputs=with_position_outputs,
    )
    train_depth = make_chosen(registry.train_depths, config, "train_depth")
    depth = max(halting.max_steps(training) for training in (True, False))
    if train_depth is not None:
        depth = max(depth, train_depth.max_steps)
    options = {
        "causal": causal,
        "with_memory": with_memory,
        "with_transition": cell.uses_transition,
        "step_transitions": depth if with_step_transitions else 0,
        "dtype": dtype,
    }
    block = _make_blocks(config, "block", **options)
    coordinates = make_part(
        Coordinates,
        config,
        max_steps=depth,
        step_sinusoid=make_position_encoding(config).step_sinusoid,
        name="coordinates",
        dtype=dtype,
    )
    injection = make_chosen(
        registry.input_injections, config, "input_injection", name="injection", dtype=dtype
    )
    initial_state = _make_initial_state(config, "initial_state", dtype)
    levels = None
    if config.H_cycles:
        levels = make_part(
            Levels,
            config,
            high_block=_make_blocks(config, "high_block", **options) if config.two_nets else None,
            initial_low_state=_make_initial_state(config, "initial_low_state", dtype),
            name="levels",
            dtype=dtype,
        )
    q_head = None
    if config.q_head:
        # At first Q values are -5 (HRM, TRM).
        q_head = Linear(2, True, "zeros", -5.0, name="q_head", dtype="float32")
    recurrence: Recurrence = make_part(
        Recurrence,
        config,
        block=block,
        cell=cell,
        halting=halting,
        coordinates=coordinates,
        train_depth=train_depth,
        injection=injection,
        initial_state=initial_state,
        levels=levels,
        q_head=q_head,
        exit_rule=make_exit_rule(config, with_position_outputs),
        train_exit=config.train_exit,
        final_norm=make_final_norm(config, dtype) if with_final_norm else None,
        outer_norm=make_named_norm(config, "outer_norm", dtype) if config.outer_norm else None,
        name=name,
        dtype=dtype,
    )
    return recurrence


def _make_blocks(config: Any, name: str, **options: Any) -> Any:
    """The block of a step, or its blocks in turn."""
    if config.recurrence_layers == 1:
        return make_block(config, name=name, **options)
    blocks = [
        make_block(config, name=f"block_{number}", **options)
        for number in range(config.recurrence_layers)
    ]
    return BlockSequence(blocks, name=name, dtype=options["dtype"])


def _make_initial_state(config: Any, name: str, dtype: Any) -> Any:
    return make_chosen(registry.initial_states, config, "initial_state", name=name, dtype=dtype)


def make_stack(
    config: Any,
    causal: bool = False,
    with_memory: bool = False,
    with_step_transitions: bool = False,
    with_step_outputs: bool = False,
    with_position_outputs: bool = False,
    name: str = "stack",
    dtype: Any = None,
) -> Recurrence | MixedStack | MemoryStack:
    """A recurrence, or where the configuration asks for it a ``MixedStack`` with other layers
    before and behind it; arguments as for ``make_recurrence``.
    """
    own = {
        "with_step_transitions": with_step_transitions,
        "with_step_outputs": with_step_outputs,
        "with_position_outputs": with_position_outputs,
    }
    options = {"causal": causal, "with_memory": with_memory, "dtype": dtype}
    if config.memory_tokens and not causal:
        inner = config.change(memory_tokens=0)
        stack = make_stack(inner, **own, with_memory=with_memory, name="stack", dtype=dtype)
        memory = _make_memory(config, dtype)
        positions = config.memory_positions
        options = {"memory_positions": positions, "observes_memory": False, "name": name}
        options["rotary_base"] = config.rotary_base
        return MemoryStack(memory, stack, **options, dtype=dtype)
    around = config.mix_layers_before + config.mix_layers_after
    if not around and config.recurrent_layer == "none":
        return make_recurrence(config, **own, **options, name=name)
    recurrent = before = after = None
    if config.recurrent_layer != "none":
        recurrent = make_part(RecurrentLayer, config, causal=causal, name="recurrent", dtype=dtype)
    if config.mix_layers_before:
        before = make_layer_stack(
            config, config.mix_layers_before, with_final_norm=False, name="before", **options
        )
    ends = config.mix_layers_after == 0
    recurrence = make_recurrence(config, **own, **options, with_final_norm=ends, name="recurrence")
    if not ends:
        after = make_layer_stack(config, config.mix_layers_after, name="after", **options)
    between = config.norm_after_recurrence and not ends
    return MixedStack(recurrence, recurrent, before, after, between, name=name, dtype=dtype)


def _make_memory(config: Any, dtype: Any) -> MemoryVectors:
    if not config.num_puzzles:
        return MemoryVectors(config.memory_tokens, config.hidden_size, name="memory", dtype=dtype)
    width = config.hidden_size
    scale = width**0.5 if config.embedding_scale == "sqrt" else 1.0
    return PuzzleVectors(
        config.memory_tokens,
        width,
        config.num_puzzles,
        config.puzzle_size or width,
        scale,
        name="memory",
        dtype=dtype,
    )
