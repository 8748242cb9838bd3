"""Outputs of a model for given inputs, written by the search strategy that the options name.

Example::

    decoded = decode(model, {"inputs": inputs}, DecodeConfig(beam_size=4, n_best=2))
    decoded.symbols[:, 0], decoded.scores[:, 0]  # the best output of each example, its score
    # int32 [batch, 64], padded with 0 after the end symbol
    symbols = greedy_decode(model, features, max_length=64)

All of it is TensorFlow operations on batches of any size and length: it works in a ``tf.function``
with unknown sizes and is exported with a model.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from ut_tf import registry
from ut_tf.config.part_options import own_options
from ut_tf.errors import UserError
from ut_tf.search.bounds import Bounds
from ut_tf.search.config import DecodeConfig
from ut_tf.search.speculation import Drafts, speculate
from ut_tf.search.stepper import make_stepper
from ut_tf.search.strategy import Seeds, Strategy, Written
from ut_tf.search.writing import greedy_choice, write
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
    """The outputs of `model` for `features`.

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
    strategy = make_strategy(config)
    if config.draft_steps and not strategy.drafts:
        raise UserError(
            f"draft_steps={config.draft_steps}: strategy={config.strategy_name} chooses other"
            " symbols than the most probable one each time: set it to 0."
        )
    numbers = tf.range(features["batch_size"]) if numbers is None else tf.cast(numbers, tf.int32)
    stepper = make_stepper(model, strategy.hypotheses, incremental, config.draft_steps)
    written = strategy.search(stepper, features, bounds, Seeds(_seed_pair(seed), numbers))
    _check_outputs(written, config)
    lengths = tf.reduce_sum(tf.cast(written.symbols != PADDING_ID, tf.int32), -1)
    length = tf.maximum(tf.reduce_max(lengths), 0)
    return Decoded(written.symbols[:, :, :length], written.scores)


@tf.autograph.experimental.do_not_convert
def greedy_decode(
    model: Any, features: dict[str, Any], max_length: Any, incremental: bool | None = None
) -> Any:
    """The symbols that `model` writes for `features`: int32 [batch, max_length].

    A sequence's symbols end with END_ID, and are padding after it; a sequence without END_ID was
    cut at `max_length`. Padding itself is no symbol and is never chosen.

    Args:
      model: a decoder model (see ``stepper``).
      features: {"inputs": int32 [batch, length] or [batch, rows, words]}; for a language model
        {"batch_size": int32 []}, or any feature whose first dimension is the batch. Targets do not
        reach the model.
      max_length: int or int32 []: symbols written at most, the end symbol included.
      incremental: whether to use the model's cache; None: where it can.

    Raises:
      UserError: nothing says how many examples there are, or the model has no cache to use.
    """
    features = decoder_features(features)
    longest = tf.fill([features["batch_size"]], tf.convert_to_tensor(max_length, tf.int32))
    return write(
        make_stepper(model, 1, incremental), features, Bounds(longest), greedy_choice, max_length
    ).symbols[:, 0]


@tf.autograph.experimental.do_not_convert
def count_drafts(model: Any, features: dict[str, Any], config: DecodeConfig) -> Drafts:
    """Returns what became of the drafts of ``decode`` with these arguments, whose ``draft_steps``
    is above 0; errors as of ``decode``.
    """
    features = decoder_features(features)
    bounds = Bounds.of(features, features["batch_size"], config)
    stepper = make_stepper(model, 1, draft_steps=config.draft_steps)
    return speculate(stepper, features, bounds)[1]


def decoder_features(features: dict[str, Any]) -> dict[str, Any]:
    """The features without targets and with "batch_size", int32 []; a "prefix" becomes
    int32 and has one column at least.

    Raises:
      UserError: nothing says how many examples there are.
    """
    tensors = {name: tf.convert_to_tensor(value) for name, value in features.items()}
    if not tensors:
        raise UserError(
            "there are no features to decode: give inputs, or for a language model batch_size or"
            " prefix."
        )
    for name in tensors.keys() & {"batch_size", "prefix"}:
        tensors[name] = tf.cast(tensors[name], tf.int32)
    if "prefix" in tensors:
        tensors["prefix"] = tf.pad(tensors["prefix"], [[0, 0], [0, 1]])
    if "batch_size" not in tensors:
        tensors["batch_size"] = tf.shape(
            tensors["inputs"] if "inputs" in tensors else next(iter(tensors.values()))
        )[0]
    return {name: value for name, value in tensors.items() if name != "targets"}


def make_strategy(config: DecodeConfig) -> Strategy:
    """The search strategy that `config` names.

    Raises:
      UserError: what is registered under the name is no Strategy.
    """
    name = config.strategy_name
    strategy = registry.strategies.get(name)(config, **own_options(config, "strategy"))
    if not isinstance(strategy, Strategy):
        raise UserError(
            f"the search strategy {name!r} made a {type(strategy).__name__}: register a class"
            " derived from ut_tf.search.strategy.Strategy."
        )
    return strategy


def _check_outputs(written: Written, config: DecodeConfig) -> None:
    outputs = written.scores.shape[1]
    if outputs not in (None, config.n_best):
        raise UserError(
            f"the search strategy {config.strategy_name!r} writes {outputs} outputs of each"
            f" example, and n_best={config.n_best}: give the n_best that it writes."
        )


def _seed_pair(seed: Any) -> Any:
    """int32 [2]."""
    if isinstance(seed, str) or (isinstance(seed, float) and not seed.is_integer()):
        raise UserError(f"seed={seed!r}: expected a whole number.")
    seed = tf.cast(0 if seed is None else seed, tf.int32)
    return seed if seed.shape.rank == 1 else tf.stack([seed, 0])
