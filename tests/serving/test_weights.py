"""Stored weights: how far each form is from the weights, and that the model itself is
left alone.
"""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from ut_tf.serving.weights import StoredWeights


class Net(keras.Model):
    """An embedding table (its rows are channels), a kernel (its columns are), a bias and a
    dropout's random generator.
    """

    def __init__(self) -> None:
        super().__init__()
        self.table = self.add_weight(shape=(50, 32), initializer=_uneven(0), name="table")
        self.kernel = self.add_weight(shape=(32, 40), initializer=_uneven(1), name="kernel")
        self.bias = self.add_weight(shape=(40,), initializer="random_normal", name="bias")
        self.dropout = keras.layers.Dropout(0.5, seed=3)
        self.built = True

    def call(self, ids, training=False):
        return (
            self.dropout(tf.gather(tf.convert_to_tensor(self.table), ids), training=training)
            @ self.kernel
            + self.bias
        )


def _uneven(axis):
    """Returns an initializer whose channels along `axis` differ a thousandfold in size; the third
    one is zero.
    """

    def draw(shape, dtype):
        sizes = np.geomspace(1e-3, 1.0, shape[axis]).astype(np.float32)
        sizes[2] = 0.0
        values = np.random.default_rng(axis).normal(size=shape) * sizes.reshape(
            [-1 if i == axis else 1 for i in range(2)]
        )
        return tf.constant(values, dtype)

    return draw


def _read(model, form):
    with StoredWeights(model, form).scope(model):
        return {variable.name: tf.convert_to_tensor(variable).numpy() for variable in model.weights}


def test_float32_is_the_same_to_the_bit():
    model = Net()
    for name, value in _read(model, "float32").items():
        np.testing.assert_array_equal(value, getattr(model, name))


@pytest.mark.parametrize(("form", "bound"), [("bfloat16", 2**-8), ("int8", 0.5 / 127)])
def test_matrices_are_off_by_a_known_share_of_their_channel(form, bound):
    model = Net()
    read = _read(model, form)
    for name, within in (("table", 1), ("kernel", 0)):
        exact = getattr(model, name).numpy()
        largest = np.abs(exact).max(axis=within, keepdims=True)
        assert (np.abs(read[name] - exact) <= bound * largest * 1.001).all()
        assert (read[name] != exact).any()
    np.testing.assert_array_equal(read["bias"], model.bias)


def test_sizes():
    model = Net()
    sizes = {
        form: StoredWeights(model, form).size_bytes for form in ("float32", "bfloat16", "int8")
    }
    matrices, rest = 50 * 32 + 32 * 40, sizes["float32"] - 4 * (50 * 32 + 32 * 40)
    assert sizes["bfloat16"] - rest == 2 * matrices
    assert sizes["int8"] - rest == matrices + 4 * (50 + 40)


def test_weights_that_change_later_are_not_seen_and_none_is_changed():
    model = Net()
    stored = StoredWeights(model)
    ids = tf.constant([[1, 2]])
    before, states = model(ids).numpy(), [variable.numpy() for variable in model.variables]
    with stored.scope(model):
        model(ids, training=True)
    for variable, state in zip(model.variables, states, strict=True):
        np.testing.assert_array_equal(variable, state)
    model.kernel.assign(tf.zeros_like(model.kernel))
    with stored.scope(model):
        np.testing.assert_allclose(model(ids), before, rtol=1e-6)


def test_a_traced_function_holds_the_stored_variables_alone():
    model = Net()
    stored = StoredWeights(model, "int8")

    @tf.function(autograph=False)
    def call(ids):
        with stored.scope(model):
            return model(ids)

    held = {
        variable.ref()
        for variable in call.get_concrete_function(tf.constant([[1]])).graph.variables
    }
    assert held <= {variable.ref() for variable in stored.variables}
