"""Neural GPUs: each example for itself, searches that agree with the whole sequence, and what is
refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from tests.search.models import INPUTS, LANGUAGE, SPEC, random_model
from ut_tf.errors import UserError
from ut_tf.models.neural_gpu.convolutional_gru import ConvolutionalGRU
from ut_tf.models.neural_gpu.extended import ExtendedNeuralGPU
from ut_tf.models.neural_gpu.model import NeuralGPU
from ut_tf.problem_spec import ProblemSpec
from ut_tf.search.config import DecodeConfig
from ut_tf.search.strategies import decode

pytestmark = pytest.mark.usefixtures("eager")

SIZES: dict[str, Any] = {"hidden_size": 6, "image_width": 2, "num_layers": 2}
TARGETS = np.array([[3, 4, 5, 6, 1], [8, 2, 1, 0, 0], [5, 5, 5, 1, 0]], np.int32)
BOTH = pytest.mark.parametrize(
    "kind", [NeuralGPU, pytest.param(ExtendedNeuralGPU, marks=pytest.mark.slow)]
)


def small(kind: Any, spec: ProblemSpec = SPEC, **changes: Any) -> Any:
    return random_model(kind, spec, **{**SIZES, **changes})


@BOTH
def test_padding_and_the_rest_of_the_batch_change_nothing(kind: Any) -> None:
    model = small(kind, relaxed_sets=2)
    together = model({"inputs": INPUTS, "targets": TARGETS})
    alone = model({"inputs": INPUTS[1:2, :3], "targets": TARGETS[1:2, :3]})
    wider = model(
        {"inputs": np.pad(INPUTS, [[0, 0], [0, 4]]), "targets": np.pad(TARGETS, [[0, 0], [0, 3]])}
    )
    assert_close(together[1:2, :3], alone, 1e-5)
    assert_close(together, wider[:, :5], 1e-5)


def test_a_neural_gpu_does_not_read_its_targets() -> None:
    model = small(NeuralGPU)
    np.testing.assert_array_equal(
        model({"inputs": INPUTS, "targets": TARGETS}),
        model({"inputs": INPUTS, "targets": np.full_like(TARGETS, 7)}),
    )


def test_an_extended_one_reads_the_targets_before_each() -> None:
    model = small(ExtendedNeuralGPU)
    changed = TARGETS.copy()
    changed[:, 2] = 7
    one, other = (
        model({"inputs": INPUTS, "targets": targets}).numpy() for targets in (TARGETS, changed)
    )
    np.testing.assert_array_equal(one[:, :3], other[:, :3])
    assert (np.abs(one - other)[:, 3].max(-1) > 1e-3).all()


def test_beyond_the_image_nothing_is_known() -> None:
    model = small(NeuralGPU, source_stretch=1.0)
    logits = model({"inputs": INPUTS, "targets": np.ones([3, 9], np.int32)}).numpy()
    np.testing.assert_array_equal(logits[1, 3:], 0.0)
    assert (np.abs(logits[1, :3]).max(-1) > 0).all()
    # Of equally probable symbols the first that may be written is the end.
    written = decode(model, {"inputs": INPUTS}, DecodeConfig(beam_size=1)).symbols.numpy()
    assert written.shape[2] <= 7


@BOTH
def test_what_they_cannot_do_is_said(kind: Any) -> None:
    with pytest.raises(UserError, match="works on an image of its inputs, and this problem has"):
        small(kind, LANGUAGE)


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
