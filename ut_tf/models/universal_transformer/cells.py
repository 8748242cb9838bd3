"""Cells: how the states of successive steps combine. A cell of your own subclasses ``BasicCell``
and is registered with ``registry.register_cell``.

Before the first recurrent step, and once per step::

    state, memory = cell.initial_state(inputs), cell.initial_memory(inputs)
    read, memory = cell.block_input(state, memory, inputs, step)  # and its coordinates are added
    state, memory = cell(block(read), state, memory, inputs)

States are [batch, length, hidden_size], of one new position [rows, hidden_size]. `inputs` is the
embedded input of the recurrence. `memory` is a tensor shaped like the states but for its last axis,
or a nested structure of such tensors.
"""

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

import keras
import tensorflow as tf

from ut_tf.errors import UserError
from ut_tf.layers.linear import Linear, affine, kernel_initializer, matmul
from ut_tf.layers.normalization import LayerNorm

_GATE_INPUTS = ("state", "output", "input")
_Norm = Callable[[Any], Any]
_Gate = Callable[[str, Any], Any]


def step_argument(function: Callable[..., Any], step: Any) -> dict[str, Any]:
    """Returns {"step": step} for a function that takes the recurrent step, otherwise nothing."""
    return {"step": step} if "step" in inspect.signature(function).parameters else {}


def _memory_of_start(cell: Any, inputs: Any) -> Any:
    return cell.start(inputs)


def _input_of_look(cell: Any, state: Any, memory: Any, inputs: Any, step: Any) -> tuple[Any, Any]:
    del inputs
    seen, memory = cell.look(state, memory, step)
    return seen, memory


class CellOf04:
    """The names of a cell's methods in version 0.4: ``start(inputs)`` returned the first memory,
    and ``look(state, memory, step)`` the block's input. Cells that define them go on working.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for old, new, adapter in (
            ("start", "initial_memory", _memory_of_start),
            ("look", "block_input", _input_of_look),
        ):
            if old not in vars(cls):
                continue
            if getattr(cls, new) not in (getattr(BasicCell, new), adapter):
                raise UserError(
                    f"{cls.__name__}.{old} is what version 0.4 called `{new}`, which a class that"
                    f" it derives from defines: define `{new}` instead."
                )
            setattr(cls, new, adapter)

    def start(self, inputs: Any) -> Any:
        """Returns zeros like the inputs, as a cell of 0.4 expects of its base class."""
        return tf.zeros_like(inputs)

    def look(self, state: Any, memory: Any, step: Any) -> tuple[Any, Any]:
        """Returns the state and the memory, as a cell of 0.4 expects of its base class."""
        return state, memory


@keras.saving.register_keras_serializable("ut_tf")
class BasicCell(CellOf04, keras.layers.Layer):  # type: ignore[misc]
    """The paper's recurrence, s' = T, with s the state and T the block's output; base class of all
    cells.

    Attributes:
      uses_transition: whether the block in front of the cell ends with the transition function.
      sees_earlier_states: whether the memory grows from step to step, which needs a fixed depth.
      has_final_memory: whether the memory can be the result of the recurrence.
    """

    uses_transition: ClassVar[bool] = True
    sees_earlier_states: ClassVar[bool] = False
    has_final_memory: ClassVar[bool] = False

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        # Without parts of its own there is nothing to build.
        self.built = type(self).build is keras.layers.Layer.build

    def initial_state(self, inputs: Any) -> Any:
        """Returns the state before the first step; default: the inputs."""
        return inputs

    def initial_memory(self, inputs: Any) -> Any:
        """Returns the memory before the first step; default: zeros like the inputs."""
        # Without a call of its own a cell has nothing to carry, which would cost time.
        return () if type(self) is BasicCell else tf.zeros_like(inputs)

    def block_input(self, state: Any, memory: Any, inputs: Any, step: Any) -> tuple[Any, Any]:
        """Returns (the input of the block at recurrent step `step`, from 0; the memory that the
        call gets); default: the state and the memory.
        """
        return state, memory

    @property
    def reads_state_alone(self) -> bool:
        """Whether the block reads the state as it is, whatever memory, inputs and step."""
        return type(self).block_input is BasicCell.block_input

    def call(self, block_output: Any, state: Any, memory: Any, inputs: Any) -> tuple[Any, Any]:
        return block_output, memory

    def prepare(self) -> dict[str, Any]:
        """The weights for ``step``, read, joined and cast once; none here."""
        return {}

    def step(
        self,
        block_output: Any,
        state: Any,
        memory: Any,
        inputs: Any,
        weights: dict[str, Any],
        step: Any = 0,
    ) -> tuple[Any, Any]:
        """Computes the call for one new position: (state, memory), [rows, hidden_size] each. A
        subclass with a call of its own needs no step.
        """
        if type(self).call is BasicCell.call:
            return block_output, memory
        arguments = (block_output, state, memory, inputs)
        spread = tf.nest.map_structure(lambda rows: rows[:, None], arguments)
        results = self(*spread, **step_argument(self.call, step))
        new_state, new_memory = tf.nest.map_structure(lambda result: result[:, 0], results)
        return new_state, new_memory


def _make_gates(cell: Any, gates: dict[str, float], hidden_size: int, kernel_init: str) -> None:
    """Gives a cell the affine maps of its gates, by their names and with their initial biases."""
    for name, bias in gates.items():
        options = {"name": f"{name}_gate", "dtype": cell.dtype_policy}
        setattr(cell, f"{name}_gate", Linear(hidden_size, True, kernel_init, bias, **options))


@keras.saving.register_keras_serializable("ut_tf")
class HighwayCell(BasicCell):
    """The highway recurrence (gates of arXiv 1505.00387, over depth): s' = s·c + T·g with a gate
    g = σ(W [LN(s), LN(T), LN(x)] + b), x the embedded input, and c = 1 - g or a gate of its own.

    Args:
      hidden_size: width of the states.
      transform_bias_init: b's initial value.
      couple_carry_transform_gates: whether c = 1 - g; else the carry gate c is like g with weights
        of its own and -b.
      kernel_init: "glorot" or "unit_scaling".
      norm_epsilon: of the layer norms.
    """

    def __init__(
        self,
        hidden_size: int,
        transform_bias_init: float = -1.0,
        couple_carry_transform_gates: bool = True,
        kernel_init: str = "glorot",
        norm_epsilon: float = 1e-6,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.transform_bias_init = transform_bias_init
        self.couple_carry_transform_gates = couple_carry_transform_gates
        policy = self.dtype_policy
        for name in _GATE_INPUTS:
            norm = LayerNorm(norm_epsilon, name=f"{name}_norm", dtype=policy)
            setattr(self, f"{name}_norm", norm)
        _make_gates(self, self.gates, hidden_size, kernel_init)

    @property
    def gates(self) -> dict[str, float]:
        """The gates with their initial biases."""
        bias = self.transform_bias_init
        if self.couple_carry_transform_gates:
            return {"transform": bias}
        return {"transform": bias, "carry": -bias}

    def build(self, input_shape: Any) -> None:
        width = input_shape[-1]
        for name in _GATE_INPUTS:
            getattr(self, f"{name}_norm").build((None, None, width))
        for name in self.gates:
            getattr(self, f"{name}_gate").build((None, None, len(_GATE_INPUTS) * width))

    def call(self, block_output: Any, state: Any, memory: Any, inputs: Any) -> tuple[Any, Any]:
        parts = zip(self._norms(), (state, block_output, inputs), strict=True)
        joined = tf.concat([norm(x) for norm, x in parts], -1)
        logits = {name: getattr(self, f"{name}_gate")(joined) for name in self.gates}
        return self._mixed(block_output, state, inputs, logits), memory

    def prepare(self) -> dict[str, Any]:
        norms = {
            f"{name}_norm": norm.prepare()
            for name, norm in zip(_GATE_INPUTS, self._norms(), strict=True)
        }
        return norms | {name: getattr(self, f"{name}_gate").prepare() for name in self.gates}

    def step(
        self,
        block_output: Any,
        state: Any,
        memory: Any,
        inputs: Any,
        weights: dict[str, Any],
        step: Any = 0,
    ) -> tuple[Any, Any]:
        parts = zip(_GATE_INPUTS, self._norms(), (state, block_output, inputs), strict=True)
        joined = tf.concat([norm.step(x, weights[f"{name}_norm"]) for name, norm, x in parts], -1)
        logits = {name: affine(joined, weights[name]) for name in self.gates}
        return self._mixed(block_output, state, inputs, logits), memory

    def carried(self, state: Any, inputs: Any) -> Any:
        """The input that is carried past the block: here the state."""
        return state

    def _norms(self) -> list[LayerNorm]:
        return [getattr(self, f"{name}_norm") for name in _GATE_INPUTS]

    def _mixed(self, block_output: Any, state: Any, inputs: Any, logits: dict[str, Any]) -> Any:
        """The new state, given the gates' logits by their names."""
        transform = tf.sigmoid(logits["transform"])
        carry = tf.sigmoid(logits["carry"]) if "carry" in logits else 1.0 - transform
        return (
            tf.cast(self.carried(state, inputs), transform.dtype) * carry
            + tf.cast(block_output, transform.dtype) * transform
        )


@keras.saving.register_keras_serializable("ut_tf")
class SkipCell(HighwayCell):
    """The skip recurrence: s' = x·c + T·g, a highway that carries the embedded input past every
    step.
    """

    def carried(self, state: Any, inputs: Any) -> Any:
        return inputs


@keras.saving.register_keras_serializable("ut_tf")
class DepthwiseAttentionCell(BasicCell):
    """The dwa recurrence, depth-wise attention: the block reads Σ_j p_j (s_j + e_j) over the states
    s_0 … s_t of all steps so far, with learned embeddings e_j of the depth and p = softmax_j(w ·
    (s_j + e_j)) at each position; s' = T. (tensor2tensor's takes the softmax over the channels and
    leaves the newest state out.)

    Args:
      num_steps: number of steps.
      eval_num_steps: the same at evaluation; None: as in training.
      kernel_init: "glorot" or "unit_scaling".

    The memory holds for each state so far (s_j + e_j in the compute dtype, its logit in float32).
    """

    sees_earlier_states: ClassVar[bool] = True

    def __init__(
        self,
        num_steps: int,
        eval_num_steps: int | None = None,
        kernel_init: str = "glorot",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.depth = max(num_steps, eval_num_steps or 0)
        self.kernel_init = kernel_init

    def build(self, input_shape: Any) -> None:
        width = input_shape[-1]
        normal = keras.initializers.RandomNormal(stddev=width**-0.5)
        self.depth_table = self.add_weight(
            shape=(self.depth, width), initializer=normal, name="depth_table", autocast=False
        )
        initializer = kernel_initializer(self.kernel_init)
        self.score_kernel = self.add_weight(
            shape=(width, 1), initializer=initializer, name="score_kernel", autocast=False
        )

    def initial_memory(self, inputs: Any) -> Any:
        return ()

    def block_input(self, state: Any, memory: Any, inputs: Any, step: Any) -> tuple[Any, Any]:
        embedding = tf.convert_to_tensor(self.depth_table)[step] * state.shape[-1] ** 0.5
        embedded = tf.cast(state, tf.float32) + embedding
        entry = (
            tf.cast(embedded, self.compute_dtype),
            matmul(embedded, tf.convert_to_tensor(self.score_kernel)),
        )
        memory = (*memory, entry)
        weights = tf.nn.softmax(tf.concat([score for _, score in memory], -1))
        # A sum of products, not a product of stacked states: those would be copied at every step.
        parts = [
            tf.cast(seen, tf.float32) * weights[..., index : index + 1]
            for index, (seen, _) in enumerate(memory)
        ]
        return tf.cast(tf.add_n(parts), self.compute_dtype), memory


class _GatedCell(BasicCell):
    """Base of gru and lstm: gates that read [attended, state], and a norm before and after.

    Args:
      hidden_size: width of the states.
      kernel_init: "glorot" or "unit_scaling".
      norm_epsilon: of the layer norms.
    """

    uses_transition: ClassVar[bool] = False
    gates: ClassVar[dict[str, float]] = {}

    def __init__(
        self,
        hidden_size: int,
        kernel_init: str = "glorot",
        norm_epsilon: float = 1e-6,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.before_norm = LayerNorm(norm_epsilon, name="before_norm", dtype=policy)
        self.after_norm = LayerNorm(norm_epsilon, name="after_norm", dtype=policy)
        _make_gates(self, self.gates, hidden_size, kernel_init)

    def build(self, input_shape: Any) -> None:
        width = input_shape[-1]
        for norm in (self.before_norm, self.after_norm):
            norm.build((None, None, width))
        for name in self.gates:
            getattr(self, f"{name}_gate").build((None, None, 2 * width))

    def call(self, block_output: Any, state: Any, memory: Any, inputs: Any) -> tuple[Any, Any]:
        return self._combine(
            self.before_norm(block_output),
            state,
            memory,
            self.after_norm,
            lambda name, joined: getattr(self, f"{name}_gate")(joined),
        )

    def prepare(self) -> dict[str, Any]:
        gates = {name: getattr(self, f"{name}_gate").prepare() for name in self.gates}
        return {
            **gates,
            "before_norm": self.before_norm.prepare(),
            "after_norm": self.after_norm.prepare(),
        }

    def step(
        self,
        block_output: Any,
        state: Any,
        memory: Any,
        inputs: Any,
        weights: dict[str, Any],
        step: Any = 0,
    ) -> tuple[Any, Any]:
        return self._combine(
            self.before_norm.step(block_output, weights["before_norm"]),
            state,
            memory,
            lambda x: self.after_norm.step(x, weights["after_norm"]),
            lambda name, joined: affine(joined, weights[name]),
        )

    def _combine(
        self, attended: Any, state: Any, memory: Any, norm: _Norm, gate: _Gate
    ) -> tuple[Any, Any]:
        """Returns (new state, new memory), given the norm that follows and the gates' affine maps
        by their names.
        """
        raise NotImplementedError


@keras.saving.register_keras_serializable("ut_tf")
class GRUCell(_GatedCell):
    """The gru recurrence: a = LN(block), z, r = σ([a, s]), c = tanh([a, r·s]), s' = LN((1 - z)·a +
    z·c).
    """

    gates: ClassVar[dict[str, float]] = {"update": 1.0, "reset": 1.0, "candidate": 0.0}

    def _combine(
        self, attended: Any, state: Any, memory: Any, norm: _Norm, gate: _Gate
    ) -> tuple[Any, Any]:
        state = tf.cast(state, attended.dtype)
        joined = tf.concat([attended, state], -1)
        update, reset = tf.sigmoid(gate("update", joined)), tf.sigmoid(gate("reset", joined))
        candidate = tf.tanh(gate("candidate", tf.concat([attended, reset * state], -1)))
        return norm((1.0 - update) * attended + update * candidate), memory


@keras.saving.register_keras_serializable("ut_tf")
class LSTMCell(_GatedCell):
    """The lstm recurrence: i, f, o = σ([a, s]), g = tanh([a, s]), m' = f·m + i·g, s' =
    LN(o·tanh(m')) with a = LN(block).

    Args:
      lstm_forget_bias: added to the logits of f.
      As of the other gated cells otherwise.
    """

    has_final_memory: ClassVar[bool] = True
    gates: ClassVar[dict[str, float]] = {
        "input": 0.0,
        "forget": 0.0,
        "output": 0.0,
        "modulation": 0.0,
    }

    def __init__(self, lstm_forget_bias: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lstm_forget_bias = lstm_forget_bias

    def _combine(
        self, attended: Any, state: Any, memory: Any, norm: _Norm, gate: _Gate
    ) -> tuple[Any, Any]:
        joined = tf.concat([attended, tf.cast(state, attended.dtype)], -1)
        into, out = tf.sigmoid(gate("input", joined)), tf.sigmoid(gate("output", joined))
        forget = tf.sigmoid(gate("forget", joined) + self.lstm_forget_bias)
        memory = forget * tf.cast(memory, into.dtype) + into * tf.tanh(gate("modulation", joined))
        return norm(out * tf.tanh(memory)), memory


def refuse_depth(cell: BasicCell) -> None:
    """Raises UserError about a cell that needs one depth for all positions."""
    raise UserError(
        f"{type(cell).__name__} needs the same depth for all positions: a halting form of fixed"
        " depth (halting=none) and steps_per_position=0."
    )
