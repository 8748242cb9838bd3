"""The recurrence: depth, copied states, independence of padding and of the batch, what is seen from
inside the loop.
"""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from typing import Any
from unittest.mock import Mock

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from ut_tf.errors import UserError
from ut_tf.layers.attention_weights import padding_bias
from ut_tf.layers.block import BlockContext
from ut_tf.layers.contracts import StackInputs
from ut_tf.layers.coordinates import paper_sinusoid
from ut_tf.layers.recurrence_details import StepView
from ut_tf.models.universal_transformer import recurrence as recurrences
from ut_tf.models.universal_transformer.compact_loop import CompactLoop, can_skip_halted
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig as Config
from ut_tf.models.universal_transformer.parts import make_recurrence
from ut_tf.models.universal_transformer.recurrence import Recurrence

NO_DROPOUT = {"dropout": 0.0, "attention_dropout": 0.0, "relu_dropout": 0.0}
SMALL = {"hidden_size": 8, "filter_size": 16, "num_heads": 2, "num_steps": 3, **NO_DROPOUT}
FORMS = ["basic", "accumulated", "global"]


def made(**changes: Any) -> Recurrence:
    keras.utils.set_random_seed(3)
    recurrence = make_recurrence(Config(**{**SMALL, **changes}))
    recurrence.build((None, None, 8))
    if recurrence.halting_unit.trainable_variables:
        recurrence.halting_unit.linear.kernel.assign(np.random.default_rng(0).normal(size=(8, 1)))
    return recurrence


def called(recurrence: Recurrence, inputs: Any, mask: Any, **options: Any) -> Any:
    signal = paper_sinusoid(tf.range(1, inputs.shape[1] + 1, dtype=tf.float32)[None], 8)
    context = BlockContext(bias=padding_bias(mask), keep=mask)
    training = options.pop("training", False)
    given = StackInputs(mask, signal, context, **options)
    return recurrence(inputs, given=given, training=training)


def states(*shape: int) -> Any:
    return tf.constant(np.random.default_rng(1).normal(size=shape), tf.float32)


@pytest.mark.parametrize("form", FORMS)
def test_halted_states_are_copied_to_the_end(form: str) -> None:
    seen: list[StepView] = []
    recurrence = made(halting=form, act_max_steps=6, act_halting_bias_init=0.0)
    called(recurrence, states(2, 5, 8), tf.ones([2, 5]), observer=seen.append)
    assert len(seen) > 1
    assert seen[0].attention_weights.shape == (2, 2, 5, 5)
    for before, after in itertools.pairwise(seen):
        halted = (before.halting.halting_sum >= recurrence.threshold).numpy()
        np.testing.assert_array_equal(after.state.numpy()[halted], before.state.numpy()[halted])


def test_transformed_states_go_on_moving() -> None:
    seen: list[StepView] = []
    recurrence = made(
        halting="basic", act_max_steps=6, act_halting_bias_init=0.0, halted_states="transform"
    )
    called(recurrence, states(2, 5, 8), tf.ones([2, 5]), observer=seen.append)
    halted = (seen[-2].halting.halting_sum >= recurrence.threshold).numpy()
    assert (
        halted.any()
        and np.abs(seen[-1].state.numpy()[halted] - seen[-2].state.numpy()[halted]).max() > 1e-3
    )


def test_details_agree_with_what_an_observer_sees() -> None:
    seen: list[StepView] = []
    recurrence = made(halting="basic", act_max_steps=5)
    _, details = called(
        recurrence, states(2, 4, 8), tf.ones([2, 4]), return_attention=True, observer=seen.append
    )
    assert details.halting_probabilities.shape == (5, 2, 4)
    np.testing.assert_array_equal(details.ponder_times, seen[-1].halting.ponder_times)
    np.testing.assert_array_equal(details.remainders, seen[-1].halting.remainders)
    np.testing.assert_array_equal(details.attention_weights[0], seen[0].attention_weights)


def test_a_position_that_halts_at_once_equals_depth_one() -> None:
    sure = made(halting="basic", act_max_steps=4)
    sure.halting_unit.linear.bias.assign([50.0])
    once = made(num_steps=1)
    once.set_weights(sure.get_weights()[: len(once.get_weights())])
    inputs, mask = states(2, 4, 8), tf.ones([2, 4])
    assert_close(called(sure, inputs, mask)[0], called(once, inputs, mask)[0], 1e-6)


def test_more_steps_at_evaluation_than_in_training() -> None:
    deeper = made(eval_num_steps=5)
    inputs, mask = states(1, 4, 8), tf.ones([1, 4])
    assert float(called(deeper, inputs, mask)[1].ponder_times[0, 0]) == 5.0
    assert float(called(deeper, inputs, mask, training=True)[1].ponder_times[0, 0]) == 3.0
    same = made(num_steps=5)
    assert_close(called(deeper, inputs, mask)[0], called(same, inputs, mask)[0], 1e-6)


def test_each_example_takes_its_own_number_of_steps() -> None:
    recurrence = made()
    inputs, mask = states(2, 4, 8), tf.ones([2, 4])
    mixed, details = called(recurrence, inputs, mask, steps=tf.constant([2, 4]))
    for row, depth in ((0, 2), (1, 4)):
        alone = called(made(num_steps=depth), inputs, mask)[0]
        assert_close(mixed[row], alone[row], 1e-6)
        assert float(details.ponder_times[row, 0]) == depth


def training_graph(recurrence: Recurrence, inputs: Any) -> Any:
    """The concrete function of a sum over the outputs and its gradient for the inputs."""

    def loss_and_gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            output, _ = called(recurrence, x, tf.ones([2, 4]), training=True)
            loss = tf.reduce_sum(output**3) + sum(recurrence.losses)
        return loss, tape.gradient(loss, [x, recurrence.trainable_variables[0].value])

    return tf.function(loss_and_gradient, autograph=False).get_concrete_function(inputs)


def test_the_steps_of_a_training_graph_are_traced_once() -> None:
    inputs, options = states(2, 4, 8), {"transition": "fc", "num_steps": 4}
    graph = training_graph(made(**options), inputs)
    operations = len(graph.graph.as_graph_def().node)
    fewer = training_graph(made(**{**options, "num_steps": 2}), inputs).graph
    assert operations < 1.5 * len(fewer.as_graph_def().node)

    recurrence = made(**options)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        loss = tf.reduce_sum(called(recurrence, inputs, tf.ones([2, 4]), training=True)[0] ** 3)
    expected = tape.gradient(loss, [inputs, recurrence.trainable_variables[0].value])
    tf.nest.map_structure(lambda *pair: assert_close(*pair, 1e-4), graph(inputs), (loss, expected))


@pytest.mark.parametrize(
    "form", [pytest.param(x, marks=[pytest.mark.slow] * (x != "basic")) for x in FORMS]
)
def test_the_ponder_cost_reaches_the_halting_unit(form: str) -> None:
    recurrence = made(halting=form, act_max_steps=8)
    with tf.GradientTape() as tape:
        cost = called(recurrence, states(2, 4, 8), tf.ones([2, 4]))[1].ponder_cost()
    gradient = tape.gradient(cost, recurrence.halting_unit.linear.bias.value)
    assert gradient is not None and float(tf.abs(gradient[0])) > 0


@pytest.mark.parametrize("compute", ["dense", "compact"])
def test_an_example_that_has_its_steps_waits(compute: str) -> None:
    by_length = made(steps_per_position=1.0, halting_compute=compute)
    inputs, mask = states(2, 4, 8), tf.constant([[1.0, 1.0, 0.0, 0.0], [1.0] * 4])
    together, details = called(by_length, inputs, mask, steps=tf.constant([2, 4]))
    assert details.ponder_times[:, 0].numpy().tolist() == [2.0, 4.0]
    alone = called(by_length, inputs[:1], mask[:1], steps=tf.constant([2]))[0]
    assert_close(together[:1, :2], alone[:, :2], 1e-6)


@pytest.mark.parametrize("form", ["basic", pytest.param("accumulated", marks=pytest.mark.slow)])
def test_the_last_step_gets_what_is_left(form: str) -> None:
    options = {"halting": form, "act_max_steps": 3, "act_halting_bias_init": -6.0}
    inputs, mask = states(2, 4, 8), tf.ones([2, 4])
    closed = called(made(**options, act_last_step="remainder"), inputs, mask)[1]
    opened = called(made(**options), inputs, mask)[1]
    late = opened.remainders.numpy() == 0
    assert late.any() and closed.ponder_times.numpy()[late].tolist() == [3.0] * late.sum()
    left = 1.0 - tf.reduce_sum(opened.halting_probabilities[:2], 0)
    assert_close(closed.remainders.numpy()[late], left.numpy()[late], 1e-6)
    assert_close(closed.remainders.numpy()[~late], opened.remainders.numpy()[~late], 0.0)


def test_a_loss_of_the_block_leaves_the_loop_as_often_as_without_halting() -> None:
    """No position has halted before the last of 3 steps."""
    losses = []
    for changes in ({}, {"halting": "basic", "act_max_steps": 3, "act_halting_bias_init": -20.0}):
        recurrence = made(**changes)
        if changes:
            recurrence.halting_unit.linear.kernel.assign(tf.zeros([8, 1]))
        transition = recurrence.block.transition
        transition.activity_regularizer = keras.regularizers.L2(0.5)
        called(recurrence, states(2, 4, 8), tf.ones([2, 4]), training=True)
        losses.append(tf.add_n(transition.losses))
    assert losses[0] > 0.1
    assert_close(losses[1], losses[0], 1e-5)


SMALL_MODEL = {
    "hidden_size": 8,
    "filter_size": 16,
    "num_heads": 2,
    "num_steps": 3,
    "act_max_steps": 5,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "relu_dropout": 0.0,
}


def test_a_sequence_of_padding_alone() -> None:
    recurrence = make_recurrence(Config(**SMALL_MODEL, halting="basic", halting_compute="compact"))
    output, details = recurrence(
        tf.ones([2, 3, 8]),
        tf.zeros([2, 3]),
        None,
        BlockContext(bias=padding_bias(tf.zeros([2, 3]))),
    )
    assert float(tf.reduce_max(tf.abs(output))) == 0.0
    assert float(tf.reduce_max(details.ponder_times)) == 0.0


@pytest.mark.parametrize(
    ("compute", "device", "gathers"),
    [("auto", "", False), ("compact", "", True), ("auto", "/cpu:0", True)],
)
def test_beside_a_gpu_positions_are_gathered_on_demand_or_on_the_cpu(
    compute: str, device: str, gathers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    gathering = Mock(wraps=CompactLoop)
    monkeypatch.setattr(recurrences, "CompactLoop", gathering)
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: [f"{kind}:0"])
    recurrence = make_recurrence(Config(**SMALL_MODEL, halting="basic", halting_compute=compute))
    with tf.distribute.OneDeviceStrategy(device).scope() if device else nullcontext():
        recurrence(tf.ones([2, 3, 8]), tf.ones([2, 3]), None, BlockContext(bias=None))
    assert gathering.called == gathers


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_batch_without_examples(norm: str) -> None:
    recurrence = make_recurrence(Config(**SMALL_MODEL, halting="basic", norm=norm))
    context = BlockContext(bias=padding_bias(tf.zeros([0, 3])))
    output, _ = recurrence(tf.ones([0, 3, 8]), tf.ones([0, 3]), None, context)
    assert output.shape == (0, 3, 8)


@pytest.mark.parametrize(
    "changes",
    [
        {"halted_states": "transform"},
        {"halting": "global"},
        {"halting": "pondernet"},
        {"transition": "sepconv"},
        {"recurrence_layers": 2},
        {"position": "tensor2tensor", "position_shift": "step"},
    ],
)
def test_what_reads_halted_positions_computes_all(changes: dict[str, Any]) -> None:
    config = {**SMALL_MODEL, "halting": "basic", **changes}
    recurrence = make_recurrence(Config(**config))
    assert not can_skip_halted(recurrence.recurrent_step, recurrence.halting_unit)
    with pytest.raises(UserError, match="halting_compute=compact needs"):
        make_recurrence(Config(**config, halting_compute="compact"))
