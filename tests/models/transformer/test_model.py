"""The Transformer: what it shares with the Universal Transformer, and what it does not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.close import assert_close
from ut_tf.models.transformer.config import TransformerConfig
from ut_tf.models.transformer.model import Transformer
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
from ut_tf.models.universal_transformer.model import UniversalTransformer
from ut_tf.problem_spec import ProblemSpec

SMALL = {"hidden_size": 16, "filter_size": 32, "num_heads": 2, "dropout": 0.0}
SEQUENCES = ProblemSpec("tokens", "tokens", 12, 12, shared_vocab=True)


def features(seed: int = 0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    ids = {
        "inputs": generator.integers(2, 12, (3, 6)),
        "targets": generator.integers(2, 12, (3, 5)),
    }
    ids["inputs"][0, 4:] = 0
    return {name: value.astype(np.int32) for name, value in ids.items()}


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_one_layer_is_one_recurrent_step(norm: str) -> None:
    layers = Transformer(TransformerConfig(**SMALL, num_layers=1, norm=norm), SEQUENCES)
    recurrent = UniversalTransformer(
        UniversalTransformerConfig(**SMALL, num_steps=1, step_encoding="none", norm=norm), SEQUENCES
    )
    layers.set_weights(recurrent.get_weights())
    assert_close(layers(features()), recurrent(features()), 1e-6)


def test_tied_layers_are_a_recurrence() -> None:
    network = UniversalTransformerConfig(
        **SMALL, num_steps=3, step_encoding="none", position_every_step=False
    )
    layers = Transformer(TransformerConfig(**SMALL, num_layers=3), SEQUENCES)
    recurrent = UniversalTransformer(network, SEQUENCES)
    for stack, recurrence in (
        (layers.encoder, recurrent.encoder),
        (layers.decoder, recurrent.decoder),
    ):
        for block in stack.blocks:
            block.set_weights(recurrence.block.get_weights())
    layers.target_embedding.set_weights(recurrent.target_embedding.get_weights())
    assert_close(layers(features()), recurrent(features()), 1e-5)


def test_every_layer_has_weights_of_its_own() -> None:
    d, f = 16, 32
    encoder = 4 * d * d + 2 * d * f + f + d + 2 * 2 * d
    decoder = 8 * d * d + 2 * d * f + f + d + 3 * 2 * d
    model = Transformer(TransformerConfig(**SMALL, num_layers=4), SEQUENCES)
    assert model.count_params() == 12 * d + 4 * (encoder + decoder)


def test_attention_is_given_per_layer() -> None:
    _, details = Transformer(TransformerConfig(**SMALL, num_layers=3), SEQUENCES)(
        features(), return_attention=True
    )
    assert details.encoder.attention_weights.shape == (3, 3, 2, 6, 6)
    assert details.decoder.memory_attention_weights.shape == (3, 3, 2, 5, 6)
