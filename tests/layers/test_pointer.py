"""The pointer over words: probabilities worked out by hand, and which words can be
answered at all.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from ut_tf.errors import UserError
from ut_tf.layers.pointer import WordPointer
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
from ut_tf.models.universal_transformer.model import UniversalTransformer
from ut_tf.problem_spec import ProblemSpec
from ut_tf.symbols import END_ID

# Words 3, 4, 3; the end of the context; the question's word 5; its end; padding.
IDS = tf.constant([[3, 4, 3, END_ID, 5, END_ID, 0]])
MASK = tf.constant([[1.0, 1, 1, 1, 1, 1, 0]])


def _identity_pointer() -> WordPointer:
    pointer = WordPointer(2, 7)
    pointer.build((None, None, 2))
    pointer.set_weights([np.eye(2), np.eye(2)])
    return pointer


def test_probabilities_of_equal_words_are_added_up() -> None:
    states = np.zeros([1, 7, 2], np.float32)
    states[0, :3, 0] = [1.0, 2.0, 3.0]
    states[0, 3:, 0] = 9.0  # Neither the end, the question nor padding can be answered.
    states[0, 5] = [
        2.0**0.5,
        0.0,
    ]  # The last position asks; the factor undoes the scaling by hidden_size^-0.5.
    logits = _identity_pointer()(tf.constant(states), IDS, MASK).numpy()[0]
    weights = np.exp([1.0, 2.0, 3.0]) / np.exp([1.0, 2.0, 3.0]).sum()
    np.testing.assert_allclose(
        np.exp(logits[[3, 4]]), [weights[0] + weights[2], weights[1]], rtol=1e-5
    )
    assert set(np.flatnonzero(np.exp(logits) > 1e-6)) == {3, 4}
    # A softmax over the logits gives the probabilities back: losses of classes hold.
    np.testing.assert_allclose(tf.nn.softmax(logits)[3], np.exp(logits[3]), rtol=1e-5)


def test_an_example_without_context_answers_nothing_and_stays_finite() -> None:
    logits = _identity_pointer()(
        tf.ones([1, 3, 2]), tf.constant([[END_ID, 5, END_ID]]), tf.ones([1, 3])
    ).numpy()
    assert np.isfinite(logits).all()
    assert_close(logits, logits[0, 0], 1e-6)


@pytest.mark.parametrize("start", [False, True])
def test_a_model_points_at_words_of_its_context_whatever_the_padding(start: bool) -> None:
    network = UniversalTransformerConfig(
        hidden_size=8, filter_size=8, num_heads=2, num_steps=2, input_start_symbol=start
    )
    model = UniversalTransformer(network, ProblemSpec("tokens", "word", 7, 7, shared_vocab=True))
    logits = model({"inputs": IDS}).numpy()[0]
    assert set(np.flatnonzero(np.exp(logits) > 1e-6)) == {3, 4}
    assert_close(logits, model({"inputs": IDS[:, :6]}).numpy()[0], 1e-4)


def test_pointing_at_words_of_facts_is_refused() -> None:
    with pytest.raises(UserError, match="not of facts"):
        UniversalTransformer(
            UniversalTransformerConfig(), ProblemSpec("facts", "word", 7, 7, max_words=2)
        )
