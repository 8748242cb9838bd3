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


@pytest.mark.parametrize("norm", ["pre", pytest.param("post", marks=pytest.mark.slow)])
def test_one_layer_is_one_recurrent_step(norm: str) -> None:
    layers = Transformer(TransformerConfig(**SMALL, num_layers=1, norm=norm), SEQUENCES)
    recurrent = UniversalTransformer(
        UniversalTransformerConfig(**SMALL, num_steps=1, step_encoding="none", norm=norm), SEQUENCES
    )
    layers.set_weights(recurrent.get_weights())
    assert_close(layers(features()), recurrent(features()), 1e-6)


@pytest.mark.slow
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
