"""Halted positions that are not computed: the same outputs, ponder times and gradients as where all
are.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.close import assert_close
from ut_tf.errors import UserError
from ut_tf.layers.attention_weights import causal_bias, padding_bias
from ut_tf.layers.block import BlockContext
from ut_tf.layers.contracts import StackInputs
from ut_tf.layers.coordinates import paper_sinusoid, rotation_table
from ut_tf.models.universal_transformer.compact_loop import can_skip_halted
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig as Config
from ut_tf.models.universal_transformer.model import UniversalTransformer
from ut_tf.models.universal_transformer.parts import make_recurrence
from ut_tf.problem_spec import ProblemSpec

SMALL = {
    "hidden_size": 8,
    "filter_size": 16,
    "num_heads": 2,
    "num_steps": 3,
    "act_max_steps": 5,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "relu_dropout": 0.0,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "basic": {"halting": "basic"},
    "accumulated, biases, highway": {
        "halting": "accumulated",
        "attention_bias": True,
        "recurrence": "highway",
        "padding_ponders": True,
    },
    "pre-norm": {"halting": "basic", "norm": "pre", "step_encoding": "learned"},
    "pre-norm, the same at every step": {
        "halting": "basic",
        "norm": "pre",
        "step_encoding": "none",
        "relative_bias": 3,
    },
    "wide heads": {"halting": "basic", "head_size": 6, "attention_bias": True},
    "concatenated": {"halting": "basic", "coordinate_form": "concat", "step_encoding": "learned"},
    "fixed depth": {"halting": "none"},
}


class Pair:
    """Two recurrences of the same weights: all positions computed, and running ones only."""

    def __init__(self, decodes: bool = False, **changes: Any) -> None:
        self.decodes = decodes
        self.dense, self.compact = (
            make_recurrence(
                Config(**{**SMALL, **changes}, halting_compute=compute),
                causal=decodes,
                with_memory=decodes,
            )
            for compute in ("dense", "compact")
        )
        generator = np.random.default_rng(0)
        for recurrence in (self.dense, self.compact):
            recurrence.build((None, None, 8))
        for first, second in zip(self.dense.weights, self.compact.weights, strict=True):
            if first.dtype == "float32":
                first.assign(first + generator.normal(scale=0.5, size=first.shape))
                second.assign(first)

        # One trace each, for batches of any size.
        signature = [tf.TensorSpec([None, None, 8]), tf.TensorSpec([None, None])]
        if changes["halting"] == "none":
            signature.append(tf.TensorSpec([None], tf.int32))
        self.run_dense, self.run_compact = (
            # Hypothesis looks at every line that it sees run: the trace is made before.
            tf.function(
                functools.partial(self.results, recurrence), signature, autograph=False
            ).get_concrete_function()
            for recurrence in (self.dense, self.compact)
        )

    def bias_of_halting(self, value: float) -> None:
        for recurrence in (self.dense, self.compact):
            recurrence.halting_unit.linear.bias.assign([value])

    def results(self, recurrence: Any, states: Any, mask: Any, steps: Any = None) -> Any:
        """Counted outputs, ponder times, remainders and costs, and the gradients of the weights."""
        batch_size, length = tf.shape(states)[0], tf.shape(states)[1]
        positions = tf.range(1, length + 1, dtype=tf.float32)[None]
        context = BlockContext(bias=padding_bias(mask))
        if self.decodes:
            context = BlockContext(
                bias=causal_bias(length),
                rotation=rotation_table(positions, 4),
                logit_scale=1.0 + positions[:, None, :, None] / 10.0,
                memory_keys=tf.ones([batch_size, 2, 3, 4]) * tf.reshape([1.0, 0.3, -1.0], [3, 1]),
                memory_values=tf.ones([batch_size, 2, 3, 4]) * tf.reshape([0.5, -1, 2], [3, 1]),
            )
        with tf.GradientTape() as tape:
            given = StackInputs(mask, paper_sinusoid(positions, 8), context, steps)
            output, details = recurrence(states, given=given, training=True)
            counted = output * mask[..., None]
            loss = tf.reduce_sum(counted**2) + details.ponder_sum()
        weights = [weight.value for weight in recurrence.trainable_variables]
        gradients = tape.gradient(loss, weights, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        kept = (counted, details.ponder_times, details.remainders, details.position_costs())
        return [*kept, details.halting_probabilities], gradients

    def check(self, lengths: list[int], *steps: Any) -> Any:
        """Asserts equality for a batch of these lengths; returns the ponder times."""
        longest = max(lengths)
        states = np.random.default_rng(1).normal(size=(len(lengths), longest, 8))
        mask = tf.sequence_mask(lengths, longest, tf.float32)
        states = tf.constant(states, tf.float32)
        every, every_gradient = self.run_dense(states, mask, *steps)
        running, running_gradient = self.run_compact(states, mask, *steps)
        for expected, found in zip(every, running, strict=True):
            if expected is not None:
                assert_close(found[: len(expected)], expected, 1e-5)
        for expected, found in zip(every_gradient, running_gradient, strict=True):
            assert_close(tf.convert_to_tensor(found), tf.convert_to_tensor(expected), 1e-4)
        return running[1].numpy()


LENGTHS = st.lists(st.integers(1, 6), min_size=1, max_size=4)
# Each pair is two graphs with gradients: of the encoders one is enough beside the decoder.
HALTING = [
    pytest.param(name, marks=() if name.startswith("accumulated") else pytest.mark.slow)
    for name, config in CONFIGS.items()
    if config["halting"] != "none"
]
many_batches = settings(max_examples=10, deadline=None)


@pytest.fixture(scope="module", params=HALTING)
def encoders(request: pytest.FixtureRequest) -> Pair:
    return Pair(**CONFIGS[request.param])


@pytest.fixture(scope="module")
def decoders() -> Pair:
    return Pair(decodes=True, **CONFIGS["basic"])


@many_batches
@given(lengths=LENGTHS, bias=st.sampled_from([-1e3, -1.0, 0.5, 1e3]))
def test_skipping_halted_positions_changes_nothing(
    encoders: Pair, lengths: list[int], bias: float
) -> None:
    encoders.bias_of_halting(bias)
    times = encoders.check(lengths)
    if abs(bias) == 1e3:
        assert times.max() == (1.0 if bias > 0 else 5.0)


@pytest.mark.slow
@many_batches
@given(lengths=LENGTHS, bias=st.sampled_from([-1.0, 0.5]))
def test_a_decoder_with_rotations_and_a_memory(
    decoders: Pair, lengths: list[int], bias: float
) -> None:
    decoders.bias_of_halting(bias)
    decoders.check(lengths)


def test_depth_per_example() -> None:
    pair = Pair(**CONFIGS["fixed depth"])
    for steps in ([1, 4, 2], [3, 3, 3], [1, 1, 1]):
        times = pair.check([6, 2, 3], tf.constant(steps))
        np.testing.assert_array_equal(times[:, 0], steps)


def test_a_sequence_of_padding_alone() -> None:
    recurrence = make_recurrence(Config(**SMALL, halting="basic", halting_compute="compact"))
    output, details = recurrence(
        tf.ones([2, 3, 8]),
        tf.zeros([2, 3]),
        None,
        BlockContext(bias=padding_bias(tf.zeros([2, 3]))),
    )
    assert float(tf.reduce_max(tf.abs(output))) == 0.0
    assert float(tf.reduce_max(details.ponder_times)) == 0.0


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_batch_without_examples(norm: str) -> None:
    recurrence = make_recurrence(Config(**SMALL, halting="basic", norm=norm))
    context = BlockContext(bias=padding_bias(tf.zeros([0, 3])))
    output, _ = recurrence(tf.ones([0, 3, 8]), tf.ones([0, 3]), None, context)
    assert output.shape == (0, 3, 8)


@pytest.mark.parametrize(
    "changes",
    [
        {"halted_states": "transform"},
        {"halting": "global"},
        {"halting": "pondernet"},
        {"transition": "sepconv"},
        {"recurrence_layers": 2},
        {"position": "tensor2tensor", "position_shift": "step"},
    ],
)
def test_what_reads_halted_positions_computes_all(changes: dict[str, Any]) -> None:
    config = {**SMALL, "halting": "basic", **changes}
    recurrence = make_recurrence(Config(**config))
    assert not can_skip_halted(recurrence.recurrent_step, recurrence.halting_unit)
    with pytest.raises(UserError, match="halting_compute=compact needs"):
        make_recurrence(Config(**config, halting_compute="compact"))


def test_xla_computes_all_positions() -> None:
    recurrence = make_recurrence(Config(**SMALL, halting="basic"))
    states, mask = tf.random.normal([2, 3, 8], seed=1), tf.ones([2, 3])
    context = BlockContext(bias=padding_bias(mask))
    run = tf.function(lambda: recurrence(states, mask, None, context)[0], autograph=False)
    compiled = tf.function(run.python_function, autograph=False, jit_compile=True)
    assert_close(compiled(), run(), 1e-5)


@pytest.mark.parametrize("changes", [{}, {"norm": "pre", "recurrence": "highway"}])
def test_decoding_skips_hypotheses_that_have_halted(changes: dict[str, Any]) -> None:
    spec = ProblemSpec("tokens", "tokens", 12, 12, shared_vocab=True)
    symbols = np.random.default_rng(0).integers(2, 12, [6, 4]).astype(np.int32)
    features = {"inputs": tf.constant([[3, 4, 5], [6, 7, 0]])}
    logits: dict[str, list[Any]] = {}
    for compute in ("dense", "compact"):
        config = Config(
            **SMALL, halting="basic", position="rotary", halting_compute=compute, **changes
        )
        model = UniversalTransformer(config, spec)
        generator = np.random.default_rng(1)
        for weight in model.trainable_variables:
            weight.assign(generator.normal(scale=0.5, size=weight.shape))
        cache = model.start_decoding(features, tf.constant(4), beam_size=3)
        logits[compute] = []
        for index in range(4):
            step, cache = model.decode_step(symbols[:, index], tf.constant(index), cache)
            logits[compute].append(step)
    assert_close(logits["compact"], logits["dense"], 1e-5)
