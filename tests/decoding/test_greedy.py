"""Greedy decoding: where it ends, and that the cache changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ut_tf.config import NetworkConfig
from ut_tf.data.problem import END_ID, ProblemSpec
from ut_tf.decoding.greedy import greedy_decode
from ut_tf.models.universal_transformer import UniversalTransformer

SPEC = ProblemSpec("tokens", "tokens", 9, 9, shared_vocab=True)
SIZES: dict[str, Any] = {"hidden_size": 16, "filter_size": 24, "num_heads": 2, "num_steps": 2}
NETWORKS: dict[str, dict[str, Any]] = {
    "paper": {},
    "halting": {"halting": "basic", "act_max_steps": 4},
    "accumulated": {"halting": "accumulated", "halted_states": "transform", "padding_ponders": True},
    "sepconv": {"transition": "sepconv", "norm": "pre", "position": "tensor2tensor", "step_encoding": "learned"},
    "rotary": {"position": "rotary", "attention_scale": "log_length", "attention_scale_length": 4},
    "relative": {"relative_bias": 2, "target_position": "continue"},
    "lstm": {"recurrence": "lstm", "step_encoding": "none"},
}
INPUTS = np.array([[3, 4, 5, 6, 7, 1], [8, 2, 1, 0, 0, 0], [5, 5, 5, 1, 0, 0]], np.int32)


class Countdown:
    """Writes the first input's symbol down to 2 and ends; `steps` is how often it ran."""

    supports_incremental_decoding = True

    def start_decoding(self, features: dict[str, Any], max_length: Any) -> dict[str, Any]:
        del max_length
        return {"start": features["inputs"][:, 0], "steps": tf.constant(0)}

    def decode_step(self, symbols: Any, step: Any, cache: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        previous = tf.where(step == 0, cache["start"] + 1, symbols)
        favourite = tf.where(previous <= 2, END_ID, previous - 1)
        # Padding is even more probable, and must not be chosen all the same.
        logits = tf.one_hot(favourite, 9) + 2.0 * tf.one_hot(tf.zeros_like(favourite), 9)
        tf.debugging.assert_less(cache["steps"], 5, "decoding goes on after all sequences have ended")
        return logits, {**cache, "steps": cache["steps"] + 1}


def test_sequences_end_one_by_one_and_padding_follows() -> None:
    symbols = tf.function(lambda inputs: greedy_decode(Countdown(), {"inputs": inputs}, 7))(tf.constant([[4, 1], [2, 1], [5, 1]]))
    assert symbols.numpy().tolist() == [[4, 3, 2, 1, 0, 0, 0], [2, 1, 0, 0, 0, 0, 0], [5, 4, 3, 2, 1, 0, 0]]


def test_the_bound_cuts_sequences() -> None:
    assert greedy_decode(Countdown(), {"inputs": tf.constant([[5, 1]])}, 2).numpy().tolist() == [[5, 4]]


@pytest.mark.parametrize("name", NETWORKS)
def test_cached_steps_give_the_logits_and_symbols_of_whole_prefixes(name: str) -> None:
    model = _random_model(NETWORKS[name])
    targets = np.array([[7, 3, 3, 2, 8], [2, 6, 4, 5, 3], [4, 4, 8, 7, 1]], np.int32)
    whole = np.asarray(model({"inputs": INPUTS, "targets": targets}))
    np.testing.assert_allclose(_stepwise(model, targets), whole, atol=2e-5)
    cached, uncached = (greedy_decode(model, {"inputs": INPUTS}, 6, incremental=form).numpy() for form in (True, False))
    assert (cached == uncached).all()


def test_a_model_that_cannot_step_is_run_on_prefixes() -> None:
    model = _random_model({"halting": "global"})
    assert not model.supports_incremental_decoding
    assert greedy_decode(model, {"inputs": INPUTS}, 4).shape == (3, 4)


def _random_model(changes: dict[str, Any]) -> Any:
    """Returns a network whose weights all lie well away from their initial values, so that its symbols vary."""
    model = UniversalTransformer(NetworkConfig(**{**SIZES, **changes}), SPEC)
    generator = np.random.default_rng(5)
    for weight in model.trainable_variables:
        weight.assign(weight + 0.2 * generator.standard_normal(weight.shape))
    return model


def _stepwise(model: Any, targets: Any) -> Any:
    """Returns the logits of decode_step when it is given the right symbols: [batch, target_length, vocab]."""
    step_fn = tf.function(model.decode_step)
    cache = model.start_decoding({"inputs": tf.constant(INPUTS)}, targets.shape[1])
    inputs = np.pad(targets, [(0, 0), (1, 0)])
    found = []
    for step in range(targets.shape[1]):
        logits, cache = step_fn(tf.constant(inputs[:, step]), tf.constant(step), cache)
        found.append(logits)
    return np.stack(found, 1)


def test_language_models_take_the_batch_from_what_is_there() -> None:
    spec = ProblemSpec("none", "tokens", 0, 9)
    for changes in ({"halting": "basic"}, {"halting": "global"}):
        model = UniversalTransformer(NetworkConfig(**{**SIZES, **changes}), spec)
        written = greedy_decode(model, {"targets": tf.ones([2, 3], tf.int32), "weight": tf.ones([2])}, 4)
        np.testing.assert_array_equal(written, greedy_decode(model, {"batch_size": 2}, 4))
        assert written.shape == (2, 4)
