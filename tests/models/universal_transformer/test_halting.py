"""Halting against hand-computed values, against the paper's listing, and its invariants."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.close import assert_close
from tests.configs import small_config
from tests.search.models import CLASSES, INPUTS, random_model
from ut_tf.config.hparams import HParams
from ut_tf.errors import UserError
from ut_tf.layers.contracts import StackInputs
from ut_tf.layers.coordinates import paper_sinusoid
from ut_tf.layers.recurrence_details import RecurrenceDetails
from ut_tf.metrics.losses import expected_cross_entropy, ponder_sums, smoothed_cross_entropy
from ut_tf.models.bounded import check_layers
from ut_tf.models.heads import token_logits
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
from ut_tf.models.universal_transformer.halting.adaptive_computation_time import Accumulated, Basic
from ut_tf.models.universal_transformer.halting.base import halting_step, start_halting
from ut_tf.models.universal_transformer.halting.pondernet import (
    divergence,
    log_distribution,
    log_prior,
    stopping_step,
)
from ut_tf.models.universal_transformer.model import UniversalTransformer
from ut_tf.models.universal_transformer.parts import make_recurrence
from ut_tf.models.universal_transformer.recurrence import Recurrence
from ut_tf.problem_spec import ProblemSpec

THRESHOLD = 0.99


def run(probabilities: list[float], max_steps: int) -> tuple[list[float], float, float]:
    """Returns (weights, remainder, ponder time) of one position with these halting
    probabilities.
    """
    state, weights = start_halting(tf.ones([1, 1])), []
    for probability in probabilities[:max_steps]:
        if float(state.halting_sum[0, 0]) >= THRESHOLD:
            break
        state, weight, _ = halting_step(state, tf.constant([[probability]]), THRESHOLD)
        weights.append(float(weight[0, 0]))
    return weights, float(state.remainders[0, 0]), float(state.ponder_times[0, 0])


def listing(probabilities: list[float], max_steps: int) -> tuple[float, float, float]:
    """The paper's listing for one position, in float64: (halting sum, remainder, number of
    updates).
    """
    halting = remainder = updates = 0.0
    for probability in probabilities[:max_steps]:
        if not halting < THRESHOLD:
            break
        still = float(halting < 1.0)
        new = float(halting + probability * still > THRESHOLD) * still
        still = float(halting + probability * still <= THRESHOLD) * still
        halting += probability * still
        remainder += new * (1.0 - halting)
        halting += new * remainder
        updates += still + new
    return halting, remainder, updates


def test_three_steps_by_hand() -> None:
    weights, remainder, ponder_time = run([0.3, 0.4, 0.5, 0.9], max_steps=6)
    assert_close(weights, [0.3, 0.4, 0.3], 1e-6)
    assert (remainder, ponder_time) == (pytest.approx(0.3, abs=1e-6), 3.0)


def test_max_steps_leave_no_remainder() -> None:
    weights, remainder, ponder_time = run([0.1, 0.1, 0.1], max_steps=2)
    assert_close(weights, [0.1, 0.1], 1e-6)
    assert (remainder, ponder_time) == (0.0, 2.0)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0.0625, 0.96875, width=32), min_size=8, max_size=8))
def test_agrees_with_the_paper_listing_and_weights_sum_to_one(probabilities: list[float]) -> None:
    sums = np.cumsum(probabilities)
    if np.abs(sums - THRESHOLD).min() < 1e-5:
        return  # float32 and float64 may halt at different steps
    weights, remainder, ponder_time = run(probabilities, max_steps=8)
    _, expected_remainder, expected_updates = listing(probabilities, max_steps=8)
    assert ponder_time == expected_updates
    assert remainder == pytest.approx(expected_remainder, abs=1e-5)
    if remainder:
        assert sum(weights) == pytest.approx(1.0, abs=1e-5)


def test_padding_neither_ponders_nor_weighs() -> None:
    state, weight, running = halting_step(
        start_halting(tf.constant([[1.0, 0.0]])), tf.constant([[0.4, 0.4]]), THRESHOLD
    )
    assert weight.numpy().tolist() == [[pytest.approx(0.4), 0.0]]
    assert state.ponder_times.numpy().tolist() == [[1.0, 0.0]]
    assert running.numpy().tolist() == [[True, False]]


def test_basic_interpolates_and_accumulated_adds() -> None:
    state, output, weight = tf.constant([[[2.0]]]), tf.constant([[[10.0]]]), tf.constant([[0.25]])
    assert float(Basic().combine(state, output, weight)[0, 0, 0]) == pytest.approx(
        0.25 * 2 + 0.75 * 10
    )
    assert float(Accumulated().combine(state, output, weight)[0, 0, 0]) == pytest.approx(
        10 + 0.25 * 2
    )


def test_ponder_cost_is_the_mean_over_counted_positions() -> None:
    details = RecurrenceDetails(
        tf.constant([[2.0, 4.0, 9.0]]),
        tf.constant([[0.5, 0.1, 0.9]]),
        tf.constant([[1.0, 1.0, 0.0]]),
    )
    assert float(details.ponder_cost()) == pytest.approx((2.5 + 4.1) / 2)


SIZES = {"hidden_size": 8, "filter_size": 16, "num_heads": 2, "num_steps": 2, "act_max_steps": 6}


@pytest.mark.parametrize(("probability", "steps"), [(0.5, 1), (0.25, 2), (0.125, 4)])
def test_a_sum_of_exactly_the_threshold_leaves_its_remainder(
    probability: float, steps: int
) -> None:
    state, total = start_halting(tf.ones([1, 1])), 0.0
    for _ in range(6):
        state, weight, _ = halting_step(state, tf.fill([1, 1], probability), 0.5)
        total += weight.numpy().item()
    assert total == 1.0
    assert state.ponder_times.numpy().item() == steps
    assert state.remainders.numpy().item() == 1.0 - probability * (steps - 1)


@pytest.mark.parametrize("compute", ["dense", "compact"])
def test_both_loops_stop_there(compute: str) -> None:
    keras.utils.set_random_seed(0)
    options = {"halting": "accumulated", "act_epsilon": 0.5, "halting_compute": compute}
    model = UniversalTransformer(
        small_config(UniversalTransformer, SIZES, **options), ProblemSpec("tokens", "class", 9, 2)
    )
    linear = model.encoder.halting_unit.linear
    linear.set_weights([np.zeros_like(values) for values in linear.get_weights()])
    _, details = model({"inputs": np.array([[3, 4, 0]])}, return_details=True)
    # sigmoid(0) is a half, and so is the threshold.
    np.testing.assert_array_equal(details.encoder.ponder_times, [[1, 1, 0]])
    np.testing.assert_array_equal(details.encoder.remainders, [[1, 1, 0]])


def test_shared_steps_need_no_parameters_of_their_own() -> None:
    check_layers({"hidden_size": 8, "num_steps": 200}, 612)


PONDERNET: dict[str, Any] = {
    "halting": "pondernet",
    "act_max_steps": 3,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "relu_dropout": 0.0,
}
TARGETS = np.array([[3, 4, 1, 0], [8, 2, 2, 1], [5, 1, 0, 0]], np.int32)


def log_odds(*probabilities: float) -> Any:
    return tf.constant([[[math.log(p / (1 - p))]] for p in probabilities], tf.float32)


def test_three_steps_by_hand_pondernet() -> None:
    log_shares = log_distribution(log_odds(0.25, 0.5, 0.9))
    shares = [0.25, 0.75 * 0.5, 0.75 * 0.5]
    np.testing.assert_allclose(tf.exp(log_shares)[:, 0, 0], shares, rtol=1e-6)
    prior = np.array([0.2, 0.8 * 0.2, 0.64 * 0.2]) / (1 - 0.8**3)
    np.testing.assert_allclose(np.exp(log_prior(3, 0.2)), prior, rtol=1e-6)
    expected = sum(p * math.log(p / g) for p, g in zip(shares, prior, strict=True))
    assert float(divergence(log_shares, 0.2)[0, 0]) == pytest.approx(expected, rel=1e-5)
    assert [float(stopping_step(log_shares, threshold)[0, 0]) for threshold in (0.2, 0.5, 0.7)] == [
        1.0,
        2.0,
        3.0,
    ]


def test_sure_steps_keep_logarithms_and_gradients_finite() -> None:
    odds = tf.Variable(
        tf.constant([[-300.0, 300.0, 0.0], [300.0, -300.0, 200.0], [5.0, 300.0, 300.0]])[..., None]
    )
    with tf.GradientTape() as tape:
        log_shares = log_distribution(odds)
        cost = tf.reduce_sum(divergence(log_shares, 0.2))
    assert_close(tf.reduce_sum(tf.exp(log_shares), 0), np.ones([3, 1]), 1e-6)
    assert (
        math.isfinite(cost)
        and np.isfinite(tape.gradient(cost, odds)).all()
        and np.isfinite(log_shares).all()
    )


def _recurrence(with_step_outputs: bool, **changes: Any) -> tuple[Recurrence, dict[str, Any]]:
    network = UniversalTransformerConfig(
        **{
            "hidden_size": 8,
            "filter_size": 12,
            "num_heads": 2,
            "num_steps": 2,
            **PONDERNET,
            **changes,
        }
    )
    recurrence = make_recurrence(
        network, with_step_outputs=with_step_outputs, causal=with_step_outputs
    )
    recurrence.build((None, None, 8))
    unit = recurrence.halting_unit
    unit.linear.kernel.assign(2.0 * tf.random.stateless_normal([8, 1], [1, 2]))
    mask = tf.constant([[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0]])
    inputs = tf.random.stateless_normal([2, 4, 8], [3, 4])
    signal = paper_sinusoid(tf.constant([[1.0, 2.0, 3.0, 4.0]]), 8)
    return recurrence, {"inputs": inputs, "given": StackInputs(mask, signal)}


def test_in_use_an_output_is_the_state_of_the_step_at_which_it_stops() -> None:
    recurrence, given = _recurrence(True)
    _, trained = recurrence(**given, training=True)
    # About half of the positions stop at the first step.
    median = float(np.median(np.exp(trained.log_shares[0])[given["given"].symbol_mask > 0])) - 1e-6
    recurrence.halting_unit.ponder_threshold = median
    _, trained = recurrence(**given, training=True)
    used, details = recurrence(**given)
    times = np.where(given["given"].symbol_mask > 0, trained.ponder_times, 0)
    np.testing.assert_array_equal(details.ponder_times, times)
    assert len({*times[0], *times[1, :2]}) > 1, "all alike would prove nothing"
    for row, column in [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)]:
        expected = trained.step_states[int(times[row, column]) - 1, row, column]
        assert_close(used[row, column], expected, 1e-5)


def test_what_another_stack_reads_is_the_expectation() -> None:
    recurrence, given = _recurrence(False, act_epsilon=1e-6)
    trained, details = recurrence(**given, training=True)
    assert details.step_states is None
    states: list[Any] = []
    watched = given["given"].replace(observer=lambda view: states.append(view.state))
    used, _ = recurrence(given["inputs"], given=watched)
    shares = np.exp(details.log_shares)
    expected = sum(share[..., None] * state for share, state in zip(shares, states, strict=True))
    assert_close(trained, expected, 1e-5)
    assert_close(used[0], trained[0], 1e-4)


@pytest.mark.slow
def test_the_expected_loss_is_the_sum_over_the_steps() -> None:
    model = random_model(**PONDERNET, ponder_kl_weight=0.3)
    scores, details = model(
        {"inputs": INPUTS, "targets": TARGETS}, training=True, return_details=True
    )
    decoder = details.decoder
    for smoothing in (0.0, 0.1):
        expected = 0.0
        for log_share, states in zip(decoder.log_shares, decoder.step_states, strict=True):
            logits = token_logits(states, model.target_embedding, model.output_projection)
            expected += np.exp(log_share) * smoothed_cross_entropy(logits, TARGETS, smoothing)
        np.testing.assert_allclose(
            expected_cross_entropy(scores, TARGETS, smoothing), expected, rtol=1e-4
        )
    costs, counts, _ = ponder_sums(details, tf.ones([3]), 3)
    by_hand = [
        tf.reduce_sum(divergence(part.log_shares, 0.2) * part.mask)
        for part in (details.encoder, decoder)
    ]
    np.testing.assert_allclose(costs, by_hand, rtol=1e-5)
    assert counts.numpy().tolist() == [13.0, 9.0]
    assert float(model.losses[0]) == pytest.approx(
        0.3 * float(tf.reduce_sum(costs / counts)), rel=1e-5
    )
    with tf.GradientTape() as tape:
        loss = (
            tf.reduce_mean(model({"inputs": INPUTS, "targets": TARGETS}, training=True))
            + model.losses[0]
        )
    gradients = tape.gradient(loss, model.trainable_variables)
    assert all(np.isfinite(tf.convert_to_tensor(gradient)).all() for gradient in gradients)


@pytest.mark.parametrize("training", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_classifier_halts_per_sequence_and_padding_changes_nothing(training: bool) -> None:
    model = random_model(spec=CLASSES, **PONDERNET)
    logits, details = model({"inputs": INPUTS}, training=training, return_details=True)
    for row, length in enumerate([6, 3, 4]):
        assert len(set(details.encoder.ponder_times[row, :length].numpy())) == 1
        alone = model({"inputs": INPUTS[row : row + 1, :length]}, training=training)
        assert_close(alone[0], logits[row], 1e-5)


@pytest.mark.slow
def test_later_symbols_change_no_earlier_scores() -> None:
    model = random_model(**PONDERNET)
    targets = np.maximum(TARGETS, 2)
    later = np.where(np.arange(4) < 2, targets, [[7], [3], [6]])
    for training in (False, True):
        one, other = (
            model({"inputs": INPUTS, "targets": given}, training=training)
            for given in (targets, later)
        )
        assert_close(one[:, :3], other[:, :3], 1e-5)


def test_layers_behind_are_refused() -> None:
    with pytest.raises(UserError, match="mix_layers_after=0"):
        HParams().change(halting="pondernet", mix_layers_after=1).resolve()
    with pytest.raises(UserError, match="mix_layers_after=0"):
        UniversalTransformerConfig(halting="pondernet", mix_layers_after=1)
    with pytest.raises(UserError, match="ponder_prior=1"):
        HParams().change(ponder_prior=1.0).resolve()
