"""Steps of two levels: by hand, the calls that have a gradient, one net and two."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from ut_tf.errors import UserError
from ut_tf.layers.block import BlockContext
from ut_tf.layers.contracts import StackInputs
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
from ut_tf.models.universal_transformer.parts import make_recurrence
from ut_tf.models.universal_transformer.recurrence import Recurrence
from ut_tf.models.universal_transformer.step import Carry

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


@pytest.mark.parametrize("changes", [{}, {"two_nets": True, "recurrence_layers": 2}])
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
    [("last_cycle", 1, 0, (1, 3)), ("last_call", 1, 2, (1, 1)), ("all", 0, 0, (2, 3))],
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


def test_two_nets_of_the_same_weights_are_one() -> None:
    one, two = made(), made(two_nets=True)
    assert two.count_params() > one.count_params()
    by_path = {weight.path.split("/block/", 1)[-1]: weight for weight in one.weights}
    for weight in two.weights:
        path = weight.path.split("/high_block/" if "high_block" in weight.path else "/block/", 1)
        weight.assign(by_path[path[-1]])
    assert_close(two(X)[0], one(X)[0], 1e-6)


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


def test_positions_permuted_are_answers_permuted() -> None:
    order = np.array([2, 0, 3, 1])
    recurrence = made(num_steps=2)
    permuted = recurrence(tf.gather(X, order, axis=1))[0]
    assert_close(permuted, tf.gather(recurrence(X)[0], order, axis=1), 1e-5)
