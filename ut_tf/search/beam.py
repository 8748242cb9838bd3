"""Beam search: the best hypotheses of every length so far, until none of them can become better
than those that have ended.

The score of a hypothesis is its log-probability divided by ((5 + length) / 6)^alpha (arXiv
1609.08144), the end symbol counted. At each position every hypothesis is continued by its most
probable symbols. The beam_size best continuations that do not end go on; one that ends is kept if
it is among the beam_size best of all, or with wide_ends among twice as many. An example is done
when no hypothesis that goes on could still beat the n_best-th one that was kept, even if all
symbols up to its longest length were certain. Hypotheses that reach that length without an end come
last, where fewer than n_best have ended.
"""

import math
from typing import Any

import tensorflow as tf

from ut_tf.search.bounds import Bounds
from ut_tf.search.config import DecodeConfig
from ut_tf.search.loop import State, run
from ut_tf.search.strategy import Features, Seeds, Strategy, Written
from ut_tf.symbols import END_ID, PADDING_ID

# Symbols among which the best are found first, and symbols per result from which on that pays.
_GROUP = 32
_MANY_SYMBOLS = 64


def length_penalty(length: Any, alpha: float) -> Any:
    """((5 + length) / 6)^alpha, float32."""
    return tf.pow((5.0 + tf.cast(length, tf.float32)) / 6.0, alpha)


class BeamSearch(Strategy):
    """The config.n_best best outputs of each example, with the length penalty config.alpha.

    Where an example has fewer possible outputs than n_best, the rest is padding with the score
    -inf.
    """

    def search(self, stepper: Any, features: Features, bounds: Bounds, seeds: Seeds) -> Written:
        features = dict(features)
        prefix = features.pop("prefix", None)
        beam = _Beam(self.config, bounds)
        state = beam.start(features["batch_size"])
        state = state if prefix is None else {**state, "prefix": prefix}
        return beam.best(run(stepper, features, state, beam.advance, bounds.positions))


def best_symbols(logits: Any, count: int) -> tuple[Any, Any]:
    """Returns the `count` highest logits and their symbols, as ``tf.math.top_k`` does, in a third
    of the time if there are many.

    Args:
      logits: float32 [batch, hypotheses, vocab], vocab known.
      count: at most vocab.
    """
    vocab_size = logits.shape[2]
    if vocab_size < _MANY_SYMBOLS * count:
        values, symbols = tf.math.top_k(logits, count)
        return values, symbols
    # The best symbols are in the groups whose best symbols are best. In order, so that of equal
    # logits the first counts.
    padded = (
        tf.pad(logits, [[0, 0], [0, 0], [0, -vocab_size % _GROUP]], constant_values=-math.inf)
        if vocab_size % _GROUP
        else logits
    )
    grouped = tf.reshape(padded, [-1, logits.shape[1], padded.shape[2] // _GROUP, _GROUP])
    groups = tf.sort(tf.math.top_k(tf.reduce_max(grouped, -1), count).indices)
    candidates = tf.reshape(
        tf.gather(grouped, groups, batch_dims=2), [-1, logits.shape[1], count * _GROUP]
    )
    values, places = tf.math.top_k(candidates, count)
    return values, tf.gather(groups, places // _GROUP, batch_dims=2) * _GROUP + places % _GROUP


class _Beam:
    """One search: its state between positions, and its work at each. `size` is beam_size, `ending`
    the number of continuations that may end an output.

    State, tensors with the examples first:
      symbols: int32 [batch, size], the last ones of the hypotheses that go on.
      scores: float32 [batch, size], their log-probabilities, best first; -inf where there are
        fewer.
      written: int32 [batch, size, length].
      ended_scores: float32 [batch, n_best], of those that have ended, with the length penalty, best
        first.
      ended_written: int32 [batch, n_best, length].
      done: bool [batch].
      longest: int32 [batch].
    """

    def __init__(self, config: DecodeConfig, bounds: Bounds) -> None:
        self.size = config.beam_size
        self.ending = 2 * config.beam_size if config.wide_ends else config.beam_size
        self.kept = config.n_best
        self.alpha = config.alpha
        self.bounds = bounds

    def start(self, batch_size: Any) -> State:
        """The state before the first position: one hypothesis, empty."""
        length = self.bounds.positions
        scores = tf.constant([0.0] + [-math.inf] * (self.size - 1))
        return {
            "done": tf.fill([batch_size], False),
            "symbols": self._fill(PADDING_ID, batch_size, self.size),
            "scores": tf.tile(scores[None], tf.stack([batch_size, 1])),
            "written": self._fill(PADDING_ID, batch_size, self.size, length),
            "ended_scores": self._fill(-math.inf, batch_size, self.kept),
            "ended_written": self._fill(PADDING_ID, batch_size, self.kept, length),
            "longest": self.bounds.longest,
        }

    def advance(self, logits: Any, index: Any, state: State) -> tuple[State, Any]:
        """Continues every hypothesis by one symbol; see ``loop.run``."""
        scores, symbols, parents = self._continuations(logits, index, state)
        written = tf.gather(state["written"], parents, batch_dims=1)
        written = tf.where(tf.range(tf.shape(written)[2]) == index, symbols[:, :, None], written)
        ends = symbols == END_ID
        ended = self._ended(index, state, scores, ends, written)
        going_on, order = tf.math.top_k(tf.where(ends, -math.inf, scores), self.size)
        new = {
            "symbols": tf.gather(symbols, order, batch_dims=1),
            "scores": going_on,
            "written": tf.gather(written, order, batch_dims=1),
            **ended,
        }
        # Examples that are done stay as they are: the bound promises that nothing could change,
        # except symbols beyond the longest length.
        kept = {
            name: tf.where(_expand(state["done"], value), state[name], value)
            for name, value in new.items()
        }
        bound = going_on[:, 0] / length_penalty(state["longest"], self.alpha)
        done = (
            state["done"]
            | (bound <= ended["ended_scores"][:, -1])
            | (index + 1 >= state["longest"])
        )
        return {**state, **kept, "done": done}, tf.gather(parents, order, batch_dims=1)

    def best(self, state: State) -> Written:
        """Those that have ended, and behind them, where they are fewer than n_best, those
        that were cut.
        """
        cut_scores = state["scores"] / length_penalty(state["longest"], self.alpha)[:, None]
        scores = tf.concat([state["ended_scores"], cut_scores[:, : self.kept]], 1)
        written = tf.concat([state["ended_written"], state["written"][:, : self.kept]], 1)
        count = tf.reduce_sum(tf.cast(state["ended_scores"] > -math.inf, tf.int32), 1)[:, None]
        place = tf.range(self.kept)[None]
        chosen = tf.where(place < count, place, place - count + self.kept)
        scores, written = (
            tf.gather(scores, chosen, batch_dims=1),
            tf.gather(written, chosen, batch_dims=1),
        )
        return Written(tf.where(scores[:, :, None] > -math.inf, written, PADDING_ID), scores)

    def _continuations(self, logits: Any, index: Any, state: State) -> tuple[Any, Any, Any]:
        """Log-probabilities, last symbols and the hypotheses they continue, [batch, 2 *
        size] each, best first.
        """
        vocab_size = logits.shape[1]
        logits = tf.reshape(logits, [-1, self.size, vocab_size])
        count = min(2 * self.size, vocab_size)
        best, symbols = best_symbols(self.bounds.allowed(logits, index, state.get("prefix")), count)
        totals = state["scores"][:, :, None] + best - tf.reduce_logsumexp(logits, -1, keepdims=True)
        flat = [-1, self.size * count]
        # Of 2 * size continuations at least size do not end, as each hypothesis ends in one way
        # only.
        scores, places = tf.math.top_k(tf.reshape(totals, flat), 2 * self.size)
        return scores, tf.gather(tf.reshape(symbols, flat), places, batch_dims=1), places // count

    def _ended(self, index: Any, state: State, scores: Any, ends: Any, written: Any) -> State:
        """The best hypotheses that have ended so far."""
        now = tf.where(ends, scores / length_penalty(index + 1, self.alpha), -math.inf)[
            :, : self.ending
        ]
        all_scores = tf.concat([state["ended_scores"], now], 1)
        best, order = tf.math.top_k(all_scores, self.kept)
        all_written = tf.concat([state["ended_written"], written[:, : self.ending]], 1)
        return {"ended_scores": best, "ended_written": tf.gather(all_written, order, batch_dims=1)}

    def _fill(self, value: Any, *sizes: Any) -> Any:
        filled = tf.fill(tf.stack(sizes), value)
        filled.set_shape([size if isinstance(size, int) else None for size in sizes])
        return filled


def _expand(condition: Any, like: Any) -> Any:
    """bool [batch] with as many axes as `like`."""
    return tf.reshape(condition, [-1] + [1] * (like.shape.rank - 1))
