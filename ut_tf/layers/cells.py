"""How the states of successive steps combine: basic, gru, lstm. Further types of recurrence are added to ``CELLS``.

A cell is called as ``cell(block_output, state, memory, inputs)`` and returns (new state, new memory); all are
[batch, length, hidden_size], `inputs` is the embedded input of the recurrence and `memory` what the cell itself carries along.
``uses_transition`` says whether the block in front of it ends with the transition function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import keras
import tensorflow as tf

from ut_tf.config import NetworkConfig
from ut_tf.layers.linear import Linear, affine
from ut_tf.layers.normalization import LayerNorm

_Norm = Callable[[Any], Any]
_Gate = Callable[[str, Any], Any]


@keras.saving.register_keras_serializable("ut_tf")
class BasicCell(keras.layers.Layer):  # type: ignore[misc]
    """The paper's recurrence: the new state is the block's output.

    Args:
      network: without effect here; all cells have the same arguments.
    """

    uses_transition: ClassVar[bool] = True

    def __init__(self, network: NetworkConfig, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.network = network
        self.built = True

    def call(self, block_output: Any, state: Any, memory: Any, inputs: Any) -> tuple[Any, Any]:
        del state, inputs
        return block_output, memory

    def prepare(self) -> dict[str, Any]:
        """Returns the weights for ``step``, read, joined and cast once; none here."""
        return {}

    def step(self, block_output: Any, state: Any, memory: Any, inputs: Any, weights: dict[str, Any]) -> tuple[Any, Any]:
        """Returns what the call returns for one new position, [rows, hidden_size] each: by the call, where a subclass has its own."""
        del weights
        if type(self).call is BasicCell.call:
            return block_output, memory
        new_state, new_memory = self(block_output[:, None], state[:, None], memory[:, None], inputs[:, None])
        return new_state[:, 0], new_memory[:, 0]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "network": self.network.to_dict()}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> BasicCell:
        return cls(**{**config, "network": NetworkConfig.from_dict(config["network"])})


class _GatedCell(BasicCell):
    """What gru and lstm share: gates that read [attended, state], and a norm before and after."""

    uses_transition: ClassVar[bool] = False
    gates: ClassVar[dict[str, float]] = {}

    def __init__(self, network: NetworkConfig, **kwargs: Any) -> None:
        super().__init__(network, **kwargs)
        self.built = False
        policy = self.dtype_policy
        self.before_norm = LayerNorm(network.norm_epsilon, name="before_norm", dtype=policy)
        self.after_norm = LayerNorm(network.norm_epsilon, name="after_norm", dtype=policy)
        for name, bias in self.gates.items():
            linear = Linear(network.hidden_size, True, network.kernel_init, bias_init=bias, name=f"{name}_gate", dtype=policy)
            setattr(self, f"{name}_gate", linear)

    def build(self, input_shape: Any) -> None:
        width = input_shape[-1]
        for norm in (self.before_norm, self.after_norm):
            norm.build((None, None, width))
        for name in self.gates:
            getattr(self, f"{name}_gate").build((None, None, 2 * width))

    def call(self, block_output: Any, state: Any, memory: Any, inputs: Any) -> tuple[Any, Any]:
        del inputs
        return self._combine(
            self.before_norm(block_output), state, memory, self.after_norm, lambda name, joined: getattr(self, f"{name}_gate")(joined)
        )

    def prepare(self) -> dict[str, Any]:
        gates = {name: getattr(self, f"{name}_gate").prepare() for name in self.gates}
        return {**gates, "before_norm": self.before_norm.prepare(), "after_norm": self.after_norm.prepare()}

    def step(self, block_output: Any, state: Any, memory: Any, inputs: Any, weights: dict[str, Any]) -> tuple[Any, Any]:
        del inputs
        return self._combine(
            self.before_norm.step(block_output, weights["before_norm"]),
            state,
            memory,
            lambda x: self.after_norm.step(x, weights["after_norm"]),
            lambda name, joined: affine(joined, weights[name]),
        )

    def _combine(self, attended: Any, state: Any, memory: Any, norm: _Norm, gate: _Gate) -> tuple[Any, Any]:
        """Returns (new state, new memory), given the norm that follows and the gates' affine maps by their names."""
        raise NotImplementedError


@keras.saving.register_keras_serializable("ut_tf")
class GRUCell(_GatedCell):
    """The gru recurrence: a = LN(block), z, r = σ([a, s]), c = tanh([a, r·s]), s' = LN((1 - z)·a + z·c)."""

    gates: ClassVar[dict[str, float]] = {"update": 1.0, "reset": 1.0, "candidate": 0.0}

    def _combine(self, attended: Any, state: Any, memory: Any, norm: _Norm, gate: _Gate) -> tuple[Any, Any]:
        state = tf.cast(state, attended.dtype)
        joined = tf.concat([attended, state], -1)
        update, reset = tf.sigmoid(gate("update", joined)), tf.sigmoid(gate("reset", joined))
        candidate = tf.tanh(gate("candidate", tf.concat([attended, reset * state], -1)))
        return norm((1.0 - update) * attended + update * candidate), memory


@keras.saving.register_keras_serializable("ut_tf")
class LSTMCell(_GatedCell):
    """The lstm recurrence: i, f, o = σ([a, s]), g = tanh([a, s]), m' = f·m + i·g, s' = LN(o·tanh(m')) with a = LN(block)."""

    gates: ClassVar[dict[str, float]] = {"input": 0.0, "forget": 0.0, "output": 0.0, "modulation": 0.0}

    def _combine(self, attended: Any, state: Any, memory: Any, norm: _Norm, gate: _Gate) -> tuple[Any, Any]:
        joined = tf.concat([attended, tf.cast(state, attended.dtype)], -1)
        into, out = tf.sigmoid(gate("input", joined)), tf.sigmoid(gate("output", joined))
        forget = tf.sigmoid(gate("forget", joined) + self.network.lstm_forget_bias)
        memory = forget * tf.cast(memory, into.dtype) + into * tf.tanh(gate("modulation", joined))
        return norm(out * tf.tanh(memory)), memory


CELLS: dict[str, type[BasicCell]] = {"basic": BasicCell, "gru": GRUCell, "lstm": LSTMCell}
"""The cells by their name in NetworkConfig.recurrence."""
