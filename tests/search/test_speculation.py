"""Drafts by few recurrent steps: what is written is what greedy decoding writes."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.close import assert_close
from tests.search.models import (
    INPUTS,
    LANGUAGE,
    SPEC,
    VOCAB,
    random_model,
    random_transformer,
)
from ut_tf.errors import UserError
from ut_tf.search.bounds import Bounds
from ut_tf.search.config import DecodeConfig
from ut_tf.search.speculation import speculate
from ut_tf.search.stepper import make_stepper
from ut_tf.search.strategies import count_drafts, decode, decoder_features

BASIC = {"halting": "basic", "act_max_steps": 5, "act_halting_bias_init": -0.3}
FORMS: dict[str, dict[str, Any]] = {
    "basic": BASIC,
    "one step": BASIC | {"act_halting_bias_init": 9.0},
    "all steps": BASIC | {"act_halting_bias_init": -9.0, "norm": "pre"},
    "fixed": {"num_steps": 3},
    "rotary": BASIC
    | {"position": "rotary", "attention_scale": "log_length", "target_start": "learned"},
    "rule": {"num_steps": 5, "eval_exit": "kl", "eval_exit_threshold": 0.1},
    "two layers": {"num_steps": 3, "recurrence_layers": 2, "target_position": "backward"},
    "cell": {"recurrence": "highway", "num_steps": 3, "position": "learned"},
    "dense": BASIC | {"halting_compute": "dense", "halted_states": "transform"},
    "pondernet": {"halting": "pondernet", "act_max_steps": 4, "input_injection": "add"},
}
LENGTHS: dict[str, Any] = {"max_length": 12}
OPTIONS = [{}, {"min_length": 5}, {"force_length": 9}, {"extra_length": 3, "max_length": 0}]


@functools.cache
def _model(form: str, language: bool) -> Any:
    return random_model(spec=LANGUAGE if language else SPEC, **FORMS[form])


@functools.cache
def _searches(form: str, language: bool, options: int, draft_steps: int) -> Any:
    """Function of features: greedy decoding, the same with drafts, and what becomes of these."""
    model, config = _model(form, language), DecodeConfig(beam_size=1, **LENGTHS | OPTIONS[options])

    def both(features: dict[str, Any]) -> Any:
        given = decoder_features(features)
        bounds = Bounds.of(given, given["batch_size"], config)
        drafted = speculate(make_stepper(model, 1, draft_steps=draft_steps), given, bounds)
        return decode(model, features, config), *drafted

    ids = tf.TensorSpec([None, None], tf.int32)
    return tf.function(both, [{"prefix" if language else "inputs": ids}], autograph=False)


def _check(form: str, language: bool, options: int, draft_steps: int, ids: Any) -> Any:
    features = {"prefix" if language else "inputs": tf.constant(ids, tf.int32)}
    plain, drafted, drafts = _searches(form, language, options, draft_steps)(features)
    if not np.any(drafts.near):
        length = plain.symbols.shape[2]
        np.testing.assert_array_equal(drafted.symbols[:, :, :length], plain.symbols)
        assert not np.any(drafted.symbols[:, :, length:])
        assert_close(drafted.scores, plain.scores, 1e-4)
    assert np.all(drafts.accepted <= drafts.drafted)
    return drafts


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("language", [False, True], ids=["translator", "language"])
def test_outputs_are_those_of_greedy_decoding(form: str, language: bool) -> None:
    if language and FORMS[form].get("target_position"):
        pytest.skip("there are no inputs to count from")
    ids = np.array([[3, 4, 0], [0, 0, 0], [6, 7, 8]]) if language else np.concatenate([INPUTS] * 2)
    drafts = _check(form, language, 0, 1 + language, ids)
    assert np.sum(drafts.drafted) > 0


@pytest.mark.slow
@settings(max_examples=2, deadline=None)
@given(data=st.data(), batch=st.integers(1, 8), length=st.integers(1, 7))
def test_batches_and_prefixes_of_any_size(data: st.DataObject, batch: int, length: int) -> None:
    symbols = st.lists(st.integers(0, VOCAB - 1), min_size=length, max_size=length)
    ids = data.draw(st.lists(symbols, min_size=batch, max_size=batch))
    # The symbols of a prefix come first.
    prefixes = [sorted(row, key=lambda symbol: symbol < 2) for row in ids]
    prefixes = [[symbol if symbol > 1 else 0 for symbol in row] for row in prefixes]
    _check("fixed", True, 0, 2, np.array(prefixes))


@pytest.mark.slow
@pytest.mark.parametrize("options", range(len(OPTIONS)))
def test_lengths_hold(options: int) -> None:
    for language in (False, True):
        _check("basic", language, options, 2, INPUTS[:, :2])


@pytest.mark.slow
def test_drafts_that_are_right_are_accepted() -> None:
    # Its positions halt after one step: the first draft is the answer.
    drafts = _check("one step", False, 0, 1, INPUTS)
    np.testing.assert_array_equal(drafts.accepted[0] > 0, True)
    assert np.sum(drafts.accepted) > 0.6 * np.sum(drafts.drafted)
    # What is counted apart is the same.
    config = DecodeConfig(beam_size=1, draft_steps=1, **LENGTHS)
    counted = count_drafts(_model("one step", False), {"inputs": tf.constant(INPUTS)}, config)
    np.testing.assert_array_equal(counted.accepted, drafts.accepted)


def test_what_cannot_draft_is_told() -> None:
    features = {"inputs": tf.constant(INPUTS)}
    greedy = DecodeConfig(beam_size=1, draft_steps=2)
    model = random_model(spec=SPEC, num_steps=2)
    for other, told in (
        (random_transformer(), "no recurrent steps to draft"),
        (model, "takes at most 2 steps: expected fewer"),
        (random_model(spec=SPEC, halting="global"), "by more than its own keys"),
    ):
        with pytest.raises(UserError, match=told):
            decode(other, features, greedy)
    with pytest.raises(UserError, match="draft_steps=2 is for greedy decoding"):
        DecodeConfig(beam_size=4, draft_steps=2)
