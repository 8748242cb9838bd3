"""What the decoding tests share: networks of every kind with random weights, and a model that is a
table of probabilities.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.close import assert_close
from tests.configs import small_config
from ut_tf.models.transformer.model import Transformer
from ut_tf.models.universal_transformer.conditional import ConditionalUniversalTransformer
from ut_tf.models.universal_transformer.model import UniversalTransformer
from ut_tf.problem_spec import ProblemSpec
from ut_tf.search.contract import DecoderModel
from ut_tf.search.stepper import make_stepper
from ut_tf.symbols import END_ID, PADDING_ID

VOCAB = 9
SPEC = ProblemSpec("tokens", "tokens", VOCAB, VOCAB, shared_vocab=True)
CLASSES = ProblemSpec("tokens", "class", VOCAB, 4)
LANGUAGE = ProblemSpec("none", "tokens", 0, VOCAB)
FACTS = ProblemSpec("facts", "tokens", VOCAB, VOCAB, max_words=3)
SIZES: dict[str, Any] = {
    "hidden_size": 16,
    "filter_size": 24,
    "num_heads": 2,
    "num_steps": 2,
    "num_layers": 2,
}
INPUTS = np.array([[3, 4, 5, 6, 7, 1], [8, 2, 1, 0, 0, 0], [5, 5, 5, 1, 0, 0]], np.int32)


def random_model(
    kind: Any = UniversalTransformer,
    spec: ProblemSpec = SPEC,
    seed: int = 5,
    first_seed: int = 5,
    policy: str = "float32",
    **changes: Any,
) -> Any:
    """Returns a network whose weights all lie well away from their initial values, so that its
    symbols vary: `first_seed` draws those, and `seed` what is added to them.
    """
    keras.utils.set_random_seed(first_seed)
    model = kind(small_config(kind, SIZES, **changes), spec, dtype=policy)
    generator = np.random.default_rng(seed)
    for weight in model.trainable_variables:
        weight.assign(weight + 0.2 * generator.standard_normal(weight.shape))
    return model


def random_transformer(**changes: Any) -> Any:
    """Returns a Transformer with random weights."""
    return random_model(Transformer, **changes)


def random_conditional(**changes: Any) -> Any:
    """Returns a conditional Universal Transformer with random weights."""
    return random_model(ConditionalUniversalTransformer, **changes)


def assert_steps_give_whole_logits(model: Any, steps: int) -> None:
    """Asserts that steps of two hypotheses per example, which go on from each other at random, give
    the logits of whole prefixes; midway the first example is left out and room is made.
    """
    draws, stepper = np.random.default_rng(1), make_stepper(model, beam_size=2)
    inputs, prefixes = INPUTS, np.zeros([3, 2, 0], np.int32)
    features = {"inputs": tf.constant(inputs), "batch_size": tf.constant(len(inputs))}
    cache = stepper.start(features, 2, steps)
    sources, targets, logits = [], [], []
    for index in range(steps):
        if index == steps // 2:
            inputs, prefixes = inputs[[2, 1]], prefixes[[2, 1]]
            cache = stepper.resize(cache, tf.constant([2, 1]), steps)
        last = np.pad(prefixes, [(0, 0), (0, 0), (1, 0)])[:, :, -1].reshape(-1)
        step_logits, cache = stepper.step(tf.constant(last, tf.int32), tf.constant(index), cache)
        logits.append(step_logits)
        sources.append(inputs.repeat(2, 0))
        targets.append(
            np.pad(
                prefixes.reshape(len(last), index),
                [(0, 0), (0, steps - index)],
                constant_values=END_ID,
            )
        )
        parents, symbols = (
            draws.integers(low, high, prefixes.shape[:2]).astype(np.int32)
            for low, high in ((0, 2), (2, VOCAB))
        )
        cache = stepper.reorder(cache, tf.constant(parents))
        prefixes = np.concatenate(
            [np.take_along_axis(prefixes, parents[:, :, None], 1), symbols[:, :, None]], 2
        )
    # One call for all prefixes: no position sees what fills up the ones after it.
    whole = model({"inputs": np.concatenate(sources), "targets": np.concatenate(targets)})
    places = np.repeat(np.arange(steps), [len(step_logits) for step_logits in logits])
    assert_close(tf.concat(logits, 0), tf.gather(whole, places, axis=1, batch_dims=1), 3e-5)


class Table(DecoderModel):
    """A language model whose next symbol depends on the last one: row s holds the probabilities
    after symbol s (0: at the start).

    Args:
      probabilities: [vocab, vocab].
      steps: how often it may be asked for a position; an error says that a search goes on after it
        should have ended.
    """

    supports_incremental_decoding = True

    def __init__(self, probabilities: Sequence[Sequence[float]], steps: int = 1000) -> None:
        with np.errstate(divide="ignore"):
            self.table = np.log(np.asarray(probabilities, np.float32))
        self.steps = steps

    def start_decoding(
        self, features: dict[str, Any], capacity: Any, beam_size: int
    ) -> dict[str, Any]:
        del capacity
        return {"asked": tf.zeros(tf.stack([features["batch_size"], beam_size]), tf.int32)}

    def decode_step(
        self, symbols: Any, step: Any, cache: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        tf.debugging.assert_less(
            step, self.steps, "decoding goes on after all hypotheses have been decided"
        )
        tf.debugging.assert_equal(cache["asked"], step, "a hypothesis' cache is not its own")
        return tf.gather(tf.constant(self.table), symbols), {"asked": cache["asked"] + 1}

    def log_probability(self, symbols: Sequence[int]) -> float:
        """Returns that of the symbols, normalised like a softmax."""
        rows = self.table - np.log(np.exp(self.table).sum(1, keepdims=True))
        return float(
            sum(rows[before, symbol] for before, symbol in itertools.pairwise([0, *symbols]))
        )

    def outputs(self, longest: int) -> Iterator[tuple[int, ...]]:
        """Yields every output that ends within `longest` symbols and that is possible."""
        symbols = [
            symbol for symbol in range(len(self.table)) if symbol not in (PADDING_ID, END_ID)
        ]
        for length in range(longest):
            for words in itertools.product(symbols, repeat=length):
                if self.log_probability((*words, END_ID)) > -math.inf:
                    yield (*words, END_ID)


def penalty(length: int, alpha: float) -> float:
    """Returns the length penalty."""
    return float(((5 + length) / 6) ** alpha)


def unpadded(symbols: Any) -> list[list[int]]:
    """Returns the symbols of each output [outputs, length] without padding."""
    return [[int(symbol) for symbol in row if symbol != PADDING_ID] for row in np.asarray(symbols)]
