"""Incremental decoding: what earlier positions left behind gives the same logits, symbols and
scores as computing them anew; universal_transformer/test_any_configuration.py draws more networks.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from tests.search.models import (
    FACTS,
    INPUTS,
    LANGUAGE,
    assert_steps_give_whole_logits,
    random_conditional,
    random_model,
    random_transformer,
)
from ut_tf.models.memory_transformer.model import MemBottleneckTransformer, MemTransformer
from ut_tf.models.universal_transformer.catalogue import CELLS
from ut_tf.models.universal_transformer.cells import BasicCell
from ut_tf.registry import Entry
from ut_tf.search.config import DecodeConfig
from ut_tf.search.strategies import Decoded, decode

ACT: dict[str, Any] = {"halting": "basic", "act_max_steps": 4}
NETWORKS: dict[str, dict[str, Any]] = {
    "halting": {**ACT, "act_halting_bias_init": 0.5},
    "pondernet, deeper": {
        "halting": "pondernet",
        "act_max_steps": 2,
        "eval_act_max_steps": 4,
        "act_halting_bias_init": -3.0,
        "ponder_threshold": 0.9,
    },
    "halting, deeper": {**ACT, "eval_act_max_steps": 6, "act_halting_bias_init": -3.0},
    "halting, sepconv": {**ACT, "transition": "sepconv", "act_halting_bias_init": 0.5},
    "halting, shift": {**ACT, "transition": "shift", "act_halting_bias_init": 0.5},
    "rotary": {
        "position": "rotary",
        "position_from": "both",
        "attention_scale": "log_length",
        "attention_scale_length": 4,
    },
    "rotary, backward": {
        "position": "rotary",
        "target_position": "backward",
        "input_start_symbol": True,
    },
    "digits": {"position_digits": 3, "relative_bias": 2, "num_steps": 1},
    "randomised": {
        "position_offset": "randomised",
        "max_position_offset": 99,
        "eval_position_stride": 3,
        "eval_position_offset": 2,
    },
    "pondernet": {"halting": "pondernet", "act_max_steps": 3, "ponder_threshold": 0.4},
    "skip, uncoupled, hybrid": {
        "recurrence": "skip",
        "couple_carry_transform_gates": False,
        "recurrent_layer": "gru",
    },
    "dwa": {"recurrence": "dwa", "num_steps": 3},
    "wide heads, rotary": {"head_size": 6, "position": "rotary", "position_from": "both"},
    "halting, highway, layers, mixed": {
        **ACT,
        "recurrence": "highway",
        "recurrence_layers": 2,
        "mix_layers_before": 1,
    },
    "lstm": {"recurrence": "lstm", "norm": "pre", "use_memory_as_final_state": True},
}
TRANSFORMERS: dict[str, dict[str, Any]] = {
    "pre-norm, sepconv": {"norm": "pre", "transition": "sepconv", "position": "tensor2tensor"},
    "narrow heads": {"num_heads": 3, "head_size": 2, "attention_bias": True},
}
MEMORIES: dict[str, tuple[Any, dict[str, Any]]] = {
    "mem_transformer, rotary": (
        MemTransformer,
        {"memory_size": 3, "eval_memory_size": 5, "position": "rotary"},
    ),
    "mem_bottleneck_transformer, pre-norm": (
        MemBottleneckTransformer,
        {"memory_size": 3, "norm": "pre"},
    ),
}
CONDITIONAL: dict[str, dict[str, Any]] = {
    "layers, hybrid": {"recurrence_layers": 2, "recurrent_layer": "lstm", "norm": "pre"},
    "pondernet, learned": {
        "halting": "pondernet",
        "act_max_steps": 3,
        "position": "learned",
        "position_every_step": False,
    },
}
MODELS = [
    *(pytest.param(random_model, changes, id=name) for name, changes in NETWORKS.items()),
    *(
        pytest.param(random_conditional, changes, id=f"conditional, {name}")
        for name, changes in CONDITIONAL.items()
    ),
    *(
        pytest.param(random_transformer, changes, id=f"transformer, {name}")
        for name, changes in TRANSFORMERS.items()
    ),
    *(
        pytest.param(partial(random_model, kind), changes, id=name)
        for name, (kind, changes) in MEMORIES.items()
    ),
]
# The logits of each are the same; of these whole searches are, the first ones in every run.
SEARCHED = (
    "digits",
    "halting, sepconv",
    "lstm",
    "mem_transformer, rotary",
    "conditional, layers, hybrid",
)
ALWAYS = SEARCHED[:1]
# Outputs go beyond the first room for positions, so that more has to be made.
BEAM = DecodeConfig(beam_size=3, n_best=3, min_length=18, max_length=20)
SHORT = DecodeConfig(beam_size=2, n_best=2, min_length=3, max_length=4)


def _both_ways(
    model: Any, features: dict[str, Any], config: DecodeConfig
) -> tuple[Decoded, Decoded]:
    """What is decoded with the cache and without it; long outputs by a graph of unknown sizes."""
    signature = {
        name: tf.TensorSpec([None] * np.ndim(value), tf.int32) for name, value in features.items()
    }

    def decoded(incremental: bool) -> Decoded:
        search = partial(decode, model, config=config, incremental=incremental)
        # Few steps are sooner computed than their graph is made.
        if config.min_length > SHORT.min_length:
            search = tf.function(search, input_signature=[signature], autograph=False)
        return Decoded(*(np.asarray(part) for part in search(features)))

    return decoded(True), decoded(False)


# What each of them has is in another one, too.
SLOW = (
    *("halting", "halting, sepconv", "pondernet", "lstm", "conditional, layers, hybrid"),
    *("rotary", "digits", "randomised", "wide heads, rotary", "skip, uncoupled, hybrid"),
    "transformer, pre-norm, sepconv",
    *("rotary, backward", "dwa"),
    "transformer, narrow heads",
    *("mem_bottleneck_transformer, pre-norm", "conditional, pondernet, learned"),
)


@pytest.mark.parametrize(
    ("make", "changes"),
    [
        pytest.param(*case.values, id=case.id, marks=[pytest.mark.slow] * (case.id in SLOW))
        for case in MODELS
    ],
)
def test_steps_give_the_logits_of_whole_prefixes(make: Any, changes: dict[str, Any]) -> None:
    assert_steps_give_whole_logits(make(**changes), steps=3)


@pytest.mark.parametrize(
    ("make", "changes"),
    [
        pytest.param(*case.values, id=case.id, marks=[pytest.mark.slow] * (case.id not in ALWAYS))
        for case in MODELS
        if case.id in SEARCHED
    ],
)
def test_searches_with_the_cache_find_what_they_find_without_it(
    make: Any, changes: dict[str, Any]
) -> None:
    # Initial weights that follow from other tests may make all outputs alike.
    keras.utils.set_random_seed(5)
    model = make(**changes)
    cached, anew = _both_ways(model, {"inputs": INPUTS}, BEAM)
    np.testing.assert_array_equal(cached.symbols, anew.symbols)
    assert_close(cached.scores, anew.scores, 1e-4)
    distinct = {tuple(row) for row in cached.symbols.reshape(-1, cached.symbols.shape[2])}
    assert len(distinct) >= 2, "all alike would prove nothing"


class Mixing(BasicCell):
    """A cell as the documentation asks for: nothing but a call. It carries the sum of its
    states.
    """

    def call(self, block_output: Any, state: Any, memory: Any, inputs: Any) -> tuple[Any, Any]:
        return 0.5 * (block_output + inputs) + 0.1 * memory, memory + state


@pytest.mark.slow
def test_a_cell_that_has_only_a_call_decodes_like_the_whole_prefix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(CELLS, "mixing", Entry(f"{__name__}:Mixing"))
    model = random_model(recurrence="mixing")
    assert_steps_give_whole_logits(model, steps=3)


@pytest.mark.slow
def test_samples_with_the_cache_are_those_without_it() -> None:
    config = DecodeConfig(sampling=True, n_best=3, min_length=3, max_length=4)
    cached, anew = _both_ways(random_model(num_steps=1), {"inputs": INPUTS}, config)
    np.testing.assert_array_equal(cached.symbols, anew.symbols)
    assert_close(cached.scores, anew.scores, 1e-4)


@pytest.mark.slow
def test_facts_and_language_models_with_prefixes() -> None:
    facts = np.array([[[3, 4, 0], [5, 6, 7]], [[8, 0, 0], [0, 0, 0]]], np.int32)
    prefixes = np.array([[4, 5, 0], [6, 0, 0]], np.int32)
    language = random_model(spec=LANGUAGE, num_steps=1, position="rotary", step_encoding="none")
    for model, features in (
        (random_model(spec=FACTS, num_steps=1), {"inputs": facts}),
        (language, {"prefix": prefixes}),
    ):
        cached, anew = _both_ways(model, features, SHORT)
        np.testing.assert_array_equal(cached.symbols, anew.symbols)
        assert_close(cached.scores, anew.scores, 1e-4)
    assert (cached.symbols[0, :, :2] == [4, 5]).all() and (cached.symbols[1, :, 0] == 6).all()


def test_mixed_precision_keeps_weights_and_histories_in_the_compute_dtype() -> None:
    model = random_model(policy="mixed_bfloat16")
    weights = model.start_decoding({"inputs": tf.constant(INPUTS)}, 4)["constants"]
    kernel = weights["decoder"]["block"]["self_attention"]["projection"]["kernel"]
    assert kernel.dtype == tf.bfloat16 and kernel.shape == (16, 48)
    assert np.isfinite(decode(model, {"inputs": INPUTS}, SHORT).scores).all()


def test_hypotheses_of_a_beam_share_their_history_without_copies() -> None:
    model = random_model()
    cache = model.start_decoding({"inputs": tf.constant(INPUTS)}, 4, beam_size=2)
    _, cache = model.decode_step(tf.constant([0, 3, 0, 4, 0, 5]), tf.constant(0), cache)
    reordered = model.reorder_cache(cache, tf.constant([[1, 1], [0, 0], [1, 0]]))
    before, after = cache["blocks"][0]["attention"], reordered["blocks"][0]["attention"]
    assert after["keys"] is before["keys"] and after["values"] is before["values"]
    # Of the first position, example 0 sees slot 1 in both hypotheses, example 1 slot 0, example 2
    # one each.
    seen = reordered["visible"].numpy()[:, :, 0] == 0
    assert seen.tolist() == [
        [[False, True]] * 2,
        [[True, False]] * 2,
        [[False, True], [True, False]],
    ]
