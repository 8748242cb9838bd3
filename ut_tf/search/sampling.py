"""Sampling: every symbol is drawn from the model's distribution, made sharper or cut to its most
probable symbols.

Example::

    written = Sampling(config).search(stepper, features, bounds, seeds)

How it works: one uniform number decides each symbol, by the distribution's running sum. The numbers
of an example follow from the seed and the example's own number alone, so that a sample does not
depend on what else is in the batch. The samples of an example are rows of their own: they share
what was read of its inputs, and nothing else.
"""

import math
from typing import Any

import tensorflow as tf

from ut_tf.search.bounds import Bounds
from ut_tf.search.config import DecodeConfig
from ut_tf.search.loop import State
from ut_tf.search.stepper import CopyingStepper
from ut_tf.search.strategy import Features, Seeds, Strategy, Written
from ut_tf.search.writing import write

# Rounding must not carry a draw past the last symbol that has any probability.
_BELOW_ONE = 1.0 - 1e-6
# Temperatures beyond these draw as these do, and float32 could not divide by them.
_COLDEST, _HOTTEST = 1e-30, 1e30


class Sampling(Strategy):
    """config.n_best independent samples of each example, the most probable first."""

    random = True

    @property
    def hypotheses(self) -> int:
        return 1

    @property
    def rows(self) -> int:
        return self.config.n_best

    def search(self, stepper: Any, features: Features, bounds: Bounds, seeds: Seeds) -> Written:
        batch_size, length, samples = features["batch_size"], bounds.positions, self.config.n_best
        draws = tf.transpose(uniform_draws(*seeds, length, samples), [0, 2, 1])
        state = {"draws": tf.reshape(draws, tf.stack([batch_size * samples, length]))}
        if "prefix" in features:
            features = {**features, "prefix": tf.repeat(features["prefix"], samples, 0)}
        bounds = bounds._replace(longest=tf.repeat(bounds.longest, samples))

        def choose(logits: Any, index: Any, state: State) -> Any:
            return draw(logits, state["draws"][:, index, None], self.config)

        symbols, scores = write(
            CopyingStepper(stepper, samples), features, bounds, choose, extra_state=state
        )
        scores, order = tf.math.top_k(tf.reshape(scores, [-1, samples]), samples)
        symbols = tf.reshape(symbols, tf.stack([batch_size, samples, length]))
        return Written(tf.gather(symbols, order, batch_dims=1), scores)


def uniform_draws(seed: Any, numbers: Any, length: Any, samples: int) -> Any:
    """float32 [batch, length, samples] in [0, 1), from the seed and each example's number
    alone; more of them begin alike.
    """
    shape = tf.stack([length, samples])

    def of_example(number: Any) -> Any:
        return tf.random.stateless_uniform(
            shape, tf.random.experimental.stateless_fold_in(seed, number)
        )

    # One number more than there are: of no results at all the shape would not be known.
    draws = tf.map_fn(
        of_example,
        tf.pad(numbers, [[0, 1]]),
        fn_output_signature=tf.TensorSpec([None, samples], tf.float32),
    )
    return draws[:-1]


def draw(logits: Any, uniform: Any, config: DecodeConfig) -> Any:
    """The symbols that uniform numbers decide: logits [batch, samples, vocab], uniform
    [batch, samples] -> int32 [batch, samples].

    Args:
      logits: float32; -inf for symbols that may not be drawn.
      uniform: float32, in [0, 1).
      config: its temperature, top_k and top_p are used.
    """
    # No quotient is above 0, so that none overflows to infinity.
    logits = (logits - tf.reduce_max(logits, -1, keepdims=True)) / min(
        max(config.temperature, _COLDEST), _HOTTEST
    )
    if not config.top_k and config.top_p == 1.0:
        return _by_running_sum(tf.nn.softmax(logits), uniform)
    size = tf.shape(logits)[-1]
    best, symbols = tf.math.top_k(logits, tf.minimum(config.top_k, size) if config.top_k else size)
    probabilities = tf.nn.softmax(best)
    if config.top_p < 1.0:
        # A symbol counts as long as those before it have not reached top_p: the most probable one
        # always does.
        before = tf.cumsum(probabilities, -1, exclusive=True)
        probabilities = tf.nn.softmax(tf.where(before < config.top_p, best, -math.inf))
    return tf.gather(symbols, _by_running_sum(probabilities, uniform), batch_dims=2)


def _by_running_sum(probabilities: Any, uniform: Any) -> Any:
    """The number of the first outcome at which the running sum exceeds the share `uniform`
    of the whole.
    """
    sums = tf.cumsum(probabilities, -1)
    target = sums[..., -1] * tf.minimum(uniform, _BELOW_ONE)
    return tf.reduce_sum(tf.cast(sums <= target[..., None], tf.int32), -1)
