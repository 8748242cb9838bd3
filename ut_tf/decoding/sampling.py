"""Sampling: every symbol is drawn from the model's distribution, made sharper or cut to its most probable symbols.

How it is used::

    written = sample(stepper, features, bounds, config, seed, numbers)

How it works: one uniform number decides each symbol, by the distribution's running sum. The numbers of an example follow from the seed and
the example's own number alone, so that a sample does not depend on what else is in the batch.
"""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from ut_tf.decoding.bounds import Bounds
from ut_tf.decoding.config import DecodeConfig
from ut_tf.decoding.greedy import Written, write
from ut_tf.decoding.loop import State

# Rounding must not carry a draw past the last symbol that has any probability.
_BELOW_ONE = 1.0 - 1e-6


def sample(stepper: Any, features: dict[str, Any], bounds: Bounds, config: DecodeConfig, seed: Any, numbers: Any) -> Written:
    """Writes independent samples, as many of each example as the stepper has hypotheses.

    Args:
      stepper: from ``make_stepper``.
      features: from ``decoder_features``.
      bounds: of the outputs' lengths.
      config: its temperature, top_k and top_p are used.
      seed: int32 [2].
      numbers: int32 [batch], of the examples.
    """
    draws = uniform_draws(seed, numbers, tf.reduce_max(bounds.longest), stepper.beam_size)

    def choose(logits: Any, index: Any, state: State) -> Any:
        return draw(logits, state["draws"][:, index], config)

    return write(stepper, features, bounds, choose, extra_state={"draws": draws})


def uniform_draws(seed: Any, numbers: Any, length: Any, samples: int) -> Any:
    """Returns float32 [batch, length, samples] in [0, 1), from the seed and each example's number alone; more of them begin alike."""
    shape = tf.stack([length, samples])

    def of_example(number: Any) -> Any:
        return tf.random.stateless_uniform(shape, tf.random.experimental.stateless_fold_in(seed, number))

    return tf.map_fn(of_example, numbers, fn_output_signature=tf.TensorSpec([None, samples], tf.float32))


def draw(logits: Any, uniform: Any, config: DecodeConfig) -> Any:
    """Returns the symbols that uniform numbers decide: logits [batch, samples, vocab], uniform [batch, samples] -> int32 [batch, samples].

    Args:
      logits: float32; -inf for symbols that may not be drawn.
      uniform: float32, in [0, 1).
      config: its temperature, top_k and top_p are used.
    """
    logits = logits / config.temperature
    if not config.top_k and config.top_p == 1.0:
        return _by_running_sum(tf.nn.softmax(logits), uniform)
    size = tf.shape(logits)[-1]
    best, symbols = tf.math.top_k(logits, tf.minimum(config.top_k, size) if config.top_k else size)
    probabilities = tf.nn.softmax(best)
    if config.top_p < 1.0:
        # A symbol counts as long as those before it have not reached top_p: the most probable one always does.
        before = tf.cumsum(probabilities, -1, exclusive=True)
        probabilities = tf.nn.softmax(tf.where(before < config.top_p, best, -math.inf))
    return tf.gather(symbols, _by_running_sum(probabilities, uniform), batch_dims=2)


def _by_running_sum(probabilities: Any, uniform: Any) -> Any:
    """Returns the number of the first outcome at which the running sum exceeds the share `uniform` of the whole."""
    sums = tf.cumsum(probabilities, -1)
    target = sums[..., -1] * tf.minimum(uniform, _BELOW_ONE)
    return tf.reduce_sum(tf.cast(sums <= target[..., None], tf.int32), -1)
