"""Depths that are drawn in training: one trace, truncated gradients, the same on all replicas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.training.toy import mirrored, run_steps, toy_run
from ut_tf import registry
from ut_tf.errors import UserError
from ut_tf.layers.contracts import StackInputs
from ut_tf.layers.transition import Transition
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
from ut_tf.models.universal_transformer.parts import make_recurrence
from ut_tf.models.universal_transformer.recurrence import Recurrence
from ut_tf.models.universal_transformer.train_depth import (
    LogNormalPoisson,
    Poisson,
    TrainDepth,
    Uniform,
)

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
    draw = tf.function(
        lambda number: tf.stack(depth.draw(tf.stack([tf.constant(7, tf.int64), number])))
    )
    return np.array([draw(tf.constant(number, tf.int64)) for number in range(count)])


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


@pytest.mark.parametrize("backprop_steps", [1, 2, 3, 9])
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


def test_calls_without_an_update_draw_by_themselves() -> None:
    recurrence = _recurrence("spread")
    times = {
        float(recurrence(INPUTS, training=True)[1].ponder_times[0, 0].numpy()) for _ in range(20)
    }
    assert len(times) > 3 and min(times) >= 1 and max(times) <= MAX_STEPS


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize(
    ("replicas", "accumulate"), [(2, 1), pytest.param(1, 2, marks=pytest.mark.slow)]
)
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
    one, _ = run_steps(small, 4, strategy)
    other, _ = run_steps(large, 4)
    assert [report.loss for report in one] == pytest.approx(
        [report.loss for report in other], rel=2e-4
    )


@pytest.mark.slow
def test_xla_trains_drawn_depths(tmp_path: Path) -> None:
    # Batches of one shape, each of which would be compiled for itself.
    changes = {
        "model": "universal_transformer",
        "train_depth": "spread",
        "dropout": 0.0,
        "batch_unit": "examples",
        "batch_size": 8,
        "min_length_bucket": 8,
    }
    plain, _ = run_steps(toy_run(tmp_path, **changes), 3)
    compiled, _ = run_steps(toy_run(tmp_path, jit_compile=True, **changes), 3)
    assert [report.loss for report in compiled] == pytest.approx(
        [report.loss for report in plain], rel=1e-4
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [("halting", "basic"), ("step_encoding", "learned"), ("steps_per_position", 0.5)],
)
def test_what_needs_a_depth_that_is_known_is_refused(name: str, value: Any, tmp_path: Path) -> None:
    changes = {"train_depth": "spread", name: value}
    with pytest.raises(UserError, match="train_depth=spread"):
        toy_run(tmp_path, model="universal_transformer", **changes).make_model()
