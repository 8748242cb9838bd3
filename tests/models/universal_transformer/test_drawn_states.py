"""Initial states that are drawn, restarts from several of them, what is fed back, and exits by Q
values.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from tests.search.models import LANGUAGE, SPEC, assert_steps_give_whole_logits, random_model
from ut_tf import registry
from ut_tf.errors import UserError
from ut_tf.layers.recurrence_details import RecurrenceDetails
from ut_tf.models.universal_transformer.initial_state import NoiseState
from ut_tf.models.universal_transformer.noise import example_keys, truncated_normal
from ut_tf.models.universal_transformer.restarts import chosen
from ut_tf.problem_spec import ProblemSpec
from ut_tf.search.stepper import make_stepper

ALIGNED = ProblemSpec("tokens", "aligned", 9, 9, shared_vocab=True)
IDS = np.array([[3, 4, 5, 6], [8, 2, 7, 0], [5, 5, 0, 0]], np.int32)
NOISE: dict[str, Any] = {
    "initial_state": "noise",
    "input_injection": "add",
    "spec": ALIGNED,
    "num_steps": 3,
}
LEVELS = {"H_cycles": 1, "L_cycles": 1, "initial_state": "noise", "spec": ALIGNED}


def test_noise_is_the_truncated_normal_distribution() -> None:
    keys = example_keys(tf.constant(np.arange(2, 1002)[:, None]), 7)
    noise = truncated_normal(keys, 10, 32).numpy()
    # Of a normal distribution cut off at 3: 1 - 6 φ(3) / (1 - 2 Φ(-3)).
    assert noise.std() == pytest.approx(np.sqrt(0.97334), rel=5e-3)
    assert abs(noise.mean()) < 5e-3 and 2.99 < np.abs(noise).max() <= 3
    for axis in range(3):
        moved = np.moveaxis(noise, axis, 0)
        assert abs(np.corrcoef(moved[0].ravel(), moved[1].ravel())[0, 1]) < 0.2
    same = truncated_normal(keys[:4], 7, 32)
    np.testing.assert_array_equal(noise[:4, :7], same)
    np.testing.assert_array_equal(noise[:, 6:8], truncated_normal(keys, 2, 32, first=6))


@pytest.mark.parametrize("options", [NOISE, LEVELS])
def test_noise_in_use_is_the_examples_own(options: dict[str, Any]) -> None:
    model = random_model(**options)
    expected = model({"inputs": IDS})
    assert_close(model({"inputs": IDS[::-1]})[::-1], expected, 1e-5)
    longer = np.pad(IDS[1:2], [(0, 0), (0, 3)])
    assert_close(model({"inputs": longer})[:, :4], expected[1:2], 1e-5)
    other = random_model(**options, eval_noise_seed=1)({"inputs": IDS})
    assert float(tf.reduce_max(tf.abs(other - expected))) > 1e-2


def test_noise_in_training_is_that_of_the_update() -> None:
    model = random_model(**NOISE, dropout=0.0, attention_dropout=0.0, relu_dropout=0.0)

    def logits(*update: int) -> Any:
        given = {} if not update else {"update": tf.constant(update, tf.int64)}
        return model({"inputs": IDS, **given}, training=True)

    np.testing.assert_array_equal(logits(1, 2), logits(1, 2))
    results = [logits(1, 2), logits(1, 3), logits(2, 2), logits(), logits()]
    for place, one in enumerate(results):
        for other in results[:place]:
            assert float(tf.reduce_max(tf.abs(one - other))) > 1e-3


@pytest.mark.parametrize(
    ("spec", "changes"),
    [
        (SPEC, {"halting": "basic", "act_max_steps": 3}),
        (LANGUAGE, {"mix_layers_before": 1}),
    ],
)
def test_drawn_states_are_decoded_with_a_cache(spec: ProblemSpec, changes: dict[str, Any]) -> None:
    model = random_model(**{**NOISE, "spec": spec}, **changes, eval_noise_seed=3)
    assert model.supports_incremental_decoding
    assert_steps_give_whole_logits(model, 3)
    # Otherwise any state would do.
    other = random_model(**{**NOISE, "spec": spec}, **changes, eval_noise_seed=4)
    features = {"inputs": IDS, "targets": IDS}
    assert float(tf.reduce_max(tf.abs(model(features) - other(features)))) > 1e-2


class _Own(NoiseState):
    """A drawn state that does not say that it knows positions apart."""

    by_position = False


def test_drawn_states_of_ones_own_are_decoded_without_a_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(registry.initial_states._registered, "own", (_Own, __file__))
    model = random_model(**{**NOISE, "spec": LANGUAGE, "initial_state": "own"})
    assert not model.supports_incremental_decoding
    with pytest.raises(UserError, match="cannot decode incrementally"):
        make_stepper(model, 1, incremental=True)


def _begins_with(first: int, features: Any, answers: Any) -> Any:
    del features
    return answers[:, 0] == first


def test_a_restart_is_chosen_by_hand_computed_scores() -> None:
    # Rows 0, 2 and 4 are restarts of one example, 1, 3 and 5 of one with padding.
    features = {"inputs": np.array([[3, 3], [3, 0]] * 3)}
    mask = np.array([[1, 1], [1, 0]] * 3, np.float32)
    residuals = np.array([[3, 9], [1, 9], [2, 9], [2, 0], [5, 9], [4, 0]], np.float32)
    q_values = np.array([[1, 9], [0, 0], [2, 0], [3, 0], [4, 9], [0, 0]], np.float32)
    details = RecurrenceDetails(mask, mask, mask, residuals=residuals, q_values=q_values)
    answers = np.array([[3, 3], [3, 3], [2, 3], [4, 2], [2, 3], [4, 5]])
    expected = {"residual": [2, 1], "q": [4, 3], "vote": [2, 3]}
    given = (3, tf.one_hot(answers, 6), details, features)
    for select, rows in expected.items():
        assert chosen(select, *given).numpy().tolist() == rows, select
    for answer, rows in ((3, [0, 1]), (4, [2, 3]), (5, [2, 1])):
        solves = functools.partial(_begins_with, answer)
        assert chosen("verifier", *given, solves).numpy().tolist() == rows


def test_one_restart_is_none_and_more_are_one_of_them() -> None:
    model = random_model(**NOISE, eval_restarts=4)
    plain = random_model(**NOISE)
    each = [
        plain({"inputs": IDS, "restart": tf.fill([3], tf.constant(number, tf.int64))})
        for number in range(4)
    ]
    assert_close(plain({"inputs": IDS}), each[0], 1e-6)
    found = model({"inputs": IDS})
    distances = np.array([np.abs(found - one).max((1, 2)) for one in each])
    assert (distances.min(0) < 1e-4).all() and (distances.max(0) > 1e-2).all()
    assert len(set(distances.argmin(0))) > 1


def test_what_restarts_need() -> None:
    with pytest.raises(UserError, match="eval_restarts=2 needs initial_state=noise"):
        random_model(spec=ALIGNED, eval_restarts=2)
    with pytest.raises(UserError, match="eval_select=q needs q_head"):
        random_model(**NOISE, eval_restarts=2, eval_select="q")
    with pytest.raises(UserError, match="needs a problem that checks answers"):
        random_model(**NOISE, eval_restarts=2, eval_select="verifier")({"inputs": IDS})


@pytest.mark.parametrize("further", [{}, {"H_cycles": 1, "L_cycles": 1}])
def test_feedback_is_the_matrix_of_the_answers_before_the_next_step(further: Any) -> None:
    options = {"spec": ALIGNED, "num_steps": 2, "prediction_feedback": True, **further}
    model = random_model(**options)
    without = random_model(**{**options, "prediction_feedback": False})
    without.set_weights([w.numpy() for w in model.weights if w is not model.feedback.kernel])
    one = {"inputs": IDS}
    views: list[Any] = []
    model(one, observer=views.append)
    plain: list[Any] = []
    without(one, observer=plain.append)
    np.testing.assert_array_equal(views[0].state, plain[0].state)
    assert float(tf.reduce_max(tf.abs(views[1].state - plain[1].state))) > 1e-3
    model.feedback.kernel.assign(tf.zeros_like(model.feedback.kernel))
    np.testing.assert_array_equal(model(one), without(one))


def test_examples_exit_whole_by_their_q_values() -> None:
    options = {"spec": ALIGNED, "num_steps": 6, "q_head": True, "recurrence_layers": 2}
    model = random_model(**options, eval_exit="q")
    plain = random_model(**options)
    depths = []
    for steps in range(1, 7):
        depths.append(random_model(**{**options, "num_steps": steps}))
        depths[-1].set_weights(plain.get_weights())
    values = []
    for shallow in depths:
        _, details = shallow({"inputs": IDS}, return_details=True)
        values.append(details.encoder.q_values[:, 0].numpy())
    # So that the examples exit at different steps.
    shift = -np.sort(np.max(values, 0))[1] + 1e-4
    for one in (model, *depths):
        one.encoder.q_head.bias.assign_add([shift, 0.0])
    halts = np.array(values) + shift > 0
    expected = np.where(halts.any(0), halts.argmax(0) + 1, 6)
    logits, details = model({"inputs": IDS}, return_details=True)
    times = details.encoder.ponder_times.numpy()
    np.testing.assert_array_equal(times, expected[:, None] * (IDS > 0))
    assert len(set(expected)) > 1
    for row, steps in enumerate(expected):
        answered = depths[steps - 1]({"inputs": IDS})
        assert_close(logits[row][IDS[row] > 0], answered[row][IDS[row] > 0], 1e-5)
