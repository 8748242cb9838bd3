"""Ensembles: of tables the table of mean probabilities; of networks the same with and without
caches, whatever their families.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from tests.search.models import (
    INPUTS,
    Table,
    assert_steps_give_whole_logits,
    random_model,
    random_transformer,
    unpadded,
)
from ut_tf.search.config import DecodeConfig
from ut_tf.search.ensemble import Ensemble, mean_log_probabilities
from ut_tf.search.scoring import log_probabilities
from ut_tf.search.strategies import decode, greedy_decode

_ROWS = np.random.default_rng(5).dirichlet(np.ones(6), (3, 6))
CONFIGS = {
    "greedy": DecodeConfig(beam_size=1, max_length=7),
    "beam": DecodeConfig(beam_size=4, n_best=3, max_length=7),
    "sampling": DecodeConfig(sampling=True, n_best=3, top_k=4, max_length=7),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_of_tables_it_is_the_table_of_their_mean_probabilities(name: str) -> None:
    features = {"batch_size": tf.constant(3)}
    ensemble = Ensemble([Table(rows) for rows in _ROWS])
    written, expected = (
        decode(model, features, CONFIGS[name], seed=8) for model in (ensemble, Table(_ROWS.mean(0)))
    )
    assert [unpadded(one) for one in written.symbols] == [unpadded(one) for one in expected.symbols]
    assert_close(written.scores, expected.scores, 1e-4)
    alone = decode(Table(_ROWS[0]), features, CONFIGS[name], seed=8)
    same = decode(Ensemble([Table(_ROWS[0])] * 2), features, CONFIGS[name], seed=8)
    np.testing.assert_array_equal(same.symbols, alone.symbols)
    assert_close(same.scores, alone.scores, 1e-4)
    assert unpadded(alone.symbols[0]) != unpadded(written.symbols[0])


def test_probabilities_not_logits_are_averaged() -> None:
    logits = [[[0.0, 1.0, -np.inf]], [[5.0, 2.0, 2.0]]]
    softmax = np.exp(np.array(logits)) / np.exp(np.array(logits)).sum(-1, keepdims=True)
    assert_close(mean_log_probabilities(logits), np.log(softmax.mean(0)), 1e-5)


class WholePrefixes:
    """A model that has no cache."""

    supports_incremental_decoding = False

    def __init__(self, model: Any) -> None:
        self.model = model

    def __call__(self, features: dict[str, Any], training: bool = False) -> Any:
        return self.model(features, training=training)


@pytest.mark.slow
def test_families_mix_with_and_without_caches() -> None:
    halting = random_model(halting="basic", act_max_steps=4, act_halting_bias_init=0.5)
    models = [halting, random_transformer(seed=6), WholePrefixes(random_model(seed=7))]
    ensemble = Ensemble(models)
    assert_steps_give_whole_logits(ensemble, 3)
    targets = np.array([[3, 4, 1], [8, 1, 0], [2, 2, 2]], np.int32)
    features = {"inputs": INPUTS, "targets": targets}
    softmax = np.mean([tf.nn.softmax(model(features, training=False)) for model in models], 0)
    by_hand = np.where(
        targets > 0, np.log(np.take_along_axis(softmax, targets[:, :, None], 2)[:, :, 0]), 0.0
    )
    assert_close(log_probabilities(ensemble, features), by_hand.sum(1), 1e-4)
    np.testing.assert_array_equal(
        greedy_decode(Ensemble([halting] * 2), {"inputs": INPUTS}, 6),
        greedy_decode(halting, {"inputs": INPUTS}, 6),
    )
