"""A cell, a halting form and a transition as version 0.4 asked for them."""

import tensorflow as tf

from ut_tf import registry
from ut_tf.layers.linear import Linear
from ut_tf.layers.transition import TransitionFunction
from ut_tf.models.universal_transformer.cells import BasicCell
from ut_tf.models.universal_transformer.halting.adaptive_computation_time import Basic


@registry.register_cell("stored_memory")
class MemoryCell(BasicCell):
    """The block reads the state and the memory, which is a decaying sum of outputs."""

    def __init__(self, hidden_size, **kwargs):
        super().__init__(**kwargs)
        self.rate = self.add_weight(shape=(hidden_size,), initializer="zeros", name="rate")

    def start(self, inputs):
        return 0.5 * inputs

    def look(self, state, memory, step):
        share = 1.0 / (2.0 + tf.cast(step, tf.float32))
        return state + tf.cast(share, state.dtype) * memory, memory

    def call(self, block_output, state, memory, inputs):
        rate = tf.cast(tf.sigmoid(self.rate), state.dtype)
        memory = 0.5 * memory + 0.1 * inputs
        return rate * state + (1.0 - rate) * block_output, memory


@registry.register_halting("stored_patient")
class PatientHalting(Basic):
    """No position halts before its second step, and half of the first step's state stays."""

    def probabilities(self, before, after, counted, step=0):
        own = super().probabilities(before, after, counted, step)
        return tf.where(tf.equal(step, 0), 0.25, own)

    def advance(self, probability, last, new_state, state, output, halting):
        mixed = 0.75 * new_state + 0.25 * tf.cast(state, new_state.dtype)
        return super().advance(probability, last, mixed, state, output, halting)


@registry.register_transition("stored_swiglu")
class SwiGLU(TransitionFunction):
    """(silu(x W) * x V) U."""

    def __init__(self, hidden_size, filter_size, kernel_init="glorot", **kwargs):
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.gate = Linear(filter_size, False, kernel_init, name="gate", dtype=policy)
        self.inner = Linear(filter_size, False, kernel_init, name="inner", dtype=policy)
        self.outer = Linear(hidden_size, False, kernel_init, name="outer", dtype=policy)

    def build(self, input_shape):
        self.gate.build(input_shape)
        self.inner.build(input_shape)
        self.outer.build((*input_shape[:-1], self.inner.units))

    def call(self, x, keep=None, training=False, output_scale=1.0):
        del keep, training
        return self.outer(tf.nn.silu(self.gate(x)) * self.inner(x), output_scale=output_scale)
