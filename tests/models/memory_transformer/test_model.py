"""Memory Transformers: their equations against numpy, what memory leaves alone, its size, and
decoding with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from tests.search.models import LANGUAGE, random_model
from ut_tf.errors import UserError
from ut_tf.layers.attention_weights import padding_bias
from ut_tf.layers.block import BlockContext
from ut_tf.layers.contracts import StackInputs
from ut_tf.models.memory_transformer.config import MemoryTransformerConfig
from ut_tf.models.memory_transformer.memory import BottleneckStack, MemoryStack, MemoryVectors
from ut_tf.models.memory_transformer.model import MemBottleneckTransformer, MemTransformer
from ut_tf.models.memory_transformer.parts import make_bottleneck_stack, make_memory_stack
from ut_tf.models.parts_from_config import make_layer_stack
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
from ut_tf.models.universal_transformer.parts import make_recurrence
from ut_tf.problem_spec import ProblemSpec

pytestmark = pytest.mark.usefixtures("eager")

PLAIN: dict[str, Any] = {"hidden_size": 8, "filter_size": 12, "num_heads": 2, "num_layers": 2}
SMALL: dict[str, Any] = {**PLAIN, "memory_size": 3}
SEQUENCES = ProblemSpec("tokens", "tokens", 12, 12, shared_vocab=True)
CLASSES = ProblemSpec("tokens", "class", 12, 5)
BOTH = pytest.mark.parametrize("kind", [MemTransformer, MemBottleneckTransformer])


def ids(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(2, 12, shape).astype(np.int32)


def stack_of(kind: Any, **changes: Any) -> Any:
    make = make_memory_stack if kind is MemoryStack else make_bottleneck_stack
    stack = make(MemoryTransformerConfig(**{**SMALL, **changes}), returns_memory=True)
    stack.build((None, None, 8))
    generator = np.random.default_rng(1)
    for weight in stack.trainable_variables:
        weight.assign(weight + 0.3 * generator.standard_normal(weight.shape))
    return stack


def run(
    stack: Any, states: np.ndarray, mask: np.ndarray, signal: Any = None, **options: Any
) -> tuple[Any, Any]:
    context = BlockContext(bias=padding_bias(mask), keep=tf.constant(mask))
    return stack(
        tf.constant(states), given=StackInputs(tf.constant(mask), signal, context, **options)
    )


def test_symbols_go_through_the_memory_as_the_equations_say() -> None:
    stack = stack_of(BottleneckStack)
    states = np.random.default_rng(2).normal(size=(2, 4, 8)).astype(np.float32)
    mask = np.array([[1, 1, 1, 1], [1, 1, 0, 0]], np.float32)
    memory, symbols = np.tile(stack.memory.vectors.numpy(), [2, 1, 1]), states
    seen = np.concatenate([np.ones([2, 3]), mask], 1)
    for write, read in zip(stack.writers, stack.readers, strict=True):
        memory = _half(write, memory, np.concatenate([memory, symbols], 1), seen)
        symbols = _half(read, symbols, memory, np.ones([2, 3]))
    result, _ = run(stack, states, mask)
    assert_close(result, np.concatenate([memory, symbols], 1), 1e-4)


def _half(block: Any, x: np.ndarray, others: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Returns H = LN(A + FF(A)) with A = LN(X + MultiHead(X, others, others))."""
    attention = block.memory_attention
    heads = []
    for head in (slice(0, 4), slice(4, 8)):
        query, key, value = (
            np.asarray(getattr(attention, f"{name}_kernel"))[:, head]
            for name in ("query", "key", "value")
        )
        logits = np.einsum("bqd,bkd->bqk", x @ query, others @ key) / 2.0
        weights = np.exp(logits) * seen[:, None]
        heads.append(weights / weights.sum(-1, keepdims=True) @ (others @ value))
    x = _norm(
        block.memory_attention_norm,
        x + np.concatenate(heads, -1) @ attention.output_transform.kernel.numpy(),
    )
    inner, outer = (block.transition.inner, block.transition.outer)
    hidden = np.maximum(x @ inner.kernel.numpy() + inner.bias.numpy(), 0.0)
    return _norm(block.transition_norm, x + hidden @ outer.kernel.numpy() + outer.bias.numpy())


def _norm(norm: Any, x: np.ndarray) -> np.ndarray:
    centered = x - x.mean(-1, keepdims=True)
    return (
        centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-6) * norm.scale.numpy()
        + norm.bias.numpy()
    )


def test_a_memory_stack_is_a_transformer_over_memory_and_symbols() -> None:
    stack = stack_of(MemoryStack)
    states = np.random.default_rng(2).normal(size=(2, 4, 8)).astype(np.float32)
    mask = np.array([[1, 1, 1, 1], [1, 1, 0, 0]], np.float32)
    joined = np.concatenate([np.tile(stack.memory.vectors.numpy(), [2, 1, 1]), states], 1)
    plain = make_layer_stack(MemoryTransformerConfig(**SMALL), 2)
    plain.build((None, None, 8))
    plain.set_weights(stack.stack.get_weights())
    expected, _ = run(plain, joined, np.concatenate([np.ones([2, 3], np.float32), mask], 1))
    assert_close(run(stack, states, mask)[0], expected, 1e-5)


@pytest.mark.parametrize(
    ("size", "expected"), [(0, [0, 1, 2]), (2, [0, 1]), (7, [0, 1, 2, 0, 1, 2, 0])]
)
def test_memory_of_another_size_repeats_its_vectors(size: int, expected: list[int]) -> None:
    memory = MemoryVectors(3, 8, eval_memory_size=size)
    memory.build(None)
    np.testing.assert_array_equal(memory(batch_size=2)[1], memory.vectors.numpy()[expected])
    np.testing.assert_array_equal(memory(batch_size=1, training=True)[0], memory.vectors.numpy())


@pytest.mark.parametrize(
    "kind", [MemTransformer, pytest.param(MemBottleneckTransformer, marks=pytest.mark.slow)]
)
def test_a_model_can_be_used_with_another_memory_than_it_was_trained_with(kind: Any) -> None:
    trained, used = (
        random_model(
            kind,
            CLASSES,
            **SMALL,
            dropout=0.0,
            attention_dropout=0.0,
            relu_dropout=0.0,
            eval_memory_size=size,
        )
        for size in (0, 5)
    )
    used.set_weights(trained.get_weights())
    features = {"inputs": ids(3, 5)}
    assert used(features).shape == trained(features).shape == (3, 5)
    assert np.abs(used(features) - trained(features)).max() > 1e-4
    np.testing.assert_array_equal(used(features, training=True), trained(features))


@pytest.mark.slow
def test_the_bottleneck_s_attention_is_linear_in_the_length() -> None:
    model = MemBottleneckTransformer(MemoryTransformerConfig(**SMALL), CLASSES)
    for length in (5, 10):
        _, details = model({"inputs": ids(1, length)}, return_attention=True)
        assert details.encoder.attention_weights.shape == (2, 1, 2, 3, 3 + length)
        assert details.encoder.memory_attention_weights.shape == (2, 1, 2, length, 3)
        assert_close(tf.reduce_sum(details.encoder.memory_attention_weights, -1), 1.0, 1e-5)
    sizes = [_largest_tensor(model, length) for length in (64, 256)]
    assert sizes[1] < 4.2 * sizes[0], "something has a size that grows faster than the length"


def _largest_tensor(model: Any, length: int) -> int:
    graph = (
        tf.function(lambda x: model({"inputs": x}), autograph=False)
        .get_concrete_function(tf.TensorSpec([1, length], tf.int32))
        .graph
    )
    return max(
        output.shape.num_elements() or 0
        for operation in graph.get_operations()
        for output in operation.outputs
        if output.shape.rank
    )


@BOTH
def test_details_are_of_the_symbols(kind: Any) -> None:
    model = random_model(kind, SEQUENCES, **SMALL, input_start_symbol=True)
    features = {"inputs": ids(2, 5), "targets": ids(2, 4)}
    features["inputs"][0, 3:] = 0
    seen: list[Any] = []
    _, details = model(
        features, return_attention=True, observer=lambda view: seen.append(view.state.shape)
    )
    for counted, part in zip(model.counted_positions(features), details, strict=True):
        np.testing.assert_array_equal(counted, part.mask)
        assert part.ponder_times.shape == part.mask.shape
    assert details.decoder.memory_attention_weights.shape == (2, 2, 2, 4, 3 + 6)
    assert seen == [(2, 9, 8)] * 2 + [(2, 4, 8)] * 2
    assert (
        float(tf.reduce_max(details.decoder.memory_attention_weights[:, 0, :, :, 3 + 4 :])) == 0.0
    )


def test_a_bottleneck_is_no_language_model() -> None:
    with pytest.raises(UserError, match="would see those behind it: use `model`=mem_transformer"):
        MemBottleneckTransformer(MemoryTransformerConfig(**SMALL), LANGUAGE)


def test_a_bottleneck_without_decoder_has_no_relative_bias() -> None:
    with pytest.raises(UserError, match="relative_bias=2 has no place in its encoder"):
        MemBottleneckTransformer(MemoryTransformerConfig(**SMALL, relative_bias=2), CLASSES)
    MemBottleneckTransformer(MemoryTransformerConfig(**SMALL, relative_bias=2), SEQUENCES)


def test_every_step_of_a_recurrence_reads_and_writes_the_memory() -> None:
    network = UniversalTransformerConfig(
        hidden_size=8, filter_size=8, num_heads=2, halting="basic", act_max_steps=3
    )
    stack = MemoryStack(MemoryVectors(2, 8), make_recurrence(network.resolved()))
    stack.build((None, None, 8))
    inputs = tf.random.stateless_normal([2, 3, 8], [1, 2])
    signal = tf.random.stateless_normal([1, 3, 8], [3, 4])
    mask = tf.constant([[1.0, 1, 1], [1, 1, 0]])
    given = StackInputs(mask, signal, BlockContext(bias=padding_bias(mask)))
    states, details = stack(inputs, given=given)

    mask = tf.pad(mask, [[0, 0], [2, 0]], constant_values=1.0)
    signal = tf.pad(signal, [[0, 0], [2, 0], [0, 0]])
    given = StackInputs(mask, signal, BlockContext(bias=padding_bias(mask)))
    inputs = tf.concat([stack.memory(batch_size=2), inputs], 1)
    whole, record = stack.stack(inputs, given=given)
    np.testing.assert_array_equal(states, whole[:, 2:])
    np.testing.assert_array_equal(details.ponder_times, record.ponder_times[:, 2:])
    probabilities = record.halting_probabilities[:, :, 2:]
    np.testing.assert_array_equal(details.halting_probabilities, probabilities)
