"""Greedy decoding: where it ends, and what it asks of features and models."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.search.models import INPUTS, LANGUAGE, random_model
from ut_tf.search.contract import DecoderModel
from ut_tf.search.strategies import greedy_decode
from ut_tf.symbols import END_ID


class Countdown(DecoderModel):
    """Writes the first input's symbol down to 2 and ends; `steps` is how often it ran."""

    supports_incremental_decoding = True

    def start_decoding(
        self, features: dict[str, Any], capacity: Any, beam_size: int
    ) -> dict[str, Any]:
        del capacity, beam_size
        return {
            "examples": {"start": features["inputs"][:, 0]},
            "steps": tf.zeros_like(features["inputs"][:, :1]),
        }

    def decode_step(
        self, symbols: Any, step: Any, cache: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        previous = tf.where(step == 0, cache["examples"]["start"] + 1, symbols)
        favourite = tf.where(previous <= 2, END_ID, previous - 1)
        # Padding is even more probable, and must not be chosen all the same.
        logits = tf.one_hot(favourite, 9) + 2.0 * tf.one_hot(tf.zeros_like(favourite), 9)
        tf.debugging.assert_less(
            cache["steps"], 5, "decoding goes on after all sequences have ended"
        )
        return logits, {**cache, "steps": cache["steps"] + 1}


def test_sequences_end_one_by_one_and_padding_follows() -> None:
    symbols = tf.function(lambda inputs: greedy_decode(Countdown(), {"inputs": inputs}, 7))(
        tf.constant([[4, 1], [2, 1], [5, 1]])
    )
    assert symbols.numpy().tolist() == [
        [4, 3, 2, 1, 0, 0, 0],
        [2, 1, 0, 0, 0, 0, 0],
        [5, 4, 3, 2, 1, 0, 0],
    ]


def test_the_bound_cuts_sequences() -> None:
    assert greedy_decode(Countdown(), {"inputs": tf.constant([[5, 1]])}, 2).numpy().tolist() == [
        [5, 4]
    ]


def test_a_model_that_cannot_step_is_run_on_prefixes() -> None:
    model = random_model(halting="global")
    assert not model.supports_incremental_decoding
    assert greedy_decode(model, {"inputs": INPUTS}, 4).shape == (3, 4)


def test_language_models_take_the_batch_from_what_is_there() -> None:
    for changes in ({"halting": "basic"}, {"halting": "global"}):
        model = random_model(spec=LANGUAGE, **changes)
        written = greedy_decode(
            model, {"targets": tf.ones([2, 3], tf.int32), "weight": tf.ones([2])}, 4
        )
        np.testing.assert_array_equal(written, greedy_decode(model, {"batch_size": 2}, 4))
        assert written.shape == (2, 4)
