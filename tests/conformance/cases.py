"""What the conformance suite holds its tests to: one line per layer and model. A new one joins by a
line in CASES.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tests.configs import small_config
from ut_tf.layers.attention import MultiHeadAttention
from ut_tf.layers.attention_weights import causal_bias, padding_bias
from ut_tf.layers.block import BlockContext
from ut_tf.layers.block_sequence import BlockSequence
from ut_tf.layers.board_conv import BoardConvTransition, SeparableBoardConv
from ut_tf.layers.contracts import StackInputs
from ut_tf.layers.coordinates import Coordinates, paper_sinusoid
from ut_tf.layers.dropout import Dropout
from ut_tf.layers.embedding import TokenEmbedding
from ut_tf.layers.fact_embedding import FactEmbedding
from ut_tf.layers.linear import Linear
from ut_tf.layers.normalization import LayerNorm, RMSNorm
from ut_tf.layers.pointer import WordPointer
from ut_tf.layers.positions import Positions
from ut_tf.layers.recurrent_layer import RecurrentLayer
from ut_tf.layers.swiglu import SwiGLU
from ut_tf.layers.target_start import TargetStart
from ut_tf.layers.transition import (
    SeparableConv,
    SeparableConvTransition,
    StepTransitions,
    Transition,
)
from ut_tf.models.convolutional.bytenet import ByteNet
from ut_tf.models.convolutional.convs2s import ConvS2S
from ut_tf.models.lstm.attention import BahdanauAttention
from ut_tf.models.lstm.model import LSTMModel
from ut_tf.models.memn2n.hops import MemoryHops
from ut_tf.models.memn2n.model import MemN2N
from ut_tf.models.memory_transformer.model import MemBottleneckTransformer, MemTransformer
from ut_tf.models.memory_transformer.parts import make_bottleneck_stack, make_memory_stack
from ut_tf.models.neural_gpu.convolutional_gru import ConvolutionalGRU
from ut_tf.models.neural_gpu.extended import ExtendedNeuralGPU
from ut_tf.models.neural_gpu.model import NeuralGPU
from ut_tf.models.parts_from_config import make_block, make_layer_stack, make_part
from ut_tf.models.transformer.model import Transformer
from ut_tf.models.universal_transformer.cells import (
    BasicCell,
    DepthwiseAttentionCell,
    GRUCell,
    HighwayCell,
    LSTMCell,
    SkipCell,
)
from ut_tf.models.universal_transformer.conditional import ConditionalUniversalTransformer
from ut_tf.models.universal_transformer.halting.adaptive_computation_time import Basic
from ut_tf.models.universal_transformer.model import UniversalTransformer
from ut_tf.models.universal_transformer.parts import make_recurrence, make_stack
from ut_tf.problem_spec import ProblemSpec

SIZES = {
    "hidden_size": 8,
    "filter_size": 16,
    "num_heads": 2,
    "num_steps": 2,
    "act_max_steps": 3,
    "num_layers": 2,
}
BATCH, LENGTH = 4, 5


@dataclass(frozen=True)
class Case:
    """One layer or model: how it is made for a dtype policy, its input arrays, and how it is called
    on them to give one tensor.

    `target` is what it can be fitted to, made of its output. `repeats`: other cases have the same
    parts or one like it, so that mixed precision, and of models and stacks reading back, are among
    the slow tests; compiled fit, XLA, SavedModel and two devices are tested of stacks alone.
    `is_model`: a whole model. `is_stack`: what a model makes of its layers.
    """

    name: str
    make: Callable[[str], Any]
    inputs: dict[str, np.ndarray]
    call: Callable[[Any, dict[str, Any], bool], Any]
    target: Callable[[np.ndarray], np.ndarray] = lambda output: np.full_like(output, 0.3)
    repeats: bool = False
    is_model: bool = False
    is_stack: bool = False


def _floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def _ids(*shape: int, high: int = 12, seed: int = 0) -> np.ndarray:
    ids = np.random.default_rng(seed).integers(2, high, shape).astype(np.int32)
    ids[0, shape[1] - 2 :] = 0
    return ids


MASK = np.array([[1, 1, 1, 0, 0]] + [[1] * LENGTH] * (BATCH - 1), np.float32)
STATES = {"x": _floats(BATCH, LENGTH, 8), "mask": MASK}
POSITIONS = np.arange(1, LENGTH + 1, dtype=np.float32)[None]


def network(kind: Any = UniversalTransformer, **changes: Any) -> Any:
    """Returns the suite's tiny network with some fields changed."""
    return small_config(kind, SIZES, **changes)


NETWORK = network()


def _layer(name: str, make: Callable[..., Any], **call_options: Any) -> Case:
    def call(layer: Any, inputs: dict[str, Any], training: bool) -> Any:
        options = {
            key: value(inputs) if callable(value) else value for key, value in call_options.items()
        }
        if "training" in layer._call_signature.parameters:
            options["training"] = training
        result = layer(inputs["x"], **options)
        return result[0] if isinstance(result, tuple) else result

    return Case(name, lambda policy: make(dtype=policy), STATES, call)


def _board(name: str, make: Callable[..., Any], *shape: int) -> Case:
    return dataclasses.replace(_again(_layer(name, make)), inputs={"x": _floats(BATCH, *shape, 8)})


def _embedding(name: str, make: Callable[..., Any], ids: np.ndarray) -> Case:
    return Case(
        name,
        lambda policy: make(dtype=policy),
        {"ids": ids},
        lambda layer, inputs, training: layer(inputs["ids"], training=training),
    )


def _cell(cell: Any) -> Case:
    def call(layer: Any, inputs: dict[str, Any], training: bool) -> Any:
        del training
        return layer(inputs["x"], inputs["x"] * 0.5, inputs["x"] * 0.25, inputs["x"] - 1.0)[0]

    return Case(cell.__name__, lambda policy: make_part(cell, NETWORK, dtype=policy), STATES, call)


def _depthwise_attention() -> Case:
    def call(layer: Any, inputs: dict[str, Any], training: bool) -> Any:
        del training
        if not layer.built:
            layer.build(inputs["x"].shape)
        x = inputs["x"]
        _, memory = layer.block_input(x, layer.initial_memory(x), x, 0)
        return layer.block_input(x * 0.5, memory, x, 1)[0]

    return Case(
        "DepthwiseAttentionCell",
        lambda policy: DepthwiseAttentionCell(2, dtype=policy),
        STATES,
        call,
    )


def _stack(name: str, make: Any, kind: Any = UniversalTransformer, **changes: Any) -> Case:
    stack = _layer(
        name,
        lambda dtype: make(network(kind, **changes), dtype=dtype),
        given=lambda inputs: StackInputs(inputs["mask"], paper_sinusoid(POSITIONS, 8)),
    )
    return dataclasses.replace(stack, is_stack=True)


def _layers(config: Any, dtype: str) -> Any:
    return make_layer_stack(config, 2, dtype=dtype)


def _model(make_model: Any, name: str, spec: ProblemSpec, **changes: Any) -> Case:
    inputs: dict[str, np.ndarray] = {}
    if spec.inputs == "tokens":
        inputs["inputs"] = _ids(BATCH, LENGTH)
    if spec.inputs == "facts":
        inputs["inputs"] = _ids(BATCH, LENGTH, 3)
    if spec.targets == "tokens":
        inputs["targets"] = _ids(BATCH, LENGTH - 1, seed=1)
    config = network(make_model, **changes)
    make = lambda policy: make_model(config, spec, dtype=policy)  # noqa: E731
    case = Case(
        f"{make_model.__name__} {name}",
        make,
        inputs,
        lambda model, features, training: model(features, training=training),
        is_model=True,
    )
    return dataclasses.replace(case, target=_surer) if spec.targets == "word" else case


SEQUENCES = ProblemSpec("tokens", "tokens", 12, 12, shared_vocab=True)
FACTS = ProblemSpec("facts", "class", 12, 5, max_words=3)
LANGUAGE = ProblemSpec("none", "tokens", 0, 12)
WORDS = ProblemSpec("tokens", "word", 12, 12, shared_vocab=True)
ALIGNED = ProblemSpec("tokens", "aligned", 12, 5)


def _positions() -> Case:
    def call(layer: Any, inputs: dict[str, Any], training: bool) -> Any:
        assigned = layer(batch_size=BATCH, size=LENGTH + 2, training=training)
        return layer.inputs(assigned, LENGTH, tf.reduce_sum(inputs["mask"], 1))

    changes = {"position_offset": "random", "max_position_offset": 9, "position_from": "end"}
    return Case("Positions", lambda policy: Positions(**changes, dtype=policy), STATES, call)


def _surer(logits: np.ndarray) -> np.ndarray:
    """Returns log-probabilities that a pointer can reach: those of probabilities to the fourth,
    normalised.
    """
    present = logits > logits.min() + 1e-3
    sharpened = 4.0 * logits - np.log(np.exp(4.0 * logits).sum(-1, keepdims=True))
    return np.where(present, sharpened, logits).astype(np.float32)


def _pointer() -> Case:
    inputs = {**STATES, "ids": _ids(BATCH, LENGTH)}
    call = lambda layer, inputs, training: layer(inputs["x"], inputs["ids"], inputs["mask"])  # noqa: ARG005, E731
    return Case(
        "WordPointer", lambda policy: WordPointer(8, 12, dtype=policy), inputs, call, _surer
    )


def _hops() -> Case:
    call = lambda layer, inputs, training: layer(inputs["ids"], training=training)[0]  # noqa: E731
    make = lambda policy: MemoryHops(12, 8, num_hops=2, tying="layerwise", dtype=policy)  # noqa: E731
    return Case("MemoryHops, layerwise", make, {"ids": _ids(BATCH, LENGTH, 3)}, call)


def _again(case: Case) -> Case:
    return dataclasses.replace(case, repeats=True)


CASES = [
    _positions(),
    _again(_layer("Linear", lambda dtype: Linear(6, dtype=dtype))),
    _again(_layer("LayerNorm", lambda dtype: LayerNorm(dtype=dtype))),
    _again(_layer("RMSNorm", lambda dtype: RMSNorm(dtype=dtype))),
    _again(_layer("SwiGLU", lambda dtype: SwiGLU(8, 12, 0.1, dtype=dtype))),
    _again(_layer("Dropout", lambda dtype: Dropout(0.3, dtype=dtype))),
    _again(_layer("Transition", lambda dtype: Transition(8, 16, 0.1, dtype=dtype))),
    _again(_layer("SeparableConv", lambda dtype: SeparableConv(6, 3, causal=True, dtype=dtype))),
    _layer(
        "SeparableConvTransition",
        lambda dtype: SeparableConvTransition(8, 16, 0.1, dtype=dtype),
        keep=lambda inputs: inputs["mask"],
    ),
    _board("BoardConvTransition", lambda dtype: BoardConvTransition(8, 16, dtype=dtype), 9),
    _board("SeparableBoardConv", lambda dtype: SeparableBoardConv(6, dtype=dtype), 3, 4),
    _layer(
        "MultiHeadAttention",
        lambda dtype: MultiHeadAttention(8, 2, 0.1, relative_bias=2, dtype=dtype),
        bias=lambda _: causal_bias(LENGTH),
    ),
    _again(
        _layer(
            "MultiHeadAttention, narrow heads",
            lambda dtype: MultiHeadAttention(8, 3, 0.1, True, head_size=2, dtype=dtype),
            bias=lambda _: causal_bias(LENGTH),
        )
    ),
    _layer(
        "Coordinates",
        lambda dtype: Coordinates(8, 3, step_encoding="learned", dtype=dtype),
        step=1,
        position_signal=None,
    ),
    _again(
        _layer(
            "Coordinates, concatenated",
            lambda dtype: Coordinates(8, 3, coordinate_form="concat", dtype=dtype),
            step=1,
            position_signal=lambda inputs: inputs["x"],
        )
    ),
    _again(
        _layer(
            "Basic halting",
            lambda dtype: Basic(dtype=dtype),
            after=lambda inputs: inputs["x"],
            counted=lambda inputs: inputs["mask"],
        )
    ),
    _again(
        _layer(
            "Block",
            lambda dtype: make_block(NETWORK, dtype=dtype),
            context=lambda inputs: BlockContext(bias=padding_bias(inputs["mask"])),
        )
    ),
    _layer(
        "StepTransitions",
        lambda dtype: StepTransitions(
            [Transition(8, 16, name=name, dtype=dtype) for name in ("first", "second")], dtype=dtype
        ),
        step=1,
    ),
    _again(
        _layer(
            "BlockSequence",
            lambda dtype: BlockSequence(
                [make_block(NETWORK, name=name, dtype=dtype) for name in ("first", "second")],
                dtype=dtype,
            ),
            context=lambda inputs: BlockContext(bias=padding_bias(inputs["mask"])),
        )
    ),
    _layer(
        "RecurrentLayer",
        lambda dtype: RecurrentLayer(8, "gru", dropout=0.1, dtype=dtype),
        mask=lambda inputs: inputs["mask"],
    ),
    _again(
        _embedding(
            "TokenEmbedding",
            lambda dtype: TokenEmbedding(12, 8, word_dropout=0.2, dtype=dtype),
            _ids(BATCH, LENGTH),
        )
    ),
    _embedding(
        "FactEmbedding",
        lambda dtype: FactEmbedding(12, 3, 8, mask_stddev=0.5, dtype=dtype),
        _ids(BATCH, LENGTH, 3),
    ),
    _hops(),
    _pointer(),
    _again(_cell(BasicCell)),
    _cell(HighwayCell),
    _again(_cell(SkipCell)),
    _depthwise_attention(),
    _again(_cell(GRUCell)),
    _cell(LSTMCell),
    _again(_stack("Recurrence fixed", make_recurrence)),
    _again(_stack("Recurrence halting", make_recurrence, halting="basic")),
    _again(_stack("LayerStack, pre-norm", _layers, norm="pre")),
    _again(
        _stack(
            "MemoryStack of a recurrence of mixed positions",
            make_stack,
            memory_tokens=2,
            mix_positions=LENGTH + 2,
            mix_filter_size=6,
            norm_type="rms_plain",
            q_head=True,
        )
    ),
    _again(
        _stack(
            "Recurrence of two levels",
            make_recurrence,
            H_cycles=2,
            L_cycles=2,
            two_nets=True,
            initial_state="fixed",
        )
    ),
    _again(
        _stack(
            "Recurrence sandwich, injected",
            make_recurrence,
            norm="sandwich",
            norm_type="rms",
            outer_norm=True,
            state_update=0.8,
            qk_norm=True,
            transition="swiglu",
            input_injection="concat",
            initial_state="learned",
        )
    ),
    _again(
        _stack(
            "MixedStack",
            make_stack,
            mix_layers_before=1,
            mix_layers_after=1,
            norm_after_recurrence=True,
            recurrent_layer="gru",
            recurrence_layers=2,
        )
    ),
    _again(_stack("MemoryStack", make_memory_stack, MemTransformer, memory_size=3)),
    _again(
        _stack(
            "BottleneckStack, pre-norm",
            make_bottleneck_stack,
            MemTransformer,
            memory_size=3,
            norm="pre",
        )
    ),
    _again(_model(UniversalTransformer, "sequences", SEQUENCES)),
    _model(UniversalTransformer, "sequences, halting", SEQUENCES, halting="basic"),
    _again(
        _model(
            UniversalTransformer,
            "sequences, pondernet, learned",
            SEQUENCES,
            halting="pondernet",
            position="learned",
        )
    ),
    _again(
        _model(
            UniversalTransformer,
            "facts, sepconv, pre-norm",
            FACTS,
            transition="sepconv",
            norm="pre",
        )
    ),
    _again(_model(UniversalTransformer, "words, shift", WORDS, transition="shift")),
    _again(_model(UniversalTransformer, "language, gru", LANGUAGE, recurrence="gru")),
    _again(_model(UniversalTransformer, "words, start symbol", WORDS, input_start_symbol=True)),
    _again(_model(UniversalTransformer, "aligned, halting", ALIGNED, halting="basic")),
    _again(_model(Transformer, "aligned, start symbol", ALIGNED, input_start_symbol=True)),
    _again(
        _model(
            UniversalTransformer, "facts, dwa, mixed", FACTS, recurrence="dwa", mix_layers_after=1
        )
    ),
    _again(
        _model(
            UniversalTransformer,
            "language, skip, hybrid",
            LANGUAGE,
            recurrence="skip",
            recurrent_layer="lstm",
            norm="pre",
        )
    ),
    _again(_model(ConditionalUniversalTransformer, "facts, halting", FACTS, halting="basic")),
    _model(Transformer, "sequences", SEQUENCES),
    _again(_model(Transformer, "facts, pre-norm", FACTS, norm="pre")),
    _again(_model(Transformer, "language", LANGUAGE)),
    _model(MemN2N, "facts", FACTS),
    _model(MemTransformer, "sequences", SEQUENCES, memory_size=2, position="rotary"),
    _again(
        _model(MemTransformer, "language, more memory", LANGUAGE, memory_size=2, eval_memory_size=3)
    ),
    _again(_model(MemBottleneckTransformer, "sequences", SEQUENCES, memory_size=2)),
    _again(
        _model(MemBottleneckTransformer, "words, rotary", WORDS, memory_size=2, position="rotary")
    ),
    _again(
        _layer(
            "BahdanauAttention",
            lambda dtype: BahdanauAttention(8, dtype=dtype),
            states=lambda inputs: inputs["x"],
            padding_mask=lambda inputs: inputs["mask"],
        )
    ),
    _layer("TargetStart", lambda dtype: TargetStart(8, dtype=dtype)),
    _model(LSTMModel, "sequences, bahdanau", SEQUENCES, lstm_attention="bahdanau"),
    _again(_model(LSTMModel, "language", LANGUAGE)),
    _model(ConvS2S, "sequences", SEQUENCES),
    _model(ByteNet, "sequences", SEQUENCES),
    _layer("ConvolutionalGRU", lambda dtype: ConvolutionalGRU(8, image_width=1, dtype=dtype)),
    _model(NeuralGPU, "sequences", SEQUENCES, image_width=2),
    _again(_model(NeuralGPU, "facts, relaxed", FACTS, relaxed_sets=2, image_width=2)),
    _again(_model(ExtendedNeuralGPU, "sequences", SEQUENCES, image_width=2)),
]

# The models and layers that costly tests hold for; those of the others are slow tests.
_HALTING = "UniversalTransformer sequences, halting"
_LSTM = "LSTMModel sequences, bahdanau"
# Trainings of tests/training and tests/problems fit Universal Transformers in graphs.
FITTED = frozenset({"MemN2N facts"})
FITTED_EAGERLY = frozenset({"MultiHeadAttention", "WordPointer"})
# tests/training/test_step.py trains by XLA, and tests/models/test_padding.py calls a model.
COMPILED_BY_XLA = frozenset({"WordPointer"})
# tests/models/test_padding.py exports a Universal Transformer.
SAVED = frozenset({"MemoryHops, layerwise"})
ON_TWO_DEVICES = frozenset({_HALTING})
IN_MIXED_PRECISION = frozenset(
    {
        _HALTING,
        _LSTM,
        "MultiHeadAttention",
    }
)
