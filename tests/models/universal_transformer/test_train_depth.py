"""Depths that are drawn in training: one trace, truncated gradients, the same on all replicas."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from tests.search.models import random_model
from tests.training.toy import mirrored, run_steps, toy_run
from ut_tf import registry
from ut_tf.errors import UserError
from ut_tf.layers.contracts import StackInputs
from ut_tf.layers.recurrence_details import RecurrenceDetails
from ut_tf.layers.transition import Transition
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
from ut_tf.models.universal_transformer.noise import example_keys, truncated_normal
from ut_tf.models.universal_transformer.parts import make_recurrence
from ut_tf.models.universal_transformer.recurrence import Recurrence
from ut_tf.models.universal_transformer.restarts import chosen
from ut_tf.models.universal_transformer.train_depth import (
    LogNormalPoisson,
    Poisson,
    TrainDepth,
    Uniform,
)
from ut_tf.problem_spec import ProblemSpec

BACKPROP_STEPS = 2
MAX_STEPS = 9


class Told(TrainDepth):
    """The numbers of the seed, which a test chooses."""

    max_steps = MAX_STEPS
    backprop_steps = MAX_STEPS

    def draw(self, seed: Any) -> tuple[Any, Any]:
        seed = tf.cast(seed, tf.int32)
        return seed[0], seed[1]


class Spread(TrainDepth):
    """Evenly from 1 to MAX_STEPS."""

    max_steps = MAX_STEPS
    backprop_steps = BACKPROP_STEPS

    def draw(self, seed: Any) -> tuple[Any, Any]:
        steps = tf.random.stateless_uniform([], seed, 1, MAX_STEPS + 1, tf.int32)
        with_gradient = tf.minimum(steps, BACKPROP_STEPS)
        return steps - with_gradient, with_gradient


class Priced(Transition):
    """Adds a loss at every step."""

    def call(self, x: Any, **options: Any) -> Any:
        output = super().call(x, **options)
        self.add_loss(tf.reduce_sum(tf.square(output)))
        return output


class Beyond(Told):
    """Draws more steps with gradient than it says."""

    backprop_steps = 1


@pytest.fixture(autouse=True)
def _own_depths(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"told": Told, "spread": Spread, "beyond": Beyond}
    for name, depth in own.items():
        monkeypatch.setitem(registry.train_depths._registered, name, (depth, __file__))
    monkeypatch.setitem(registry.transitions._registered, "priced", (Priced, __file__))


INPUTS = tf.random.stateless_normal([2, 5, 16], [1, 2])
TARGETS = tf.random.stateless_normal([2, 5, 16], [3, 4])


def _recurrence(
    train_depth: str = "told", transition: str = "fc", backprop_steps: int = 0
) -> Recurrence:
    config = UniversalTransformerConfig(
        hidden_size=16,
        filter_size=32,
        num_heads=2,
        num_steps=3,
        step_encoding="none",
        dropout=0.0,
        train_depth=train_depth,
        transition=transition,
        backprop_steps=backprop_steps,
    )
    recurrence = make_recurrence(config.resolved())
    recurrence.build([None, None, 16])
    return recurrence


def _gradients(call: Any, weights: list[Any]) -> list[Any]:
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(call() - TARGETS))
    gradients = tape.gradient(loss, weights, unconnected_gradients="zero")
    return [loss.numpy(), *(tf.convert_to_tensor(gradient).numpy() for gradient in gradients)]


def test_the_gradient_is_that_of_the_last_steps_from_a_constant_state() -> None:
    recurrence = _recurrence()
    weights = [weight.value for weight in recurrence.trainable_variables]

    @tf.function(autograph=False)
    def states(update: Any, carry: Any = None) -> Any:
        given = StackInputs(update=update, carry=carry)
        return recurrence(INPUTS, given=given, training=True)[0]

    start = recurrence.recurrent_step.start(INPUTS)
    middle = states(tf.constant([0, 7], tf.int64), start)
    truncated = _gradients(lambda: states(tf.constant([7, 2], tf.int64), start), weights)
    constant = _gradients(
        lambda: states(tf.constant([0, 2], tf.int64), start._replace(state=middle)), weights
    )
    whole = _gradients(lambda: states(tf.constant([0, 9], tf.int64), start), weights)
    for one, other in zip(truncated, constant, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6 * np.abs(other).max())
    assert truncated[0] == pytest.approx(whole[0], rel=1e-5)
    assert max(np.abs(a - b).max() for a, b in zip(truncated, whole, strict=True)) > 1e-3


def test_one_trace_serves_all_depths() -> None:
    recurrence, depths = _recurrence(), []

    @tf.function(autograph=False)
    def call(update: Any) -> Any:
        _, details = recurrence(INPUTS, given=StackInputs(update=update), training=True)
        return details.ponder_times[0, 0]

    for without in range(8):
        depths.append(float(call(tf.constant([without, 2], tf.int64))))
    assert depths == [without + 2.0 for without in range(8)]
    assert call.experimental_get_tracing_count() == 1


def test_losses_of_all_steps_leave_the_loop() -> None:
    unrolled, looped = _recurrence("fixed", "priced"), _recurrence("told", "priced")
    looped.set_weights(unrolled.get_weights())

    def loss(layer: Recurrence) -> Any:
        given = StackInputs(update=tf.constant([0, 3], tf.int64))
        layer(INPUTS, given=given, training=True)
        return tf.add_n(layer.losses)

    sums = [float(tf.function(loss, autograph=False)(layer)) for layer in (unrolled, looped)]
    assert sums[0] > 0 and sums[1] == pytest.approx(sums[0], rel=1e-5)


def test_more_steps_with_gradient_than_declared_are_refused() -> None:
    given = StackInputs(update=tf.constant([0, 2], tf.int64))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Beyond.*backprop_steps"):
        _recurrence("beyond")(INPUTS, given=given, training=True)


def _draws(depth: TrainDepth, count: int = 4000) -> np.ndarray:
    """Returns [count, 2] steps without and with gradient, of updates 0 to count - 1."""

    def draw(number: Any) -> Any:
        return tf.stack(depth.draw(tf.stack([tf.constant(7, tf.int64), number])))

    numbers = tf.range(count, dtype=tf.int64)
    return tf.function(lambda: tf.map_fn(draw, numbers, fn_output_signature=tf.int32))().numpy()


def test_a_hyperparameter_gives_a_depth_its_options() -> None:
    config = UniversalTransformerConfig().override(
        "train_depth=uniform,train_depth.min=3,train_depth.max=5"
    )
    depth = make_recurrence(config).train_depth
    assert isinstance(depth, Uniform) and (depth.min, depth.max_steps) == (3, 5)
    config = UniversalTransformerConfig().override("train_depth=lognormal_poisson")
    assert make_recurrence(config).train_depth.mean == 32


def test_lognormal_poisson_has_the_moments_of_its_equation() -> None:
    draws = _draws(LogNormalPoisson(backprop_steps=8, mean=32.0, sigma=0.5, max=0))
    total = draws.sum(1)
    # E = 33; the variance is that of the rate, mean² (exp(sigma²) - 1), and the mean rate.
    deviation = (32**2 * (np.exp(0.25) - 1) + 32) ** 0.5
    assert abs(total.mean() - 33) < 4 * deviation / len(total) ** 0.5
    assert np.percentile(total, [5, 50, 95]) == pytest.approx([12, 29, 67], abs=2.5)
    np.testing.assert_array_equal(draws[:, 1], np.minimum(total, 8))


def test_poisson_and_uniform_stay_between_their_bounds() -> None:
    total = _draws(Poisson(backprop_steps=4, mean=3.0, max=6)).sum(1)
    assert (total.min(), total.max()) == (1, 6)
    draws = _draws(Uniform(backprop_steps=0, min=2, max=5), 400)
    assert set(draws[:, 1]) == {2, 3, 4, 5} and not draws[:, 0].any()
    with pytest.raises(UserError, match=r"train_depth\.min=5.*train_depth\.max=2"):
        Uniform(backprop_steps=0, min=5, max=2)


def test_a_draw_follows_from_seed_and_update_alone() -> None:
    depth = LogNormalPoisson(backprop_steps=8, mean=16.0, sigma=0.5, max=0)
    np.testing.assert_array_equal(_draws(depth, 20)[5:], _draws(depth, 20)[5:])
    other = depth.draw(tf.constant([8, 3], tf.int64))
    assert (
        len({tuple(map(int, depth.draw(tf.constant([seed, 3], tf.int64)))) for seed in range(9)})
        > 4
    )
    assert all(value.dtype == tf.int32 for value in other)


@pytest.mark.parametrize("backprop_steps", [2, 3])
def test_fixed_depths_are_cut_as_well(backprop_steps: int) -> None:
    whole, cut = _recurrence("fixed"), _recurrence("fixed", backprop_steps=backprop_steps)
    cut.set_weights(whole.get_weights())
    results = [
        _gradients(
            lambda layer=layer: layer(INPUTS, training=True)[0],
            [weight.value for weight in layer.trainable_variables],
        )
        for layer in (whole, cut)
    ]
    pairs = list(zip(*results, strict=True))
    assert pairs[0][0] == pytest.approx(pairs[0][1], rel=1e-6)
    apart = max(np.abs(a - b).max() / np.abs(a).max() for a, b in pairs[1:] if np.abs(a).max())
    assert (apart < 1e-5) == (backprop_steps >= 3)


def test_evaluation_never_draws() -> None:
    recurrence = _recurrence()
    given = StackInputs(update=tf.constant([5, 2], tf.int64))
    _, details = recurrence(INPUTS, given=given, training=False)
    assert details.ponder_times.numpy().tolist() == [[3.0] * 5] * 2


@pytest.mark.slow
def test_calls_without_an_update_draw_by_themselves() -> None:
    recurrence = _recurrence("spread")
    times = {
        float(recurrence(INPUTS, training=True)[1].ponder_times[0, 0].numpy()) for _ in range(10)
    }
    assert len(times) > 2 and min(times) >= 1 and max(times) <= MAX_STEPS


@pytest.mark.slow
@pytest.mark.parametrize(("replicas", "accumulate"), [(2, 1), (1, 2)])
def test_replicas_and_accumulated_batches_draw_the_same(
    replicas: int, accumulate: int, tmp_path: Path
) -> None:
    changes = {
        "model": "universal_transformer",
        "train_depth": "spread",
        "dropout": 0.0,
        "batch_unit": "examples",
    }
    parts = replicas * accumulate
    small = toy_run(tmp_path, batch_size=4, accumulate_steps=accumulate, **changes)
    large = toy_run(tmp_path, batch_size=4 * parts, **changes)
    strategy = mirrored(replicas) if replicas > 1 else None
    one, _ = run_steps(small, 2, strategy)
    other, _ = run_steps(large, 2)
    assert [report.loss for report in one] == pytest.approx(
        [report.loss for report in other], rel=2e-4
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [("halting", "basic"), ("step_encoding", "learned"), ("steps_per_position", 0.5)],
)
def test_what_needs_a_depth_that_is_known_is_refused(name: str, value: Any, tmp_path: Path) -> None:
    changes = {"train_depth": "spread", name: value}
    with pytest.raises(UserError, match="train_depth=spread"):
        toy_run(tmp_path, model="universal_transformer", **changes).make_model()


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


@pytest.mark.parametrize("options", [NOISE, pytest.param(LEVELS, marks=pytest.mark.slow)])
def test_noise_in_use_is_the_examples_own(options: dict[str, Any]) -> None:
    model = random_model(**options)
    expected = model({"inputs": IDS})
    assert_close(model({"inputs": IDS[::-1]})[::-1], expected, 1e-5)
    longer = np.pad(IDS[1:2], [(0, 0), (0, 3)])
    assert_close(model({"inputs": longer})[:, :4], expected[1:2], 1e-5)
    other = random_model(**options, eval_noise_seed=1)({"inputs": IDS})
    assert float(tf.reduce_max(tf.abs(other - expected))) > 1e-2


@pytest.mark.slow
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
    model = random_model(**NOISE, eval_restarts=3)
    plain = random_model(**NOISE)
    each = [
        plain({"inputs": IDS, "restart": tf.fill([3], tf.constant(number, tf.int64))})
        for number in range(3)
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


@pytest.mark.parametrize(
    "further", [{}, pytest.param({"H_cycles": 1, "L_cycles": 1}, marks=pytest.mark.slow)]
)
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


@pytest.mark.slow
def test_examples_exit_whole_by_their_q_values() -> None:
    options = {"spec": ALIGNED, "num_steps": 2, "q_head": True, "recurrence_layers": 2}
    model = random_model(**options, eval_exit="q")
    plain = random_model(**options)
    depths = []
    for steps in (1, 2):
        depths.append(random_model(**{**options, "num_steps": steps}))
        depths[-1].set_weights(plain.get_weights())
    values = []
    for shallow in depths:
        _, details = shallow({"inputs": IDS}, return_details=True)
        values.append(details.encoder.q_values[:, 0].numpy())
    # So that one of the examples exits at the first step.
    shift = -np.sort(values[0])[1] - 1e-4
    for one in (model, *depths):
        one.encoder.q_head.bias.assign_add([shift, 0.0])
    halts = np.array(values) + shift > 0
    expected = np.where(halts.any(0), halts.argmax(0) + 1, 2)
    logits, details = model({"inputs": IDS}, return_details=True)
    times = details.encoder.ponder_times.numpy()
    np.testing.assert_array_equal(times, expected[:, None] * (IDS > 0))
    assert len(set(expected)) > 1
    for row, steps in enumerate(expected):
        answered = depths[steps - 1]({"inputs": IDS})
        assert_close(logits[row][IDS[row] > 0], answered[row][IDS[row] > 0], 1e-5)
