"""Outputs that do not compete: one symbol after the other, chosen by the caller.

Example::

    written = write(stepper, features, bounds, greedy_choice)  # symbols and log-probabilities
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ut_tf.search.bounds import Bounds
from ut_tf.search.loop import State, run
from ut_tf.search.strategy import Written
from ut_tf.symbols import END_ID, PADDING_ID

Choice = Callable[[Any, Any, State], Any]
"""Called with float32 logits [batch, outputs, vocab], the position and the state; returns the
symbols, int32 [batch, outputs].
"""


def greedy_choice(logits: Any, index: Any, state: State) -> Any:
    """The most probable symbols, the first of equal ones: a ``Choice``."""
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
