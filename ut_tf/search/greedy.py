"""Decoding one symbol after the other: the most probable one (greedy), or one that the caller
chooses.

How it is used::

    # int32 [batch, 64], padded with 0 after the end symbol
    symbols = greedy_decode(model, features, max_length=64)
    written = write(stepper, features, bounds, greedy_choice)   # symbols and log-probabilities

Models that can decode incrementally keep what earlier positions computed; the others run over the
whole prefix for each new symbol. Both forms choose the same symbols.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from ut_tf.errors import UserError
from ut_tf.search.bounds import Bounds
from ut_tf.search.loop import State, run
from ut_tf.search.stepper import make_stepper
from ut_tf.symbols import END_ID, PADDING_ID

Choice = Callable[[Any, Any, State], Any]
"""Called with float32 logits [batch, outputs, vocab], the position and the state; returns the
symbols, int32 [batch, outputs].
"""


class Written(NamedTuple):
    """Outputs as they were written.

    Fields:
      symbols: int32 [batch, outputs, length], END_ID last and then padding; without END_ID where an
        output was cut.
      scores: float32 [batch, outputs], log-probabilities.
    """

    symbols: Any
    scores: Any


# Nothing here needs AutoGraph, whose translation of every function takes longer than tracing them.
@tf.autograph.experimental.do_not_convert
def greedy_decode(
    model: Any, features: dict[str, Any], max_length: Any, incremental: bool | None = None
) -> Any:
    """Returns the symbols that `model` writes for `features`: int32 [batch, max_length].

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


def decoder_features(features: dict[str, Any]) -> dict[str, Any]:
    """Returns the features without targets and with "batch_size", int32 []; a "prefix" becomes
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


def greedy_choice(logits: Any, index: Any, state: State) -> Any:
    """Returns the most probable symbols, the first of equal ones: a ``Choice``."""
    del index, state
    return tf.argmax(logits, -1, output_type=tf.int32)


def write(
    stepper: Any,
    features: dict[str, Any],
    bounds: Bounds,
    choose: Choice,
    max_length: Any = None,
    extra_state: State | None = None,
) -> Written:
    """Writes outputs that do not compete with each other, as many of each example as the stepper
    has hypotheses.

    Args:
      stepper: from ``make_stepper``.
      features: from ``decoder_features``; where they have a "prefix", outputs begin with it.
      bounds: of the outputs' lengths; there are as many examples as it has.
      choose: decides each symbol.
      max_length: int32 [], columns of the result; None: as many as `bounds` allows.
      extra_state: tensors [batch, ...] that `choose` reads.
    """
    features = dict(features)
    prefix = features.pop("prefix", None)
    max_length = bounds.positions if max_length is None else max_length
    batch_size = tf.shape(bounds.longest)[0]
    shape = tf.stack([batch_size, stepper.beam_size])
    written = tf.zeros(tf.concat([shape, [max_length]], 0), tf.int32)
    written.set_shape([None, stepper.beam_size, None])
    order = tf.range(tf.shape(written)[2])
    state: State = {
        "done": tf.zeros([batch_size], tf.bool),
        "symbols": tf.fill(shape, PADDING_ID),
        "ended": tf.fill(shape, False),
        "written": written,
        "scores": tf.zeros(shape),
        "longest": bounds.longest,
        **({} if prefix is None else {"prefix": prefix}),
        **(extra_state or {}),
    }

    def advance(logits: Any, index: Any, state: State) -> tuple[State, None]:
        logits = tf.reshape(logits, tf.stack([-1, stepper.beam_size, tf.shape(logits)[1]]))
        chosen = choose(bounds.allowed(logits, index, state.get("prefix")), index, state)
        score = tf.gather(logits, chosen, batch_dims=2) - tf.reduce_logsumexp(logits, -1)
        ended = state["ended"]
        symbols = tf.where(ended, PADDING_ID, chosen)
        ended_now = ended | (symbols == END_ID) | (index + 1 >= state["longest"])[:, None]
        changed = {
            "done": tf.reduce_all(ended_now, 1),
            "symbols": symbols,
            "ended": ended_now,
            "written": tf.where(order == index, symbols[:, :, None], state["written"]),
            "scores": state["scores"] + tf.where(ended, 0.0, score),
        }
        return {**state, **changed}, None

    final = run(stepper, features, state, advance, max_length)
    return Written(final["written"], final["scores"])
