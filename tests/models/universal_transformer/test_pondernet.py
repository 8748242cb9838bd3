"""PonderNet against values worked out by hand, against sums written out, and against the
distribution that its loss is least at.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from tests.search.models import CLASSES, INPUTS, random_model
from ut_tf.config.hparams import HParams
from ut_tf.errors import UserError
from ut_tf.layers.contracts import StackInputs
from ut_tf.layers.coordinates import paper_sinusoid
from ut_tf.metrics.losses import expected_cross_entropy, ponder_sums, smoothed_cross_entropy
from ut_tf.models.heads import token_logits
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
from ut_tf.models.universal_transformer.halting.pondernet import (
    divergence,
    log_distribution,
    log_prior,
    stopping_step,
)
from ut_tf.models.universal_transformer.parts import make_recurrence
from ut_tf.models.universal_transformer.recurrence import Recurrence

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


def test_three_steps_by_hand() -> None:
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


def test_a_geometric_distribution_has_no_divergence_but_that_of_its_rest() -> None:
    """With λ = r at all steps p is geometric with all that is left on the last step; cut off and
    normalised instead it is the prior.
    """
    rate, steps = 0.3, 40
    log_shares = log_distribution(log_odds(*[rate] * steps))
    assert float(tf.reduce_sum(tf.exp(log_shares))) == pytest.approx(1.0, abs=1e-6)
    assert float(divergence(log_shares, rate)[0, 0]) == pytest.approx(0.0, abs=1e-5)


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


@pytest.mark.slow
def test_the_loss_leads_to_the_distribution_at_which_it_is_least() -> None:
    """Σ p_n L_n + β KL(p ‖ g) is least at p_n = g_n exp(-L_n / β) / Z."""
    losses, weight, rate = np.array([2.0, 0.5, 0.4, 0.9]), 0.5, 0.3
    best = np.exp(log_prior(4, rate) - losses / weight)
    odds = tf.Variable(tf.zeros([4, 1, 1]))
    optimizer = tf.keras.optimizers.Adam(0.1)

    @tf.function
    def update() -> None:
        with tf.GradientTape() as tape:
            log_shares = log_distribution(odds)
            expected = tf.reduce_sum(tf.exp(log_shares)[:, 0, 0] * tf.constant(losses, tf.float32))
            loss = expected + weight * divergence(log_shares, rate)[0, 0]
        optimizer.apply_gradients([(tape.gradient(loss, odds), odds)])

    for _ in range(250):
        update()
    assert_close(tf.exp(log_distribution(odds))[:, 0, 0], best / best.sum(), 2e-3)


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


@pytest.mark.parametrize("training", [False, True])
def test_a_classifier_halts_per_sequence_and_padding_changes_nothing(training: bool) -> None:
    model = random_model(spec=CLASSES, **PONDERNET)
    logits, details = model({"inputs": INPUTS}, training=training, return_details=True)
    for row, length in enumerate([6, 3, 4]):
        assert len(set(details.encoder.ponder_times[row, :length].numpy())) == 1
        alone = model({"inputs": INPUTS[row : row + 1, :length]}, training=training)
        assert_close(alone[0], logits[row], 1e-5)


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
