"""Exit rules: their values worked out by hand, and what a model with one computes: the same with
and without skipping positions, step by step and over the whole sequence.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from tests.search.models import CLASSES, INPUTS, LANGUAGE, SPEC, random_model
from ut_tf import registry
from ut_tf.config.hparams import HParams
from ut_tf.errors import UserError
from ut_tf.layers.block import BlockContext
from ut_tf.models.universal_transformer.catalogue import EXIT_RULES
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig as Config
from ut_tf.models.universal_transformer.encoder import UniversalTransformerEncoder
from ut_tf.models.universal_transformer.model import UniversalTransformer
from ut_tf.models.universal_transformer.parts import make_recurrence

TARGETS = np.array([[3, 4, 5, 8, 6, 1], [7, 2, 3, 1, 0, 0], [2, 2, 6, 1, 0, 0]], np.int32)
COUNTED = TARGETS > 0
FEATURES = {"inputs": INPUTS, "targets": TARGETS}
WRITTEN = {"targets": TARGETS}
DEPTH = 6
# At these thresholds the positions of the random models exit at different steps.
RULES: dict[str, dict[str, Any]] = {
    "state_difference": {"eval_exit_threshold": 0.3},
    "acceleration": {"eval_exit_threshold": 0.4},
    "entropy": {"eval_exit_threshold": 0.03, "norm": "pre"},
    "confidence": {"eval_exit_threshold": 0.9, "norm": "pre"},
    "kl": {"eval_exit_threshold": 0.03},
    "argmax_stable": {"eval_exit_threshold": 3.0, "norm": "pre"},
    "cosine": {"eval_exit_threshold": 0.05},
    "kl_reverse": {"eval_exit_threshold": 0.03},
    "minp_kl": {"eval_exit_threshold": 0.03},
    "argmax_equal": {"eval_exit_threshold": 2.0, "norm": "pre"},
}
FIRST_POSSIBLE = {
    "state_difference": 1,
    "acceleration": 3,
    "entropy": 2,
    "confidence": 1,
    "kl": 2,
    "cosine": 1,
    "kl_reverse": 1,
    "minp_kl": 1,
}
COUNTS_STEPS = ("argmax_stable", "argmax_equal")
rules = pytest.mark.parametrize("rule", RULES)


def exiting(rule: str, spec: Any = LANGUAGE, **changes: Any) -> Any:
    """A model trained for 2 steps and used for 6, the same for the same arguments."""
    keras.utils.set_random_seed(0)
    options = {"eval_exit": rule, **RULES.get(rule, {}), **changes}
    if options.get("halting", "none") == "none":
        options["eval_num_steps"] = DEPTH
    return random_model(spec=spec, **options)


# The rules alone.


def first_exits(rule: str, threshold: float, values: Any) -> list[int | None]:
    """For each row of values [steps + 1, rows, width] the first step, from 1, at which it exits;
    the values are the states, of rules on logits log-probabilities (the first is not read).
    """
    made = registry.exit_rules.get(rule)(threshold)
    values = tf.constant(values, tf.float32)
    carried = made.start(values[0], values.shape[-1])
    exits = []
    for step in range(len(values) - 1):
        now = values[step + 1]
        stops, carried = made.check(step, now, carried, lambda now=now: now)
        exits.append(stops.numpy())
    steps: list[int | None] = []
    for row in np.stack(exits, 1):
        steps.append(int(row.argmax()) + 1 if row.any() else None)
    return steps


def test_the_state_s_difference_is_relative_to_the_new_state() -> None:
    states = [[[3.0, 4.0]], [[3.0, 9.0]], [[3.0, 4.0]]]  # 5 / sqrt(90) = 0.527, 5 / 5 = 1
    assert first_exits("state_difference", 0.53, states) == [1]
    assert first_exits("state_difference", 0.52, states) == [None]


def test_acceleration_is_small_twice_in_a_row() -> None:
    states = np.array([0.0, 10.0, 11.0, 12.5, 14.0, 15.0])[:, None, None]
    # Changes 10, 1, 1.5, 1.5, 1; accelerations 9, 0.5, 0, 0.5 at steps 2 to 5.
    assert first_exits("acceleration", 0.5 / 12.4, states) == [4]
    assert first_exits("acceleration", 0.5 / 12.6, states) == [5]
    assert first_exits("acceleration", 0.1 / 14.0, states) == [None]
    assert first_exits("acceleration", 9.1 / 11.0, states) == [3]


def test_entropy_and_divergence_compare_with_the_step_before() -> None:
    logits = np.log([[[0.5, 0.5]], [[0.5, 0.5]], [[0.75, 0.25]], [[0.25, 0.75]]])
    # H = 0.6931, 0.5623, 0.5623; KL = 0.75 ln 1.5 + 0.25 ln 0.5 = 0.1308, then 0.5 ln 3 = 0.5493.
    assert first_exits("entropy", 0.1309, logits) == [2]
    assert first_exits("entropy", 0.1307, logits) == [3]
    assert first_exits("entropy", 10.0, logits) == [2]
    assert first_exits("kl", 0.1309, logits) == [2]
    assert first_exits("kl", 0.1307, logits) == [None]
    assert first_exits("kl", 0.55, logits[1:]) == [2]
    assert first_exits("kl", 0.549, logits[1:]) == [None]


def test_the_cosine_is_that_of_the_angle_between_two_states() -> None:
    states = [[[3.0, 4.0]], [[4.0, 3.0]], [[8.0, 6.0]]]  # 1 - 24 / 25, then the same direction
    assert first_exits("cosine", 0.041, states) == [1]
    assert first_exits("cosine", 0.039, states) == [2]


def test_huginn_s_divergences_take_the_step_before_first_and_begin_evenly() -> None:
    logits = np.log([[[0.5, 0.5]], [[0.75, 0.25]], [[0.25, 0.75]]])
    # 0.5 ln (2 / 3) + 0.5 ln 2 = 0.1438, then 0.5 ln 3 = 0.5493.
    assert first_exits("kl_reverse", 0.144, logits) == [1]
    assert first_exits("kl_reverse", 0.143, logits) == [None]
    # From (0.9, 0.05, 0.05) both unlikely symbols become 1 / 3, and all are divided by 1.5667.
    logits = np.log([[[1 / 3] * 3], [[0.9, 0.05, 0.05]], [[0.94, 0.03, 0.03]]])
    p, q = (np.array([top, 1 / 3, 1 / 3]) / (top + 2 / 3) for top in (0.9, 0.94))
    divergence = float((p * np.log(p / q)).sum())
    assert first_exits("minp_kl", 1.01 * divergence, logits) == [2]
    assert first_exits("minp_kl", 0.99 * divergence, logits) == [None]


def test_equalities_are_one_less_than_equal_steps() -> None:
    logits = tf.one_hot([[0, 1], [0, 1], [2, 1], [2, 0], [2, 0], [2, 2]], 3)
    assert first_exits("argmax_equal", 2, logits) == first_exits("argmax_stable", 3, logits)
    assert first_exits("argmax_equal", 5, tf.zeros([8, 1, 3])) == [6]


def test_confidence_is_the_lead_of_the_most_probable_answer() -> None:
    none = [[1 / 3] * 3] * 2
    shares = [none, [[0.5, 0.3, 0.2], [0.4, 0.35, 0.25]], [[0.8, 0.1, 0.1], [0.7, 0.3, 0.0]]]
    logits = tf.math.log(tf.constant(shares) + 1e-9)
    assert first_exits("confidence", 0.81, logits) == [1, 2]
    assert first_exits("confidence", 0.59, logits) == [2, None]


def test_the_same_argmax_some_steps_in_a_row() -> None:
    best = [[0, 1], [0, 1], [2, 1], [2, 0], [2, 0], [2, 2]]
    logits = tf.one_hot(best, 3)
    assert first_exits("argmax_stable", 3, logits) == [4, None]
    assert first_exits("argmax_stable", 4, logits) == [5, None]
    assert first_exits("argmax_stable", 1, logits) == [1, 1]


@pytest.mark.parametrize("name", sorted(EXIT_RULES))
def test_the_catalogue_says_of_rules_what_their_classes_say(name: str) -> None:
    rule = registry.exit_rules.get(name)()
    says = registry.exit_rules.attribute(name, "reads_logits", False)
    assert says == getattr(rule, "reads_logits", False)


# In a model.


def used(model: Any) -> tuple[np.ndarray, np.ndarray]:
    """Logits and ponder times of a language model at the counted positions."""
    logits, details = model(WRITTEN, return_details=True)
    return np.asarray(logits)[COUNTED], np.asarray(details.decoder.ponder_times)[COUNTED]


@pytest.mark.slow
@rules
def test_a_threshold_of_0_never_exits_and_a_huge_one_at_the_first_possible_step(rule: str) -> None:
    never = 1e6 if rule in COUNTS_STEPS else 0.0
    model = exiting(rule, eval_exit_threshold=never)
    logits, times = used(model)
    assert (times == DEPTH).all()
    plain = exiting("none", norm=model.network.norm)
    assert_close(logits, plain(WRITTEN)[COUNTED], 1e-5)
    at_once = {"argmax_stable": 2, "argmax_equal": 1}.get(rule, 1e6)
    _, times = used(exiting(rule, eval_exit_threshold=at_once))
    assert times.min() == FIRST_POSSIBLE.get(rule, 2)
    if rule in FIRST_POSSIBLE:
        assert times.max() == FIRST_POSSIBLE[rule]


def test_training_takes_all_its_steps() -> None:
    model = exiting("state_difference", eval_exit_threshold=1e6, dropout=0.0, relu_dropout=0.0)
    plain = exiting("none", dropout=0.0, relu_dropout=0.0)
    logits, details = model(WRITTEN, training=True, return_details=True)
    assert float(tf.reduce_max(details.decoder.ponder_times)) == 2.0
    np.testing.assert_array_equal(logits, plain(WRITTEN, training=True))


def test_a_halting_position_exits_with_its_remainder() -> None:
    model = exiting("kl", eval_exit_threshold=1e6, halting="basic", act_halting_bias_init=-3.0)
    _, details = model(WRITTEN, return_details=True)
    decoder = details.decoder
    first = np.asarray(decoder.halting_probabilities)[0][COUNTED]
    assert (np.asarray(decoder.ponder_times)[COUNTED] == 2.0).all()
    assert_close(np.asarray(decoder.remainders)[COUNTED], 1.0 - first, 1e-6)


@pytest.mark.parametrize("kind", ["pondernet", pytest.param("global", marks=pytest.mark.slow)])
def test_forms_that_compute_all_positions_take_rules_too(kind: str) -> None:
    model = exiting("state_difference", eval_exit_threshold=1e6, halting=kind, act_max_steps=DEPTH)
    _, times = used(model)
    assert (times == 1.0).all()


@pytest.mark.slow
def test_the_encoder_takes_all_steps_where_the_rule_reads_logits() -> None:
    _, details = exiting("kl", spec=SPEC)(FEATURES, return_details=True)
    assert np.unique(details.encoder.ponder_times[INPUTS > 0]).tolist() == [DEPTH]


# What goes on with a model.


def test_a_trained_model_takes_any_rule() -> None:
    trained = HParams().resolve()
    used = trained.override_in_use("eval_exit=kl,eval_exit_threshold=0.01,eval_num_steps=9").network
    assert (used.eval_exit, used.eval_exit_threshold, used.eval_num_steps) == ("kl", 0.01, 9)
    with pytest.raises(UserError, match=r"eval_exit_threshold=0\.1 has no effect with eval_exit"):
        trained.override_in_use("eval_exit_threshold=0.1")


@pytest.mark.parametrize(
    ("changes", "mistake"),
    [
        ({"eval_exit": "kl", "mix_layers_after": 1}, "needs mix_layers_after=0"),
        ({"eval_exit": "kl", "steps_per_position": 1.0}, "both set the depth"),
        ({"eval_exit": "kl", "recurrence": "dwa"}, "not recurrence=dwa"),
        ({"eval_exit": "argmax_stable", "eval_exit_threshold": 0.5}, "a whole number of at least"),
        ({"eval_exit": "kle"}, "did you mean kl"),
    ],
)
def test_what_has_no_exits_is_told(changes: dict[str, Any], mistake: str) -> None:
    with pytest.raises(UserError, match=mistake):
        Config(**changes)


def test_what_has_no_logits_for_a_position_is_told() -> None:
    network = Config(hidden_size=8, num_heads=2, eval_exit="kl")
    with pytest.raises(UserError, match=r"one answer \(a class\): use eval_exit=state_difference"):
        UniversalTransformer(network, CLASSES)
    with pytest.raises(UserError, match="the logits of a whole model"):
        UniversalTransformerEncoder(network)
    recurrence = make_recurrence(network, causal=True)
    with pytest.raises(UserError, match="call the layer with the `head`"):
        recurrence(tf.zeros([1, 2, 8]), tf.ones([1, 2]), None, BlockContext())


@pytest.mark.slow
@rules
def test_training_with_exits_ends_where_use_does(rule: str) -> None:
    options = {"num_steps": DEPTH, "dropout": 0.0, "attention_dropout": 0.0, "relu_dropout": 0.0}
    model = exiting(rule, train_exit=True, **options)
    used_logits, times = used(model)
    expected = tf.nn.log_softmax(used_logits)
    scores = step_scores(model)
    assert_close(scores[-1], expected, 1e-5)
    # A position's answer stays from its exit on.
    assert times.min() < DEPTH
    for position, time in enumerate(times.astype(int)):
        stays = scores[time - 1 :, position]
        assert_close(stays, np.broadcast_to(scores[-1, position], stays.shape), 1e-5)
    assert np.abs(step_scores(exiting(rule, **options))[-1] - expected).max() > 1e-3
    with pytest.raises(UserError, match=r"^`train_exit` lets positions exit"):
        model(WRITTEN, training=True)


def test_exits_in_training_are_those_of_the_stack_that_answers() -> None:
    model = exiting("confidence", SPEC, train_exit=True)
    model({**FEATURES, "every_step": np.array(1)}, training=True)
    with pytest.raises(UserError, match="train_exit=True belongs to a whole model"):
        UniversalTransformerEncoder(
            hidden_size=8, num_heads=2, eval_exit="state_difference", train_exit=True
        )


def step_scores(model: Any) -> Any:
    """Log-probabilities [steps, positions, vocab_size] of a training with a loss at each step."""
    features = {**WRITTEN, "every_step": np.array(1)}
    _, details = model(features, training=True, return_details=True)
    return np.asarray(details.decoder.step_scores)[:, COUNTED]
