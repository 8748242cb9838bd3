"""Gradients written by hand: they are TensorFlow's own, and graphs with them can be freed."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from ut_tf.layers.custom_gradient import custom_gradient


@custom_gradient
def tripled(x: Any) -> Any:
    """x squared, with a gradient of three times that of the square."""
    return x * x, lambda upstream: 6.0 * x * upstream


def looped(x: Any) -> Any:
    """The sum of two calls, in a loop."""
    steps = tf.while_loop(
        lambda step, _: step < 2, lambda step, total: (step + 1, total + tripled(x)), (0, x * 0.0)
    )
    return tf.reduce_sum(steps[1])


def with_gradient(x: Any) -> tuple[Any, Any]:
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = looped(x)
    return value, tape.gradient(value, x)


def test_a_graph_computes_it_and_is_freed() -> None:
    function = tf.function(with_gradient, autograph=False)
    value, gradient = function(tf.constant([3.0]))
    assert (float(value), gradient.numpy().tolist()) == (18.0, [36.0])
    graph = weakref.ref(function.get_concrete_function(tf.constant([3.0])).graph)
    del function
    gc.collect()
    assert graph() is None


def test_an_inner_function_outlives_the_one_that_traced_it() -> None:
    inner = tf.function(looped, autograph=False)
    outer = tf.function(lambda x: inner(x), autograph=False)
    outer(tf.constant([3.0]))
    del outer
    gc.collect()
    x = tf.constant([3.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = inner(x)
    assert tape.gradient(value, x).numpy().tolist() == [36.0]


def test_a_saved_model_keeps_the_gradient(tmp_path: Path) -> None:
    module = tf.Module()
    signature = [tf.TensorSpec([None])]
    module.value = tf.function(looped, input_signature=signature, autograph=False)
    tf.saved_model.save(module, str(tmp_path))
    del module
    gc.collect()
    loaded, x = tf.saved_model.load(str(tmp_path)), tf.constant([3.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = loaded.value(x)
    np.testing.assert_array_equal(tape.gradient(value, x), [36.0])
