"""Input injections and initial states: their equations, and the recurrences that have them."""

from __future__ import annotations

from typing import Any

import hypothesis.extra.numpy as arrays
import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.close import assert_close
from ut_tf.errors import UserError
from ut_tf.layers.block import BlockContext
from ut_tf.layers.contracts import StackInputs
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
from ut_tf.models.universal_transformer.injection import (
    DiagonalInjection,
)
from ut_tf.models.universal_transformer.parts import make_recurrence
from ut_tf.models.universal_transformer.recurrence import Recurrence
from ut_tf.models.universal_transformer.step import Carry

INPUTS = tf.random.stateless_normal([2, 5, 8], [1, 2])
STATES = tf.random.stateless_normal([2, 5, 8], [3, 4])


def built(injection: Any) -> Any:
    injection.build((None, None, 8))
    return injection


def recurrence(**changes: Any) -> Recurrence:
    config = UniversalTransformerConfig(
        **{"hidden_size": 8, "filter_size": 8, "num_heads": 2, "num_steps": 3, **changes}
    )
    layer = make_recurrence(config.resolved())
    layer.build((None, None, 8))
    return layer


def test_the_diagonal_injection_starts_at_the_root_of_a_fifth() -> None:
    diagonal, zeros = built(DiagonalInjection()), tf.zeros_like(STATES)
    assert_close(diagonal(STATES, zeros), 0.2**0.5 * STATES, 1e-6)
    assert_close(diagonal(zeros, INPUTS), -np.log(0.2**0.5) * INPUTS, 1e-6)


_WEIGHTS = arrays.arrays(np.float32, 8, elements=st.floats(-60, 60, width=32))


@settings(deadline=None, max_examples=5)
@given(_WEIGHTS, _WEIGHTS)
def test_a_diagonal_decay_is_between_0_and_1_whatever_its_weights(
    a_log: np.ndarray, step_size: np.ndarray
) -> None:
    diagonal = built(DiagonalInjection())
    diagonal.a_log.assign(a_log)
    diagonal.step_size.assign(step_size)
    decay = diagonal.prepare()["decay"].numpy()
    assert ((decay >= 0) & (decay <= 1)).all()
    assert np.isfinite(diagonal(STATES, INPUTS)).all()


def test_all_weights_of_the_diagonal_injection_have_the_gradient_of_differences() -> None:
    diagonal = built(DiagonalInjection())
    for weight in (diagonal.a_log, diagonal.step_size, diagonal.input_matrix):
        value = weight.numpy()

        def loss(changed: Any, weight: Any = weight) -> Any:
            weight.assign(changed)
            return tf.reduce_sum(tf.sin(diagonal(STATES, INPUTS)))

        with tf.GradientTape() as tape:
            result = loss(value)
        gradient = tape.gradient(result, weight.value)
        direction = np.random.default_rng(0).normal(size=value.shape).astype(np.float32)
        difference = (loss(value + 1e-2 * direction) - loss(value - 1e-2 * direction)) / 2e-2
        assert float(difference) == pytest.approx(
            float(tf.reduce_sum(gradient * direction)), rel=2e-3
        )
        weight.assign(value)


def test_zero_inputs_are_no_injection() -> None:
    plain, added = recurrence(), recurrence(input_injection="add", initial_state="zeros")
    added.set_weights(plain.get_weights())
    zeros = tf.zeros_like(INPUTS)
    np.testing.assert_array_equal(added(zeros)[0], plain(zeros)[0])


@pytest.mark.parametrize("state", ["zeros", "learned", "fixed"])
def test_other_states_than_the_inputs_begin_alike_everywhere(state: str) -> None:
    layer = recurrence(input_injection="add", initial_state=state)
    start = layer.recurrent_step.start(INPUTS).state.numpy()
    assert (start == start[0, 0]).all() and bool(start.any()) == (state != "zeros")
    trained = [weight.path for weight in layer.trainable_weights]
    assert any("initial_state" in path for path in trained) == (state == "learned")


def test_a_fixed_state_is_stored_with_the_weights() -> None:
    layer = recurrence(input_injection="add", initial_state="fixed")
    other = recurrence(input_injection="add", initial_state="fixed")
    assert not np.array_equal(layer.initial_state.vector, other.initial_state.vector)
    other.set_weights(layer.get_weights())
    np.testing.assert_array_equal(other(INPUTS)[0], layer(INPUTS)[0])


def test_a_recurrence_that_would_never_see_its_inputs_is_refused() -> None:
    with pytest.raises(UserError, match=r"initial_state=zeros.*input_injection"):
        recurrence(initial_state="zeros")


SIZES: dict[str, Any] = {
    "hidden_size": 8,
    "filter_size": 16,
    "num_heads": 2,
    "num_steps": 1,
    "dropout": 0.0,
    "step_encoding": "none",
    "H_cycles": 2,
    "L_cycles": 3,
    "initial_state": "fixed",
    "norm_type": "rms_plain",
}
X = tf.random.stateless_normal([2, 4, 8], [1, 2])
TARGETS = tf.random.stateless_normal([2, 4, 8], [3, 4])


def made(**changes: Any) -> Recurrence:
    keras.utils.set_random_seed(4)
    recurrence = make_recurrence(UniversalTransformerConfig(**{**SIZES, **changes}).resolved())
    recurrence.build((None, None, 8))
    return recurrence


def by_hand(recurrence: Recurrence, carry: Carry, cycles: int, calls: int) -> Carry:
    """The first cycles of a step, and of the next one the first calls of the low block."""
    assert recurrence.levels is not None
    high_block = recurrence.levels.high_block or recurrence.block
    high, low = carry
    for cycle in range(cycles + 1):
        for _ in range(3 if cycle < cycles else calls):
            low = recurrence.block(low + (high + X), BlockContext())[0]
        high = high_block(high + low, BlockContext())[0] if cycle < cycles else high
    return Carry(high, low)


@pytest.mark.parametrize(
    "changes",
    [pytest.param({}, marks=pytest.mark.slow), {"two_nets": True, "recurrence_layers": 2}],
)
def test_steps_by_hand(changes: dict[str, Any]) -> None:
    recurrence = made(**changes, num_steps=3)
    start = recurrence.recurrent_step.start(X)
    assert float(tf.reduce_max(tf.abs(start.state - start.memory))) > 0.1
    carry = start
    for _ in range(3):
        carry = by_hand(recurrence, carry, 2, 0)
    states, details = recurrence(X, given=StackInputs(carry=start))
    assert_close(states, carry.state, 1e-5)
    assert_close(details.carry.memory, carry.memory, 1e-5)
    assert details.ponder_times.numpy().tolist() == [[3.0] * 4] * 2


@pytest.mark.parametrize(
    ("backprop", "cycles", "calls", "left"),
    [
        pytest.param("last_cycle", 1, 0, (1, 3), marks=pytest.mark.slow),
        ("last_call", 1, 2, (1, 1)),
        pytest.param("all", 0, 0, (2, 3), marks=pytest.mark.slow),
    ],
)
def test_the_gradient_is_that_of_the_last_calls_from_constant_states(
    backprop: str, cycles: int, calls: int, left: tuple[int, int]
) -> None:
    recurrence = made(cycle_backprop=backprop)
    weights = [weight.value for weight in recurrence.trainable_variables]
    start = recurrence.recurrent_step.start(X)
    with tf.GradientTape() as tape:
        states, _ = recurrence(X, training=True)
        loss = tf.reduce_sum(tf.square(states - TARGETS))
    found = tape.gradient(loss, weights)
    high, low = by_hand(recurrence, start, cycles, calls)
    with tf.GradientTape() as tape:
        for _ in range(left[0]):
            for _ in range(left[1]):
                low = recurrence.block(low + (high + X), BlockContext())[0]
            high = recurrence.block(high + low, BlockContext())[0]
        expected_loss = tf.reduce_sum(tf.square(high - TARGETS))
    assert float(loss) == pytest.approx(float(expected_loss), rel=1e-5)
    for one, other in zip(found, tape.gradient(expected_loss, weights), strict=True):
        assert_close(tf.convert_to_tensor(one), tf.convert_to_tensor(other), 1e-5)


@pytest.mark.slow
def test_a_traced_training_equals_an_eager_one() -> None:
    recurrence = made(num_steps=4)
    weights = [weight.value for weight in recurrence.trainable_variables]

    def gradients() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(recurrence(X, training=True)[0] - TARGETS))
        return tape.gradient(loss, weights)

    traced = tf.function(gradients, autograph=False)()
    for one, other in zip(traced, gradients(), strict=True):
        assert_close(tf.convert_to_tensor(one), tf.convert_to_tensor(other), 1e-5)


def test_what_two_levels_have_of_their_own_is_not_chosen_twice() -> None:
    with pytest.raises(UserError, match=r"H_cycles=2 needs recurrence=basic, not gru"):
        made(recurrence="gru", initial_state="inputs")
    with pytest.raises(UserError, match=r"H_cycles=2 needs input_injection=none, not add"):
        made(input_injection="add")
