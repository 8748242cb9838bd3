"""Outputs of a model for given inputs: greedy decoding, beam search or sampling, as the options
say.

How it is used::

    decoded = decode(model, {"inputs": inputs}, DecodeConfig(beam_size=4, n_best=2))
    decoded.symbols[:, 0], decoded.scores[:, 0]  # the best output of each example, its score

All of it is TensorFlow operations on batches of any size and length: it works in a ``tf.function``
with unknown sizes and is exported with a model.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from ut_tf.search.beam import beam_search
from ut_tf.search.bounds import Bounds
from ut_tf.search.config import DecodeConfig
from ut_tf.search.greedy import Written, decoder_features, greedy_choice, write
from ut_tf.search.sampling import sample
from ut_tf.search.stepper import make_stepper
from ut_tf.symbols import PADDING_ID


class Decoded(NamedTuple):
    """The outputs of a batch, best first.

    Fields:
      symbols: int32 [batch, n_best, length], END_ID last and padding behind it; no END_ID where an
        output was cut at its longest length.
      scores: float32 [batch, n_best]: of a beam search log-probability / length penalty, else the
        log-probability. -inf (and no symbols) where an example has fewer possible outputs.
    """

    symbols: Any
    scores: Any


# Nothing here needs AutoGraph, whose translation of every function takes longer than tracing them.
@tf.autograph.experimental.do_not_convert
def decode(
    model: Any,
    features: dict[str, Any],
    config: DecodeConfig,
    seed: Any = None,
    numbers: Any = None,
    incremental: bool | None = None,
) -> Decoded:
    """Returns the outputs of `model` for `features`.

    Args:
      model: a decoder model (see ``stepper``).
      features: {"inputs": int32 [batch, length] or [batch, rows, words]}; for a language model
        {"batch_size": int32 []}. With "prefix", int32 [batch, length] padded with 0, every output
        begins with its example's prefix, or with as much of it as the output may be long; a
        language model's batch follows from it.
      config: how to search.
      seed: of sampling: int, int32 [] or int32 [2]; None: 0.
      numbers: of sampling: int32 [batch], each example's own number, from which with the seed all
        its draws follow; None: its place.
      incremental: whether to use the model's cache; None: where it can.

    Raises:
      UserError: nothing says how many examples there are, or the model has no cache to use.
    """
    features = decoder_features(features)
    bounds = Bounds.of(features, features["batch_size"], config)
    stepper = make_stepper(model, 1 if config.sampling else config.beam_size, incremental)
    if config.sampling:
        numbers = (
            tf.range(features["batch_size"]) if numbers is None else tf.cast(numbers, tf.int32)
        )
        written = _best_first(sample(stepper, features, bounds, config, _seed_pair(seed), numbers))
    elif config.beam_size == 1:
        written = write(stepper, features, bounds, greedy_choice)
    else:
        written = beam_search(stepper, features, bounds, config)
    lengths = tf.reduce_sum(tf.cast(written.symbols != PADDING_ID, tf.int32), -1)
    length = tf.maximum(tf.reduce_max(lengths), 0)
    return Decoded(written.symbols[:, :, :length], written.scores)


def _seed_pair(seed: Any) -> Any:
    """Returns int32 [2]."""
    seed = tf.cast(0 if seed is None else seed, tf.int32)
    return seed if seed.shape.rank == 1 else tf.stack([seed, 0])


def _best_first(written: Written) -> Written:
    scores, order = tf.math.top_k(written.scores, written.scores.shape[1])
    return Written(tf.gather(written.symbols, order, batch_dims=1), scores)
