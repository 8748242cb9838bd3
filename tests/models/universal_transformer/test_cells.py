"""The cells' equations against numpy, and what several layers in a step and transitions per step
compute.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from ut_tf import registry
from ut_tf.config.hparams import HParams
from ut_tf.errors import UserError
from ut_tf.layers.block import BlockContext
from ut_tf.layers.contracts import StackInputs
from ut_tf.layers.coordinates import paper_sinusoid
from ut_tf.models.parts_from_config import make_part
from ut_tf.models.transformer.config import TransformerConfig
from ut_tf.models.transformer.model import Transformer
from ut_tf.models.universal_transformer.config import (
    UniversalTransformerConfig,
)
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig as Config
from ut_tf.models.universal_transformer.model import UniversalTransformer
from ut_tf.models.universal_transformer.parts import make_recurrence, make_stack
from ut_tf.problem_spec import ProblemSpec

D = 4
SMALL: dict[str, Any] = {
    "hidden_size": D,
    "filter_size": 8,
    "num_heads": 2,
    "num_steps": 2,
    "dropout": 0.0,
}
RANDOM = np.random.default_rng(0)
STATE, OUTPUT, INPUT = (RANDOM.normal(size=(2, 3, D)).astype(np.float32) for _ in range(3))


def _cell(name: str, **changes: Any) -> Any:
    return make_part(registry.cells.get(name), Config(**{**SMALL, "recurrence": name, **changes}))


def _randomized(layer: Any) -> Any:
    keras.utils.set_random_seed(1)
    layer.build((None, None, D))
    for variable in layer.trainable_variables:
        variable.assign(variable + RANDOM.normal(scale=0.3, size=variable.shape))
    return layer


def _normed(x: Any, norm: Any) -> Any:
    centered = x - x.mean(-1, keepdims=True)
    return (
        centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-6) * norm.scale.numpy()
        + norm.bias.numpy()
    )


def _sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


def _gate(cell: Any, name: str) -> Any:
    norms = (cell.state_norm, cell.output_norm, cell.input_norm)
    joined = np.concatenate(
        [_normed(x, norm) for x, norm in zip((STATE, OUTPUT, INPUT), norms, strict=True)], -1
    )
    linear = getattr(cell, f"{name}_gate")
    return _sigmoid(joined @ linear.kernel.numpy() + linear.bias.numpy())


@pytest.mark.parametrize(("name", "carried"), [("highway", STATE), ("skip", INPUT)])
@pytest.mark.parametrize("coupled", [True, False])
def test_highway_and_skip_mix_what_is_carried_with_the_block_s_output(
    name: str, carried: np.ndarray, coupled: bool
) -> None:
    cell = _randomized(_cell(name, couple_carry_transform_gates=coupled))
    transform = _gate(cell, "transform")
    carry = 1.0 - transform if coupled else _gate(cell, "carry")
    new_state, memory = cell(OUTPUT, STATE, STATE, INPUT)
    assert_close(new_state, carried * carry + OUTPUT * transform, 1e-6)
    np.testing.assert_array_equal(memory, STATE)
    rows = [tf.constant(x[:, 0]) for x in (OUTPUT, STATE, STATE, INPUT)]
    assert_close(cell.step(*rows, cell.prepare())[0], new_state[:, 0], 1e-6)


def _mixture(cell: Any, states: list[Any]) -> Any:
    embedded = np.stack(
        [state + 2.0 * row for state, row in zip(states, cell.depth_table.numpy(), strict=False)]
    )
    scores = np.exp(embedded @ cell.score_kernel.numpy())
    return (embedded * scores / scores.sum(0)).sum(0)


def test_depthwise_attention_weighs_the_states_of_all_steps_so_far() -> None:
    cell = _randomized(_cell("dwa", num_steps=3))
    memory, states = cell.initial_memory(INPUT), [INPUT, STATE, OUTPUT]
    for step, state in enumerate(states):
        seen, memory = cell.block_input(tf.constant(state), memory, INPUT, step)
        assert_close(seen, _mixture(cell, states[: step + 1]), 1e-5)
    np.testing.assert_array_equal(cell(OUTPUT, STATE, memory, INPUT)[0], OUTPUT)


def _called(recurrence: Any, inputs: Any, **options: Any) -> Any:
    length = inputs.shape[1]
    positions = tf.range(1, length + 1, dtype=tf.float32)[None]
    return recurrence(
        inputs,
        given=StackInputs(
            tf.ones(inputs.shape[:2]), paper_sinusoid(positions, D), BlockContext(), **options
        ),
    )


def _prepared(recurrence: Any, state: Any, step: int) -> Any:
    positions = tf.range(1, state.shape[1] + 1, dtype=tf.float32)[None]
    return recurrence.coordinates(state, step=step, position_signal=paper_sinusoid(positions, D))


@pytest.mark.parametrize("steps", [None, [2, 2]])
def test_the_memory_of_an_lstm_may_be_its_final_state(steps: list[int] | None) -> None:
    recurrence = _randomized(
        make_recurrence(Config(**SMALL, recurrence="lstm", use_memory_as_final_state=True))
    )
    state, memory = tf.constant(INPUT), tf.zeros_like(INPUT)
    for step in range(2):
        output = recurrence.block(_prepared(recurrence, state, step), context=BlockContext())[0]
        state, memory = recurrence.cell(output, state, memory, INPUT)
    found, _ = _called(
        recurrence, tf.constant(INPUT), steps=None if steps is None else tf.constant(steps)
    )
    assert_close(found, memory, 1e-5)
    assert np.abs(found - state).max() > 1e-2


def test_depthwise_attention_needs_a_fixed_depth() -> None:
    with pytest.raises(UserError, match="needs recurrence=basic, highway or skip, not dwa"):
        Config(**SMALL, recurrence="dwa", halting="basic")
    recurrence = make_recurrence(Config(**SMALL, recurrence="dwa"))
    with pytest.raises(UserError, match="needs the same depth for all positions"):
        _called(recurrence, tf.constant(INPUT), steps=tf.constant([1, 2]))


def test_the_layers_of_a_step_follow_one_another_with_an_attention_each() -> None:
    recurrence = _randomized(make_recurrence(Config(**SMALL, recurrence_layers=2)))
    state, weights = tf.constant(INPUT), []
    for step in range(2):
        state = _prepared(recurrence, state, step)
        for block in recurrence.block.blocks:
            state, attention, _ = block(state, context=BlockContext())
            weights.append(attention)
    output, details = _called(recurrence, tf.constant(INPUT), return_attention=True)
    assert_close(output, state, 1e-5)
    assert_close(details.attention_weights, weights, 1e-6)


@pytest.mark.parametrize("recurrence_layers", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_loop_takes_each_step_s_own_transition(recurrence_layers: int) -> None:
    """A halting unit that never halts goes through as many steps as a fixed depth has, in a loop
    instead of one by one.
    """
    sizes = {**SMALL, "recurrence_layers": recurrence_layers}
    fixed = _randomized(make_recurrence(Config(**sizes), with_step_transitions=True))
    looped = make_recurrence(
        Config(**sizes, halting="basic", act_max_steps=2, act_halting_bias_init=-50.0),
        with_step_transitions=True,
    )
    looped.build((None, None, D))
    for one, other in ((looped.block, fixed.block), (looped.cell, fixed.cell)):
        one.set_weights(other.get_weights())
    seen: list[Any] = []
    _called(looped, tf.constant(INPUT), observer=seen.append)
    assert_close(seen[-1].state, _called(fixed, tf.constant(INPUT))[0], 1e-5)


SMALL_MODEL: dict[str, Any] = {
    "hidden_size": 8,
    "filter_size": 16,
    "num_heads": 2,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "relu_dropout": 0.0,
}
SEQUENCES = ProblemSpec("tokens", "tokens", 12, 12, shared_vocab=True)
FEATURES = {
    name: RANDOM.integers(2, 12, shape).astype(np.int32)
    for name, shape in (("inputs", (2, 4)), ("targets", (2, 3)))
}


@pytest.mark.parametrize(
    "change",
    [
        {"recurrence_layers": 3},
        pytest.param(
            {"mix_layers_before": 1, "mix_layers_after": 1, "norm": "pre"}, marks=pytest.mark.slow
        ),
    ],
    ids=str,
)
def test_one_step_with_further_layers_is_a_transformer(change: dict[str, Any]) -> None:
    network = UniversalTransformerConfig(
        **SMALL_MODEL, **change, num_steps=1, step_encoding="none", position_every_step=False
    )
    mixed = UniversalTransformer(network, SEQUENCES)
    layers = Transformer(
        TransformerConfig(**SMALL_MODEL, num_layers=3, norm=network.norm), SEQUENCES
    )
    layers.set_weights(mixed.get_weights())
    assert_close(mixed(FEATURES), layers(FEATURES), 1e-5)


def test_each_part_adds_the_positions_and_only_the_last_one_has_a_norm() -> None:
    network = UniversalTransformerConfig(
        **SMALL_MODEL, mix_layers_before=1, mix_layers_after=1, norm="pre", num_steps=2
    )
    stack = make_stack(network)
    stack.build((None, None, 8))
    inputs, mask = tf.constant(RANDOM.normal(size=(2, 4, 8)), tf.float32), tf.ones([2, 4])
    signal = paper_sinusoid(tf.constant([[1.0, 2.0, 3.0, 4.0]]), 8)
    given = StackInputs(mask, signal, BlockContext())
    state = inputs
    for part in (stack.before, stack.recurrence, stack.after):
        state = part(state, given=given)[0]
    output, details = stack(inputs, given=given.replace(return_attention=True))
    assert_close(output, state, 1e-6)
    assert [part.final_norm is None for part in (stack.before, stack.recurrence, stack.after)] == [
        True,
        True,
        False,
    ]
    assert details.attention_weights.shape == (4, 2, 2, 4, 4)
    assert float(details.ponder_times[0, 0]) == 2.0


@pytest.mark.parametrize(
    ("model", "text", "expected"),
    [
        ("universal_transformer", "recurrence=dwa,eval_num_steps=9", "recurrence=dwa with its"),
        ("universal_transformer", "recurrence=dwa,steps_per_position=0.5", "makes depth depend on"),
        ("conditional_universal_transformer", "recurrence=gru", "takes the transition's place"),
        ("conditional_universal_transformer", "eval_num_steps=9", "a transition for each step"),
    ],
)
def test_what_does_not_go_together_is_refused(model: str, text: str, expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        HParams(model=model).override(text).resolve()
