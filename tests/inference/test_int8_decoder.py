"""Decoding with int8 weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.layers.test_int8 import needs_int8
from ut_tf import registry
from ut_tf.config.hparams import HParams, converted
from ut_tf.errors import UserError
from ut_tf.inference import int8_decoder
from ut_tf.inference.int8_decoder import Int8Decoder, decoder_in
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
from ut_tf.problem_spec import ProblemSpec
from ut_tf.search.config import DecodeConfig
from ut_tf.search.strategies import decode

SPEC = ProblemSpec("tokens", "tokens", 12, 12, shared_vocab=True)
FEATURES = {"inputs": tf.constant([[3, 4, 5, 1], [6, 7, 1, 0]])}


def make_model(name: str, **changes: Any) -> Any:
    network = UniversalTransformerConfig(hidden_size=16, filter_size=32, num_heads=2, num_steps=2)
    hparams = converted(HParams(network=network), name)[0].change(**changes).resolve()
    model = registry.models.get(name)(hparams.network, SPEC)
    generator = np.random.default_rng(0)
    for weight in model.trainable_variables:
        weight.assign(generator.normal(scale=0.4, size=weight.shape))
    return model


@needs_int8
@pytest.mark.parametrize(
    "name",
    [
        "universal_transformer",
        "lstm",
        "bytenet",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("transformer", "convs2s", "mem_transformer")
        ),
    ],
)
def test_logits_are_nearly_those_in_float(name: str) -> None:
    model = make_model(name)
    decoder = Int8Decoder(model, least_size=1)
    symbols = np.random.default_rng(1).integers(2, 12, [2, 3]).astype(np.int32)
    logits: dict[str, Any] = {}
    for kind, part in (("float", model), ("int8", decoder)):
        cache = part.start_decoding(FEATURES, tf.constant(3))
        for index in range(3):
            logits[kind], cache = part.decode_step(symbols[:, index], tf.constant(index), cache)
    difference = np.linalg.norm(logits["int8"] - logits["float"])
    assert 0 < difference < 0.1 * np.linalg.norm(logits["float"])


@needs_int8
@pytest.mark.parametrize("halting", ["none", pytest.param("basic", marks=pytest.mark.slow)])
def test_a_search_in_a_graph_finds_outputs(halting: str) -> None:
    decoder = Int8Decoder(make_model("universal_transformer", halting=halting), least_size=1)
    config = DecodeConfig(beam_size=3, force_length=20)
    run = tf.function(lambda inputs: decode(decoder, {"inputs": inputs}, config), autograph=False)
    assert run(FEATURES["inputs"]).symbols.shape == (2, 1, 20)


def test_without_int8_products_the_model_computes_in_float_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = make_model("universal_transformer")
    monkeypatch.setattr(int8_decoder, "has_exact_sums", lambda: tf.constant(False))
    assert decoder_in(model, "float") is model
    assert not capsys.readouterr().err
    assert decoder_in(model, "int8") is model
    assert "no int8 products" in capsys.readouterr().err
    # An export that was made elsewhere.
    decoder = Int8Decoder(model, least_size=1)
    run = tf.function(lambda: decoder.start_decoding(FEATURES, tf.constant(3)), autograph=False)
    with pytest.raises(tf.errors.InvalidArgumentError, match="export with compute_type=float"):
        run()


def test_a_classifier_computes_in_float_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    network = UniversalTransformerConfig(hidden_size=16, filter_size=32, num_heads=2, num_steps=1)
    model = registry.models.get("universal_transformer")(
        network, ProblemSpec("tokens", "class", 12, 3)
    )
    assert decoder_in(model, "int8") is model
    assert "decodes nothing" in capsys.readouterr().err


def test_a_model_that_computes_whole_prefixes_is_refused() -> None:
    with pytest.raises(UserError, match="cannot decode incrementally"):
        decoder_in(make_model("universal_transformer", halting="global"), "int8")


def test_an_unknown_compute_type() -> None:
    with pytest.raises(UserError, match="compute_type=int4: expected one of float, int8"):
        DecodeConfig(compute_type="int4")
