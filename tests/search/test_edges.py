"""Decoding at its edges: no examples, no prefix, types that users have, models and features that
cannot be decoded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.search.models import CLASSES, INPUTS, LANGUAGE, Table, random_model, unpadded
from ut_tf.errors import UserError
from ut_tf.search.config import DecodeConfig
from ut_tf.search.sampling import draw
from ut_tf.search.strategies import Decoded, decode, greedy_decode

SEARCHES: tuple[dict[str, Any], ...] = (
    {"beam_size": 1},
    {"beam_size": 2, "n_best": 2},
    {"sampling": True, "n_best": 3},
)
# Any symbol of 2, 3 and 4 goes on for ever.
ENDLESS = [[0, 0, 0.2, 0.3, 0.5]] * 5


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(options, marks=() if options is SEARCHES[1] else pytest.mark.slow)
        for options in SEARCHES
    ],
)
def test_no_examples_have_no_outputs(options: dict[str, Any]) -> None:
    model, config = random_model(num_steps=1), DecodeConfig(extra_length=4, **options)
    graph = tf.function(
        lambda inputs: decode(model, {"inputs": inputs}, config),
        input_signature=[tf.TensorSpec([None, None], tf.int32)],
        autograph=False,
    )
    outputs = config.n_best
    for found in (
        graph(INPUTS[:0]),
        decode(model, {"inputs": INPUTS[:0]}, config, incremental=False),
    ):
        assert found.symbols.shape == (0, outputs, 0) and found.scores.shape == (0, outputs)
    # The same graph decodes examples, too.
    assert graph(INPUTS).scores.shape == (3, outputs)
    assert greedy_decode(model, {"inputs": INPUTS[:0]}, 4).shape == (0, 4)


def test_samples_are_rows_of_their_own_that_share_what_was_read() -> None:
    started, decoded = [], []

    class Watched(Table):
        def start_decoding(self, features: dict[str, Any], capacity: Any, beam_size: int) -> Any:
            started.append((int(features["batch_size"]), beam_size))
            return super().start_decoding(features, capacity, beam_size)

        def decode_step(self, symbols: Any, step: Any, cache: dict[str, Any]) -> Any:
            decoded.append((len(symbols), cache["asked"].shape[1]))
            return super().decode_step(symbols, step, cache)

    prefixes = np.array([[2, 3], [4, 0]], np.int32)
    found = decode(
        Watched(ENDLESS), {"prefix": prefixes}, DecodeConfig(sampling=True, n_best=5, max_length=6)
    )
    assert started == [(2, 1)] and set(decoded) == {(10, 1)}
    assert (found.symbols.numpy()[0, :, :2] == [2, 3]).all() and (
        found.symbols.numpy()[1, :, 0] == 4
    ).all()
    assert len({tuple(row) for row in found.symbols.numpy()[1]}) > 1


@pytest.mark.parametrize("options", SEARCHES)
def test_int64_prefixes_of_any_length(options: dict[str, Any]) -> None:
    def outputs(features: dict[str, Any], **lengths: int) -> list[list[list[int]]]:
        return [
            unpadded(one)
            for one in decode(Table(ENDLESS), features, DecodeConfig(**lengths, **options)).symbols
        ]

    freely = outputs({"batch_size": tf.constant(2, tf.int64)}, max_length=5)
    assert outputs({"prefix": np.zeros([2, 0], np.int64)}, max_length=5) == freely
    for written in outputs({"prefix": np.array([[3, 4, 3], [2, 2, 0]])}, max_length=5)[0]:
        assert written[:3] == [3, 4, 3] and len(written) == 5
    # A prefix is stronger than a forced end, and is cut at the forced length.
    assert outputs({"prefix": np.array([[3, 4, 3]])}, force_length=2)[0][0] == [3, 4]


def test_features_and_models_that_cannot_be_decoded() -> None:
    language, translator = (
        random_model(spec=LANGUAGE, num_steps=1),
        random_model(num_steps=1, halting="global"),
    )
    with pytest.raises(UserError, match="writes no sequence"):
        random_model(spec=CLASSES, num_steps=1).generate({"inputs": INPUTS})
    for features in ({}, {"inputs": INPUTS}):
        with pytest.raises(UserError, match="batch_size or prefix"):
            language.generate(features)
    with pytest.raises(UserError, match="no features to decode"):
        decode(language, {}, DecodeConfig())
    with pytest.raises(UserError, match="the `features` have prefix: give inputs"):
        translator.generate({"prefix": INPUTS})
    with pytest.raises(UserError, match="cannot decode incrementally"):
        greedy_decode(translator, {"inputs": INPUTS}, 3, incremental=True)
    with pytest.raises(UserError, match=r"unknown option 'beem_size' .*beam_size"):
        translator.generate({"inputs": INPUTS}, beem_size=2)
    assert isinstance(language.generate({"batch_size": np.int64(2)}, max_length=2), Decoded)


@pytest.mark.parametrize("options", [{}, {"top_k": 3}, {"top_p": 0.9}])
def test_draws_at_any_temperature(options: dict[str, Any]) -> None:
    logits = tf.constant([[[-np.inf, 90.0, 80.0, 70.0]] * 100], tf.float32)
    uniform = tf.constant(np.linspace(0, 0.9999, 100, dtype=np.float32)[None])
    for coldest in (1e-38, 1e-45, 1e-300):
        assert (
            draw(
                logits, uniform, DecodeConfig(sampling=True, temperature=coldest, **options)
            ).numpy()
            == 1
        ).all()
    hot = draw(logits, uniform, DecodeConfig(sampling=True, temperature=1e300, **options)).numpy()
    assert np.bincount(hot[0], minlength=4).tolist() in (
        [0, 34, 33, 33],
        [0, 33, 33, 34],
        [0, 33, 34, 33],
    )
