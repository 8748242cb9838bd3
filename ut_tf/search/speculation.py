"""Greedy decoding of several symbols at once: drafts that are verified.

::

    written, drafts = speculate(model.drafting_stepper(2), features, bounds)

A round feeds the last symbol and some drafts behind it, each of which follows from the first steps
of the positions before it, and computes all steps of these positions together. The drafts up to the
first that is not the most probable symbol are the output, and that symbol is next: what greedy
decoding writes, whatever is drafted (as in arXiv 2211.17192, with the model's own first steps in
the place of a smaller model).
"""

from typing import Any, NamedTuple

import tensorflow as tf

from ut_tf.search.bounds import Bounds
from ut_tf.search.loop import State, run
from ut_tf.search.strategy import Written
from ut_tf.symbols import END_ID, PADDING_ID

NEAR = 1e-5
"""Logits that are nearer may change their order with the number of positions in a product."""


class Drafts(NamedTuple):
    """What became of drafts, int32 [batch] each.

    Fields:
      drafted: symbols that were drafted.
      accepted: those of them that were right.
      near: symbols of the output whose two best logits differ by less than ``NEAR``.
    """

    drafted: Any
    accepted: Any
    near: Any


def speculate(stepper: Any, features: dict[str, Any], bounds: Bounds) -> tuple[Written, Drafts]:
    """Writes one output of each example.

    Args:
      stepper: whose step takes the last symbols, int32 [batch], and returns ((logits float32
        [batch, count, vocab] of the next positions, drafts int32 [batch, count] of their symbols),
        the cache), and whose reorder takes how many of the positions hold, int32 [batch].
      features: from ``decoder_features``; where they have a "prefix", outputs begin with it.
      bounds: of the outputs' lengths.
    """
    batch_size = tf.shape(bounds.longest)[0]
    zeros, prefix = tf.zeros([batch_size], tf.int32), features.get("prefix")
    state: State = {
        "done": tf.zeros([batch_size], tf.bool),
        "symbols": tf.fill([batch_size, 1], PADDING_ID),
        "position": zeros,
        "written": tf.zeros(tf.stack([batch_size, bounds.positions]), tf.int32),
        "scores": tf.zeros([batch_size]),
        "longest": bounds.longest,
        "drafts": tf.zeros([batch_size, len(Drafts._fields)], tf.int32),
        **({} if prefix is None else {"prefix": prefix}),
    }
    order = tf.range(bounds.positions)

    def advance(computed: Any, index: Any, state: State) -> tuple[State, Any]:
        del index
        logits, drafts = computed
        count, done, position = tf.shape(drafts)[1], state["done"], state["position"]
        places = position[:, None] + tf.range(count)
        allowed = bounds.allowed(logits, places[:, :, None], state.get("prefix"))
        chosen = tf.argmax(allowed, -1, output_type=tf.int32)
        ended = (chosen == END_ID) | (places + 1 >= state["longest"][:, None])
        goes_on = tf.cast((drafts == chosen) & ~ended, tf.int32)
        holds = tf.math.cumprod(goes_on, 1, exclusive=True) * tf.cast(~done, tf.int32)[:, None]
        taken = tf.reduce_sum(holds, 1)
        last = tf.maximum(taken - 1, 0)
        offset = order - position[:, None]
        new = tf.gather(chosen, tf.clip_by_value(offset, 0, count - 1), batch_dims=1)
        score = tf.gather(logits, chosen, batch_dims=2) - tf.reduce_logsumexp(logits, -1)
        best = tf.math.top_k(allowed, 2).values
        near = tf.cast(best[:, :, 0] - best[:, :, 1] < NEAR, tf.int32) * holds
        offered = tf.where(done, 0, count - 1)
        counts = tf.stack([offered, last, tf.reduce_sum(near, 1)], 1)
        changed = {
            "done": done | tf.gather(ended, last, batch_dims=1),
            "symbols": tf.gather(chosen, last[:, None], batch_dims=1),
            "position": position + taken,
            "written": tf.where((offset >= 0) & (offset < taken[:, None]), new, state["written"]),
            "scores": state["scores"] + tf.reduce_sum(score * tf.cast(holds, score.dtype), 1),
            "drafts": state["drafts"] + counts,
        }
        return {**state, **changed}, taken

    final = run(stepper, features, state, advance, bounds.positions)
    written = Written(final["written"][:, None], final["scores"][:, None])
    return written, Drafts(*tf.unstack(final["drafts"], axis=1))
