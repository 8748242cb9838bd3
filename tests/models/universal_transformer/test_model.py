"""The whole model: causality, losses, details, and use without any command."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from ut_tf.errors import UserError
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
from ut_tf.models.universal_transformer.model import UniversalTransformer
from ut_tf.problem_spec import ProblemSpec

SMALL = {"hidden_size": 16, "filter_size": 32, "num_heads": 2, "num_steps": 2}
SEQUENCES = ProblemSpec("tokens", "tokens", 12, 12, shared_vocab=True)


def ids(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(2, 12, shape).astype(np.int32)


def test_losses_hold_the_weighted_ponder_cost_of_encoder_and_decoder() -> None:
    model = UniversalTransformer(
        UniversalTransformerConfig(**SMALL, halting="basic", act_loss_weight=0.05), SEQUENCES
    )
    _, details = model({"inputs": ids(2, 5), "targets": ids(2, 4)}, return_details=True)
    expected = 0.05 * (details.encoder.ponder_cost() + details.decoder.ponder_cost())
    assert float(sum(model.losses)) == pytest.approx(float(expected), rel=1e-6)
    assert UniversalTransformer(UniversalTransformerConfig(**SMALL), SEQUENCES).losses == []


def test_attention_is_given_per_step_and_head() -> None:
    model = UniversalTransformer(UniversalTransformerConfig(**SMALL), SEQUENCES)
    _, details = model({"inputs": ids(3, 5), "targets": ids(3, 4)}, return_attention=True)
    assert details.encoder.attention_weights.shape == (2, 3, 2, 5, 5)
    assert details.decoder.attention_weights.shape == (2, 3, 2, 4, 4)
    assert details.decoder.memory_attention_weights.shape == (2, 3, 2, 4, 5)
    assert_close(tf.reduce_sum(details.decoder.memory_attention_weights, -1), 1.0, 1e-5)


def test_a_shared_embedding_is_one_variable() -> None:
    shared = UniversalTransformer(UniversalTransformerConfig(**SMALL), SEQUENCES)
    apart = UniversalTransformer(
        UniversalTransformerConfig(**SMALL, shared_embedding=False), SEQUENCES
    )
    assert apart.count_params() - shared.count_params() == 2 * 12 * 16


@pytest.mark.slow
def test_a_classifier_learns_by_compile_and_fit() -> None:
    keras.utils.set_random_seed(0)
    spec = ProblemSpec("tokens", "class", 12, 2)
    # Where halted positions are computed, too, the graph is smaller.
    options = {"halting": "basic", "halting_compute": "dense", "position": "none", "dropout": 0.0}
    model = UniversalTransformer(UniversalTransformerConfig(**SMALL, **options), spec)
    inputs = ids(256, 6)
    labels = (inputs[:, -1] > 6).astype(np.int32)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"], jit_compile=False)
    history = model.fit({"inputs": inputs}, labels, epochs=6, batch_size=64, verbose=0).history
    assert history["accuracy"][-1] > 0.95


@pytest.mark.parametrize(
    "options",
    [
        {"attention": False, "transition": "sepconv"},
        {"attention": False, "transition": "sepconv2d", "halting": "basic"},
        {"mix_positions": 4},
        {"mix_positions": 4, "halting": "basic"},
        {"mix_positions": 4, "recurrence_layers": 2},
    ],
)
def test_blocks_without_attention_have_no_weights_of_it_and_see_other_positions(
    options: dict[str, Any],
) -> None:
    network = UniversalTransformerConfig(**SMALL, position="none", **options)
    model = UniversalTransformer(network, ProblemSpec("tokens", "aligned", 12, 12))
    inputs = ids(2, 4)
    answers, details = model({"inputs": inputs}, return_attention=True)
    assert details.encoder.attention_weights is None
    assert_close(model({"inputs": inputs}), answers, 1e-6)
    changed = inputs.copy()
    changed[:, 0] = 13 - changed[:, 0]
    assert np.abs(model({"inputs": changed}) - answers)[:, 1].max() > 1e-4


def test_nothing_to_read_is_an_error() -> None:
    with pytest.raises(UserError, match="nothing to read"):
        UniversalTransformer(
            UniversalTransformerConfig(**SMALL), ProblemSpec("none", "class", 0, 2)
        )


@pytest.mark.parametrize("inputs", ["tokens", "none"])
def test_parts_of_an_answering_encoder_are_refused_beside_a_decoder(inputs: str) -> None:
    spec = ProblemSpec(inputs, "tokens", 9, 9, shared_vocab=True)
    network = UniversalTransformerConfig(
        hidden_size=8,
        num_heads=2,
        q_head=True,
        position="none",
        attention=False,
        transition="sepconv",
    )
    with pytest.raises(UserError, match=r"attention=False is of an.*q_head=True is of an"):
        UniversalTransformer(network, spec)


def test_what_a_language_model_cannot_do_is_told_in_one_sentence() -> None:
    network = UniversalTransformerConfig(**SMALL, steps_per_position=0.5, position_separator=3)
    mistakes = r"^position_separator=3 is .*; steps_per_position=0.5 makes .*: set it to 0\.$"
    with pytest.raises(UserError, match=mistakes):
        UniversalTransformer(network, ProblemSpec("none", "tokens", 0, 12))


@pytest.mark.parametrize("padding_ponders", [False, True])
@pytest.mark.parametrize("start", [False, True])
def test_counted_positions_are_the_masks_of_the_details(padding_ponders: bool, start: bool) -> None:
    network = UniversalTransformerConfig(
        **SMALL, halting="basic", padding_ponders=padding_ponders, input_start_symbol=start
    )
    model = UniversalTransformer(network, SEQUENCES)
    features = {"inputs": ids(2, 5), "targets": ids(2, 4)}
    features["inputs"][0, 3:] = 0
    features["targets"][1, 2:] = 0
    _, details = model(features, return_details=True)
    for counted, part in zip(model.counted_positions(features), details, strict=True):
        np.testing.assert_array_equal(counted, part.mask)
