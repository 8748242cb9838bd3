"""What a model gets from the interface of searches by default."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from ut_tf.search.contract import DecoderModel


class Plain(DecoderModel):
    """A model that says nothing of its own."""


CACHE = {
    "constants": tf.constant([7.0]),
    "examples": tf.constant([[1.0], [2.0]]),
    "state": [tf.constant([[10.0, 11.0], [20.0, 21.0]])],
}


def test_a_model_computes_whole_prefixes_unless_it_says_otherwise() -> None:
    assert not Plain().supports_incremental_decoding


def test_hypotheses_take_the_state_of_their_parents() -> None:
    cache = Plain().reorder_cache(CACHE, tf.constant([[1, 1], [0, 0]]))
    np.testing.assert_array_equal(cache["state"][0], [[11.0, 11.0], [20.0, 20.0]])
    assert cache["constants"] is CACHE["constants"]
    assert cache["examples"] is CACHE["examples"]


def test_examples_leave_with_all_that_is_theirs() -> None:
    cache = Plain().resize_cache(CACHE, tf.constant([1]), capacity=64)
    np.testing.assert_array_equal(cache["state"][0], [[20.0, 21.0]])
    np.testing.assert_array_equal(cache["examples"], [[2.0]])
    np.testing.assert_array_equal(cache["constants"], [7.0])
