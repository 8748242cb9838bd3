"""The CGRU against its equations, cell by cell; sets of parameters and their mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.close import assert_close
from ut_tf.models.neural_gpu.convolutional_gru import ConvolutionalGRU, cut_sigmoid

MAPS, WIDTH, LENGTH = 2, 3, 4


def unit_of(with_tape: bool = False, **changes: Any) -> ConvolutionalGRU:
    unit = ConvolutionalGRU(
        **{"hidden_size": MAPS, "image_width": WIDTH, "with_tape": with_tape, **changes}
    )
    unit.build()
    generator = np.random.default_rng(3)
    for weight in unit.trainable_variables:
        weight.assign(weight + generator.normal(scale=0.5, size=weight.shape))
    return unit


def convolved(image: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """The convolution of an image [length, width, maps] with zeros around it, as loops; kernel
    [columns, rows, inputs, outputs].
    """
    result = np.zeros((*image.shape[:2], kernel.shape[-1]))
    for row, column in np.ndindex(*image.shape[:2]):
        for across, along in np.ndindex(*kernel.shape[:2]):
            there = row + along - kernel.shape[1] // 2, column + across - kernel.shape[0] // 2
            if 0 <= there[0] < image.shape[0] and 0 <= there[1] < image.shape[1]:
                result[row, column] += image[there] @ kernel[across, along]
    return result


def cut(x: np.ndarray) -> np.ndarray:
    return np.clip(1.2 / (1.0 + np.exp(-x)) - 0.1, 0.0, 1.0)


def expected(
    unit: ConvolutionalGRU, image: np.ndarray, tape: np.ndarray | None = None, number: int = 0
) -> np.ndarray:
    def total(name: str, x: np.ndarray) -> np.ndarray:
        found = (
            convolved(x, getattr(unit, f"{name}_kernel").numpy()[number])
            + getattr(unit, f"{name}_bias").numpy()[number]
        )
        if tape is not None:
            found += convolved(tape, getattr(unit, f"{name}_tape_kernel").numpy()[number])
        return found

    update, reset = cut(total("update", image)), cut(total("reset", image))
    return update * image + (1.0 - update) * np.tanh(total("candidate", reset * image))


def image_of(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(LENGTH, WIDTH, MAPS))


def flat(image: np.ndarray) -> Any:
    return tf.constant(image.reshape(1, LENGTH, -1), tf.float32)


def test_a_step_is_the_papers() -> None:
    unit, image = unit_of(), image_of()
    assert_close(unit(flat(image))[0], expected(unit, image).reshape(LENGTH, -1), 1e-5)


def test_the_tape_stands_in_the_first_column() -> None:
    unit, image, tape = unit_of(with_tape=True), image_of(), np.zeros((LENGTH, WIDTH, MAPS))
    tape[:, 0] = image_of(1)[:, 0]
    found = unit.step(
        flat(image),
        unit.choose(unit.prepare(), 0),
        tf.ones([1, LENGTH, 1]),
        tf.constant(tape[None, :, 0], tf.float32),
    )
    assert_close(found[0], expected(unit, image, tape).reshape(LENGTH, -1), 1e-5)


def test_gates_reach_their_ends() -> None:
    assert_close(cut_sigmoid(tf.constant([-9.0, 0.0, 9.0]), 1.2), [0.0, 0.5, 1.0], 1e-6)
    assert_close(cut_sigmoid(tf.constant([0.5]), 1.0), tf.sigmoid([0.5]), 1e-6)


def test_steps_take_the_sets_in_turn_until_they_are_tied() -> None:
    unit, image = unit_of(relaxed_sets=2), image_of()
    active = tf.ones([1, LENGTH, 1])
    for step in range(3):
        found = unit.step(flat(image), unit.choose(unit.prepare(), tf.constant(step)), active)
        assert_close(found[0], expected(unit, image, number=step % 2).reshape(LENGTH, -1), 1e-5)
    one = unit_of()
    for weight, sets in zip(one.trainable_variables, unit.trainable_variables, strict=True):
        weight.assign(tf.reduce_mean(sets, 0, keepdims=True))
    # Free again, each set is what their mean was.
    for tied in (True, False):
        unit.tie(tied)
        for step in range(2):
            found = unit.step(flat(image), unit.choose(unit.prepare(), tf.constant(step)), active)
            assert_close(found[0], expected(one, image).reshape(LENGTH, -1), 1e-5)
    unit.update_bias.assign_add(tf.constant([[0.0], [3.0]]) * tf.ones([1, MAPS]))
    assert (
        np.abs(unit.step(flat(image), unit.choose(unit.prepare(), 1), active) - found).max() > 1e-3
    )


def test_all_sets_begin_alike() -> None:
    unit = ConvolutionalGRU(hidden_size=MAPS, relaxed_sets=3)
    unit.build()
    for weight in unit.trainable_variables:
        np.testing.assert_array_equal(weight, tf.broadcast_to(weight[:1], weight.shape))
