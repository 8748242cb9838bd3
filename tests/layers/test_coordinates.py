"""Coordinates and positions by hand, and their invariants."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.close import assert_close
from ut_tf.config.hparams import HParams
from ut_tf.errors import UserError, marked_in
from ut_tf.layers.coordinates import (
    Coordinates,
    head_rotations,
    rotate,
    rotation_table,
    tensor2tensor_sinusoid,
)
from ut_tf.layers.position_encodings import PaperPositions, PositionTable
from ut_tf.layers.positions import Positions, spread_positions
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
from ut_tf.models.universal_transformer.model import UniversalTransformer
from ut_tf.problem_spec import ProblemSpec


def test_the_paper_coordinate_of_position_3_at_step_2() -> None:
    coordinates = Coordinates(4, max_steps=4)
    coordinates.build((None, None, 4))
    signal = PaperPositions(4).signal(tf.constant([[3.0]]))
    got = coordinates(tf.zeros([1, 1, 4]), step=1, position_signal=signal)[0, 0]
    expected = [
        f(i / 10000 ** (2 * j / 4)) + f(2 / 10000 ** (2 * j / 4))
        for i in (3,)
        for j in (0, 1)
        for f in (math.sin, math.cos)
    ]
    assert_close(got, expected, 1e-6)


def test_tensor2tensor_sinusoids_by_hand() -> None:
    got = tensor2tensor_sinusoid(tf.constant([2.0]), 4)[0]
    assert_close(got, [math.sin(2), math.sin(2e-4), math.cos(2), math.cos(2e-4)], 1e-6)


@pytest.mark.parametrize(("step", "shift"), [(0, 0), (1, 1), (2, 3), (3, 5)])
def test_positions_grow_with_the_steps(step: int, shift: int) -> None:
    coordinates = Coordinates(8, 4, "none", position_shift="step")
    coordinates.build((None, None, 8))
    positions = tf.range(7, dtype=tf.float32)[None]
    got = coordinates(
        tf.zeros([1, 7, 8]), step=step, position_signal=tensor2tensor_sinusoid(positions, 8)
    )
    assert_close(got, tensor2tensor_sinusoid(positions + float(shift), 8), 1e-5)


@pytest.mark.parametrize("step_encoding", ["learned", "sinusoid", "none"])
def test_concatenated_coordinates_are_projected(step_encoding: str) -> None:
    coordinates = Coordinates(
        4, 3, step_encoding, step_sinusoid="tensor2tensor", coordinate_form="concat"
    )
    coordinates.build((None, None, 4))
    states, signal = tf.random.normal([2, 5, 4], seed=1), tf.random.normal([1, 5, 4], seed=2)
    parts = [states, tf.tile(signal, [2, 1, 1])]
    if step_encoding != "none":
        step = coordinates.step_signal(2)  # Twice as wide.
        assert step.shape == [8]
        parts.append(tf.tile(step[None, None], [2, 5, 1]))
    expected = tf.concat(parts, -1) @ tf.convert_to_tensor(coordinates.kernel)
    assert_close(coordinates(states, step=2, position_signal=signal), expected, 1e-5)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"position_shift": "step"}, "position_shift=step needs position=tensor2tensor"),
        ({"coordinate_form": "concat", "position": "rotary"}, "coordinate_form=concat needs"),
        (
            {"position_shift": "step", "position": "tensor2tensor", "steps_per_position": 0.5},
            "needs the same depth for all examples",
        ),
    ],
)
def test_impossible_coordinates_are_refused(values: dict[str, object], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        UniversalTransformerConfig(**values)  # type: ignore[arg-type]


def test_positions_stay_distinct_under_bfloat16() -> None:
    signal = PaperPositions(64).signal(tf.range(1, 1025, dtype=tf.float32)[None])
    assert signal.dtype == tf.float32
    assert len(np.unique(signal.numpy()[0], axis=0)) == 1024


def test_a_pair_is_turned_from_the_first_channel_to_the_second() -> None:
    turned = rotate(tf.constant([[[[1.0, 0.0]]]]), rotation_table(tf.constant([[0.5]]), 2))
    assert_close(turned[0, 0, 0], [math.cos(0.5), math.sin(0.5)], 1e-6)


def test_rotated_products_depend_on_distance_only() -> None:
    generator = np.random.default_rng(0)
    query, key = (tf.constant(generator.normal(size=(1, 1, 1, 8)), tf.float32) for _ in range(2))
    products = []
    for start in (1.0, 50.0, 700.0):
        turned = [
            rotate(x, rotation_table(tf.constant([[at]]), 8))
            for x, at in ((query, start), (key, start + 5))
        ]
        products.append(float(tf.reduce_sum(turned[0] * turned[1])))
    assert_close(products, products[0], 1e-4)


def test_half_of_the_heads_are_turned_from_the_end() -> None:
    forward, backward = tf.constant([[1.0, 2, 3]]), tf.constant([[3.0, 2, 1]])
    turned = head_rotations(forward, backward, 3, 4)
    for found, first, second in zip(
        turned, rotation_table(forward, 4), rotation_table(backward, 4), strict=True
    ):
        np.testing.assert_array_equal(found, tf.concat([first, first, second], 1))


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 30), st.integers(0, 10_000))
def test_spread_positions_increase_and_stay_in_range(size: int, seed: int) -> None:
    positions = spread_positions(
        tf.constant(4), tf.constant(size), 100, tf.constant([seed, 1])
    ).numpy()
    assert (np.diff(positions, axis=1) >= 1).all()
    assert positions.min() >= 0 and positions.max() < 100
    assert (positions == np.round(positions)).all()


def test_one_random_offset_per_example_and_none_at_evaluation() -> None:
    positions = Positions(
        position_offset="random", max_position_offset=1000, eval_position_offset=7
    )
    drawn = positions(batch_size=50, size=3, training=True)
    assert drawn.shape == (50, 1) and len(np.unique(drawn)) > 30
    assert drawn.numpy().min() >= 0 and drawn.numpy().max() <= 1000
    assert positions(batch_size=50, size=3).numpy().tolist() == [[7.0]]


@pytest.mark.parametrize(
    ("changes", "expected_inputs", "expected_targets"),
    [
        ({}, [1, 2, 3, 4], [1, 2, 3]),
        ({"position_from": "end"}, [3, 2, 1, 0], [1, 2, 3]),
        ({"position_from": "end", "end_position": 0}, [2, 1, 0, -1], [1, 2, 3]),
        ({"target_position": "continue"}, [1, 2, 3, 4], [4, 5, 6]),
        ({"target_position": "backward", "input_start_symbol": True}, [0, 1, 2, 3], [3, 2, 1]),
    ],
)
def test_directions_of_three_symbols_and_one_padding(
    changes: dict, expected_inputs: list, expected_targets: list
) -> None:
    positions = Positions(**changes)
    assigned, lengths = positions(batch_size=1, size=9), tf.constant([3.0])
    inputs = positions.inputs(assigned, tf.constant(4), lengths)
    targets = positions.targets(assigned, tf.range(3, dtype=tf.float32)[None], lengths)
    assert inputs.numpy()[0].tolist() == expected_inputs
    assert targets.numpy()[0].tolist() == expected_targets


def test_positions_begin_again_behind_a_separator() -> None:
    ids = tf.constant([[5, 9, 6, 7, 9, 8, 1]])
    for changes, expected in [
        ({}, [1, 2, 1, 2, 3, 1, 2]),
        ({"input_start_symbol": True}, [0, 1, 2, 1, 2, 3, 1, 2]),
    ]:
        positions = Positions(position_separator=9, **changes)
        length, given = len(expected), ids if not changes else tf.pad(ids, [[0, 0], [1, 0]])
        found = positions.inputs(
            positions(batch_size=1, size=9), length, tf.constant([7.0]), ids=given
        )
        assert found.numpy()[0].tolist() == expected


def test_positions_of_digits_are_their_places_in_their_numerals() -> None:
    """12+345= and 7 at the end, with digits 0 to 9 as ids 2 to 11."""
    ids = tf.constant([[3, 4, 20, 5, 6, 7, 1], [9, 1, 0, 0, 0, 0, 0], [20, 2, 2, 2, 2, 2, 2]])
    expected = [[2, 1, 0, 3, 2, 1, 0], [1, 0, 0, 0, 0, 0, 0], [0, 6, 5, 4, 3, 2, 1]]
    positions = Positions(position_digits=10)
    assigned = positions(batch_size=3, size=9)
    found = positions.inputs(assigned, 7, tf.constant([7.0, 2.0, 7.0]), ids=ids)
    assert found.numpy().tolist() == expected
    fewer = Positions(position_digits=2).inputs(assigned, 7, tf.constant([7.0, 2.0, 7.0]), ids=ids)
    assert fewer.numpy()[0].tolist() == [1, 0, 0, 0, 0, 0, 0]


def test_randomised_positions_are_a_subset_of_all_and_in_use_evenly_spread() -> None:
    """Ruoss et al., arXiv 2305.16843: every position of the window is as likely as every other, and
    no two are alike.
    """
    positions = Positions(
        position_offset="randomised",
        max_position_offset=20,
        eval_position_offset=3,
        eval_position_stride=4,
    )
    drawn = positions(batch_size=400, size=5, training=True).numpy()
    assert drawn.shape == (400, 5) and (np.diff(drawn, axis=1) >= 1).all()
    counts = np.bincount(drawn.astype(int).reshape(-1), minlength=20)
    assert len(counts) == 20 and counts.min() > 60 and counts.max() < 140  # 100 expected
    assigned = positions(batch_size=2, size=5)
    assert positions.inputs(assigned, 3, tf.constant([3.0, 2.0])).numpy().tolist() == [
        [7.0, 11.0, 15.0]
    ]
    assert positions.targets(
        assigned, tf.constant([[2.0]]), tf.constant([3.0])
    ).numpy().tolist() == [[15.0]]


def test_a_learned_table_refuses_what_it_does_not_reach() -> None:
    table = PositionTable(4, learned_positions=3)
    table.build(None)
    positions = tf.constant([[1.0, 2.0, 3.0, 4.0], [3.0, 2.0, 1.0, 0.0]])
    found = table(positions, counted=tf.constant([[1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 0.0]]))
    assert_close(found[0, :3], 2.0 * table.table.numpy()[1:], 1e-6)
    np.testing.assert_array_equal(found[1, :3], found[0, 2::-1])
    for compiled in (table, tf.function(table)):
        with pytest.raises(tf.errors.InvalidArgumentError) as refused:
            compiled(positions)
        assert marked_in(refused.value).startswith(
            "position=learned has embeddings of 3 positions and this sequence is longer"
        )
    assert marked_in(ValueError("another")) is None


def test_positions_that_cannot_be_are_refused() -> None:
    with pytest.raises(UserError, match="training reaches position 104"):
        HParams().change(
            position="learned",
            learned_positions=100,
            position_from="end",
            end_position=5,
            max_length=100,
        ).resolve()
    HParams().change(
        position="learned", learned_positions=256, max_position_offset=1000
    ).resolve()  # position_offset=none draws none
    with pytest.raises(UserError, match="position_separator=9 is the id of a symbol among the"):
        network = UniversalTransformerConfig(position_separator=9)
        UniversalTransformer(network, ProblemSpec("facts", "class", 12, 5, max_words=3))
    with pytest.raises(UserError, match="position_digits=10 counts ids among the inputs"):
        network = UniversalTransformerConfig(position_digits=10)
        UniversalTransformer(network, ProblemSpec("facts", "class", 12, 5, max_words=3))
    with pytest.raises(UserError, match=r"position_offset=randomised spreads up to .* = 83"):
        HParams().change(
            position_offset="randomised", max_position_offset=50, max_length=40
        ).resolve()
    with pytest.raises(UserError, match="eval_position_stride=2 needs"):
        HParams().change(eval_position_stride=2).resolve()
