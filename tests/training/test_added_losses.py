"""Losses of layers: add_loss, activity regularizers and regularizers of weights count in the
trainer as in ``fit``, once for each step of a fixed depth, whatever the replicas and the batches of
an update, and in a loop over the steps as well.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from tests.training.toy import lines, mirrored, run_steps, toy_run
from ut_tf import registry
from ut_tf.errors import UserError
from ut_tf.layers import UniversalTransformerEncoder
from ut_tf.layers.linear import Linear
from ut_tf.layers.recurrence_details import StepView
from ut_tf.layers.transition import TransitionFunction
from ut_tf.training.distribution import Workers
from ut_tf.training.optimizer import make_optimizer
from ut_tf.training.step import TrainingStep
from ut_tf.training.trainer import train

NAME = "loss/encoder/block/transition"
STEPS = 2
CHANGES: dict[str, Any] = {
    "model": "universal_transformer",
    "transition": "priced",
    "num_steps": STEPS,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "relu_dropout": 0.0,
    "label_smoothing": 0.0,
    "warmup_steps": 0,
}
FEATURES = {
    "inputs": tf.constant([[2, 3, 4, 1], [5, 6, 2, 1]]),
    "targets": tf.constant([1, 0]),
    "weight": tf.constant([1.0, 1.0]),
}


class Priced(TransitionFunction):
    """One affine map, whose outputs cost their squares, as the mean over the examples."""

    price = 0.3

    def __init__(self, hidden_size: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.linear = Linear(hidden_size, name="linear", dtype=self.dtype_policy)

    def build(self, input_shape: Any) -> None:
        self.linear.build(input_shape)

    def call(
        self, x: Any, keep: Any = None, training: bool = False, output_scale: float = 1.0
    ) -> Any:
        del training
        output = self.linear(x)
        if self.price:
            squares = tf.reduce_mean(tf.square(output), -1) * (1.0 if keep is None else keep)
            self.add_loss(self.price * tf.reduce_mean(tf.reduce_sum(squares, 1)))
        return output_scale * output


class Regularised(Priced):
    """The same, which costs nothing but the squares of its weights."""

    price = 0.0

    def build(self, input_shape: Any) -> None:
        super().build(input_shape)
        self.linear.kernel.regularizer = keras.regularizers.L2(0.2)


class Everything(Priced):
    """Adds a loss of its outputs, has an activity regularizer and one of its weights."""

    def __init__(self, hidden_size: int, **kwargs: Any) -> None:
        super().__init__(hidden_size, **kwargs)
        self.activity_regularizer = keras.regularizers.L2(0.05)

    def build(self, input_shape: Any) -> None:
        super().build(input_shape)
        self.linear.kernel.regularizer = keras.regularizers.L2(0.2)


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {
        "priced": (Priced, "here"),
        "regularised": (Regularised, "here"),
        "everything": (Everything, "here"),
        "looping": (Looping, "here"),
    }
    monkeypatch.setattr(
        registry.transitions, "_registered", {**registry.transitions._registered, **own}
    )


def made(folder: Path, **changes: Any) -> tuple[Any, TrainingStep]:
    """A classifier with random weights, and its update."""
    run = toy_run(folder, "toy_class", **{**CHANGES, **changes})
    keras.utils.set_random_seed(1)
    model = run.make_model()
    optimizer = make_optimizer(model.trainable_variables, run.hparams, 0)
    specs = {
        name: tf.TensorSpec([None] * len(value.shape), value.dtype)
        for name, value in FEATURES.items()
    }
    workers = Workers.of(tf.distribute.get_strategy())
    return model, TrainingStep(model, optimizer, run.hparams, workers, specs)


def gradients(step: TrainingStep) -> list[Any]:
    """Those of the trainer's loss on the features."""
    counts = step.objective.counts(FEATURES)
    return tf.function(lambda: step._gradients(FEATURES, counts, ())[0], autograph=False)()


def by_hand(model: Any, as_fit: bool = False) -> tuple[Any, list[Any]]:
    """The cross entropy plus all of the model's losses, and the gradients of the sum.

    Scores that are log-probabilities are normalised again only by `fit`.
    """
    with tf.GradientTape() as tape:
        scores = model({"inputs": FEATURES["inputs"]}, training=True)
        if as_fit or not model.expects_scores:
            scores = tf.nn.log_softmax(scores)
        entropy = -tf.gather(scores, FEATURES["targets"], batch_dims=1)
        loss = tf.reduce_mean(entropy) + tf.add_n(model.losses)
    weights = [weight.value for weight in model.trainable_variables]
    found = tape.gradient(loss, weights, unconnected_gradients="zero")
    return loss, [tf.convert_to_tensor(gradient) for gradient in found]


@pytest.mark.slow
def test_losses_of_layers_train_as_their_sum_does_and_as_in_fit(tmp_path: Path) -> None:
    model, step = made(tmp_path)
    transition, attention = model.encoder.block.transition, model.encoder.block.self_attention
    attention.output_transform.kernel.regularizer = keras.regularizers.L1(0.01)
    model.classifier.activity_regularizer = keras.regularizers.L2(0.1)
    loss, expected = by_hand(model)
    assert len(model.losses) == STEPS + 2, "the case has too few losses"
    before = [weight.numpy() for weight in model.trainable_variables]
    trained = gradients(step)
    for gradient, right in zip(trained, expected, strict=True):
        assert_close(gradient, right, 1e-5)

    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(1.0), entropy, jit_compile=False)
    assert model.train_on_batch(FEATURES["inputs"], FEATURES["targets"]) == pytest.approx(
        float(loss), rel=1e-5
    )
    for gradient, old, new in zip(trained, before, model.trainable_variables, strict=True):
        assert_close(gradient, old - new.numpy(), 2e-5)
    for weight, value in zip(model.trainable_variables, before, strict=True):
        weight.assign(value)

    (report,) = step.read([step.update([FEATURES])[0]])
    assert report.loss == pytest.approx(float(loss), rel=1e-5)
    assert report.loss == pytest.approx(report.cross_entropy + sum(report.added.values()), rel=1e-5)
    names = {NAME, "loss/encoder/block/self_attention/output_transform", "loss/classifier"}
    assert set(report.added) == names
    assert transition.price and report.added[NAME] > 0.0


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_losses_of_layers_are_divided_by_replicas_and_batches(tmp_path: Path) -> None:
    """Of an encoder and a decoder: those of outputs, which Keras divides by the examples of a
    replica where a regularizer makes them, and those of weights, which no batch changes.
    """
    shared = {"batch_unit": "examples", "min_length_bucket": 8, "max_length": 8, **CHANGES}
    shared["transition"] = "everything"

    def updated(batch_size: int, strategy: Any = None, **changes: Any) -> tuple[Any, list[Any]]:
        run = toy_run(tmp_path, "toy_copy", batch_size=batch_size, **shared, **changes)
        (report,), weights = run_steps(run, 1, strategy)
        return report, weights

    one, weights = updated(8)
    decoders = NAME.replace("encoder", "decoder")
    assert set(one.added) == {NAME, f"{NAME}/linear", decoders, f"{decoders}/linear"}
    assert min(one.added.values()) > 0.0
    shared_out = updated(2, mirrored(2), accumulate_steps=2)
    for report, others in (shared_out, updated(8, parallel_parts=2)):
        assert report.loss == pytest.approx(one.loss, rel=1e-4)
        assert report.added == pytest.approx(one.added, rel=1e-4)
        for weight, other in zip(weights, others, strict=True):
            assert_close(weight, other, 1e-4)


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_losses_of_layers_are_logged_by_the_path_of_the_layer(tmp_path: Path) -> None:
    run = toy_run(tmp_path, "toy_class", **{**CHANGES, "num_steps": 1}, train_steps=4)
    train(run, 3, log_frequency=2)
    train(run, 4, log_frequency=2)  # Goes on inside the second window, whose sums are stored.
    first, second, third = lines(run, "train")
    for line in (first, second, third):
        names = {name for name in line if name.startswith("loss/")}
        assert names == {NAME}
        assert line["loss"] == pytest.approx(line["cross_entropy"] + line[NAME], rel=1e-5)
    events = b"".join(path.read_bytes() for path in (tmp_path / "tensorboard").iterdir())
    assert f"train/{NAME}".encode() in events


@pytest.mark.slow
@pytest.mark.parametrize("halting", ["basic", "pondernet"])
def test_regularizers_of_weights_and_the_ponder_cost_count_once_under_halting(
    tmp_path: Path, halting: str
) -> None:
    own = {"transition": "regularised", "halting": halting, "act_loss_weight": 0.1}
    model, step = made(tmp_path, **own, act_max_steps=STEPS)
    _, expected = by_hand(model)
    assert len(model.losses) == 2, "the ponder cost or the regularizer is missing"
    for gradient, right in zip(gradients(step), expected, strict=True):
        assert_close(gradient, right, 1e-5)


FORMS: dict[str, dict[str, Any]] = {
    "basic": {"halting": "basic"},
    "dense": {"halting": "basic", "halting_compute": "dense"},
    "pondernet": {"halting": "pondernet"},
    "depth_per_example": {"halting": "none", "steps_per_position": 1.0},
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_loss_inside_a_loop_trains_as_outside_and_as_in_fit(tmp_path: Path, form: str) -> None:
    model, step = made(tmp_path, **FORMS[form])
    loss, expected = by_hand(model)
    trained = gradients(step)
    for gradient, right in zip(trained, expected, strict=True):
        assert_close(gradient, right, 1e-5)
    (report,) = step.read([step.update([FEATURES])[0]])
    assert list(report.added) == [NAME] and report.added[NAME] > 0.0
    assert report.loss == pytest.approx(float(loss), rel=1e-5)

    model, _ = made(tmp_path, **FORMS[form])
    loss, _ = by_hand(model, as_fit=True)
    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", entropy, jit_compile=False)
    assert np.isfinite(model.evaluate(FEATURES["inputs"], FEATURES["targets"], verbose=0)).all()
    found = np.ravel(model.train_on_batch(FEATURES["inputs"], FEATURES["targets"]))[0]
    assert found == pytest.approx(float(loss), rel=1e-5)
    assert model.predict_on_batch(FEATURES["inputs"]).shape == (2, 2)


@pytest.mark.slow
def test_evaluate_alone_counts_the_losses_in_a_model_of_one_s_own() -> None:
    halting = {"halting": "basic", "act_max_steps": 2, "act_halting_bias_init": -9.0}
    layer = UniversalTransformerEncoder(hidden_size=8, num_heads=1, transition="priced", **halting)
    inputs = keras.Input([None, 8])
    model = keras.Model(inputs, layer(inputs))
    model.compile("sgd", "mse", jit_compile=False)
    x = np.random.default_rng(0).normal(size=[2, 3, 8]).astype(np.float32)
    found = np.ravel(model.test_on_batch(x, x))[0]
    states = model(x)
    expected = float(tf.reduce_mean(tf.square(states - x)) + tf.add_n(model.losses))
    assert len(model.losses) == 2
    assert found == pytest.approx(expected, rel=1e-5)
    assert model.predict_on_batch(x).shape == x.shape


class Looping(Priced):
    """The same, which adds its loss inside a loop of its own."""

    def call(
        self, x: Any, keep: Any = None, training: bool = False, output_scale: float = 1.0
    ) -> Any:
        del keep, training

        def body(number: Any, total: Any) -> tuple[Any, Any]:
            self.add_loss(tf.reduce_sum(x))
            return number + 1, total

        tf.while_loop(lambda number, _: number < 2, body, (tf.constant(0), tf.constant(0.0)))
        return x * output_scale


@pytest.mark.parametrize("halting", [pytest.param("none", marks=pytest.mark.slow), "basic"])
def test_a_refused_run_leaves_its_directory_free_for_another(tmp_path: Path, halting: str) -> None:
    changes = {**CHANGES, "transition": "looping", "halting": halting}
    run = toy_run(tmp_path / "run", "toy_class", **changes)
    (run.output_dir / "config.json").write_text("{}")
    with pytest.raises(UserError, match=r"^Looping adds a loss inside a loop or condition"):
        train(run)
    assert not run.output_dir.exists()


def test_a_part_of_ours_with_an_activity_regularizer_counts_at_each_step() -> None:
    """The steps of a training share a graph otherwise, in which the loss would be lost."""
    from tests.models.universal_transformer.test_recurrence import called, made, states

    recurrence, inputs = made(), states(2, 4, 8)
    recurrence.block.transition.activity_regularizer = keras.regularizers.L2(0.5)
    outputs: list[Any] = []

    def loss(x: Any) -> Any:
        called(recurrence, x, tf.ones([2, 4]), training=True)
        return tf.add_n(recurrence.losses)

    def keep(view: StepView) -> None:
        outputs.append(view.state)

    called(recurrence, inputs, tf.ones([2, 4]), training=True, observer=keep)
    assert len(recurrence.losses) == len(outputs) == 3
    expected = tf.add_n(recurrence.losses)
    assert_close(tf.function(loss, autograph=False)(inputs), expected, 1e-5)
