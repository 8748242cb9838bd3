"""Greedy decoding: at every position the most probable symbol, until all sequences of the batch have ended.

How it is used::

    symbols = greedy_decode(model, features, max_length=64)     # int32 [batch, 64], padded with 0 after the end symbol

How it works: one ``tf.while_loop``, so the whole decoding is one graph when called in a ``tf.function``. Models that can decode
incrementally keep what earlier positions computed in a cache; the others run over the whole prefix for each new symbol.
Both forms choose the same symbols.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ut_tf.data.problem import END_ID, PADDING_ID


def greedy_decode(model: Any, features: dict[str, Any], max_length: Any, incremental: bool | None = None) -> Any:
    """Returns the symbols that `model` writes for `features`: int32 [batch, max_length].

    A sequence's symbols end with END_ID, and are padding after it; a sequence without END_ID was cut at `max_length`.
    Padding itself is no symbol and is never chosen.

    Args:
      model: a decoder model (``start_decoding``, ``decode_step``; called on a prefix where it cannot decode incrementally).
      features: {"inputs": int32 [batch, length] or [batch, rows, words]}; for a language model {"batch_size": int32 []}, or any
        feature whose first dimension is the batch. Targets do not reach the model.
      max_length: int or int32 []: symbols written at most, the end symbol included.
      incremental: whether to use the cache; None: where the model can.
    """
    batch_size = _batch_size(features)
    features = {name: value for name, value in features.items() if name not in ("targets", "batch_size")}
    max_length = tf.convert_to_tensor(max_length, tf.int32)
    if incremental is None:
        incremental = bool(model.supports_incremental_decoding)
    if incremental:
        cache = model.start_decoding({**features, "batch_size": batch_size}, max_length)
        return _loop(model.decode_step, cache, batch_size, max_length)
    return _loop(_prefix_step(model, features), (), batch_size, max_length, keep_prefix=True)


def _batch_size(features: dict[str, Any]) -> Any:
    if "batch_size" in features:
        return features["batch_size"]
    return tf.shape(features["inputs"] if "inputs" in features else next(iter(features.values())))[0]


def _prefix_step(model: Any, features: dict[str, Any]) -> Callable[[Any, Any, Any], tuple[Any, Any]]:
    """Returns a step that runs the model over all of the prefix [batch, step]; its logits are those after the last symbol."""

    def step_fn(prefix: Any, step: Any, cache: Any) -> tuple[Any, Any]:
        del step
        # The model shifts the targets right itself: the last target only has to be there, and not be padding.
        unknown = tf.fill([tf.shape(prefix)[0], 1], END_ID)
        logits = model({**features, "targets": tf.concat([prefix, unknown], 1)}, training=False)
        return logits[:, -1], cache

    return step_fn


def _loop(step_fn: Callable[[Any, Any, Any], tuple[Any, Any]], cache: Any, batch: Any, max_length: Any, keep_prefix: bool = False) -> Any:
    """Runs `step_fn` until all sequences have ended; it gets the last symbol [batch], or with `keep_prefix` all before it."""

    def running(step: Any, symbols: Any, ended: Any, written: Any, cache: Any) -> Any:
        del symbols, written, cache
        return tf.logical_and(step < max_length, tf.logical_not(tf.reduce_all(ended)))

    def body(step: Any, symbols: Any, ended: Any, written: Any, cache: Any) -> tuple[Any, ...]:
        given = tf.transpose(written[:step]) if keep_prefix else symbols
        logits, cache = step_fn(given, step, cache)
        chosen = tf.argmax(logits[:, PADDING_ID + 1 :], -1, output_type=tf.int32) + PADDING_ID + 1
        symbols = tf.where(ended, PADDING_ID, chosen)
        written = tf.tensor_scatter_nd_update(written, [[step]], symbols[None])
        return step + 1, symbols, tf.logical_or(ended, tf.equal(symbols, END_ID)), written, cache

    start = (
        tf.constant(0),
        tf.fill([batch], PADDING_ID),
        tf.zeros([batch], tf.bool),
        tf.fill([max_length, batch], PADDING_ID),
        cache,
    )
    return tf.transpose(tf.while_loop(running, body, start, maximum_iterations=max_length)[3])
