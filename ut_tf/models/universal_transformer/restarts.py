"""Restarts: several answers from different initial states, of which one is chosen (EqR, arXiv
2605.21488; PTRM, 2605.19943).

::

    several = {**tiled(features, 8), "restart": restart_numbers(batch, 8)}
    best = chosen("residual", 8, *answer(several), several)  # int32 [batch], of the 8 * batch rows

``eval_select`` chooses by

    residual    the least mean ||z_t - z_(t-1)|| / ||z_(t-1)|| at the last step
    q           the highest Q value of halting
    vote        the answer with which most restarts agree, added up over the positions
    verifier    the first answer that passes the problem's check, else the least residual
"""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from ut_tf.layers.recurrence_details import RecurrenceDetails
from ut_tf.symbols import PADDING_ID

Verifier = Callable[[Mapping[str, Any], Any], Any]
_OF_ROWS = ("inputs", "targets", "puzzles")


def tiled(features: Mapping[str, Any], restarts: int) -> dict[str, Any]:
    """Returns the features of `restarts` copies of a batch, one behind the other."""
    tensors = {name: tf.convert_to_tensor(features[name]) for name in _OF_ROWS if name in features}
    return {
        name: tf.tile(value, [restarts] + [1] * (value.shape.rank - 1))
        for name, value in tensors.items()
    }


def restart_numbers(batch: Any, restarts: int) -> Any:
    """Returns int64 [restarts * batch], the number of each row's restart, from 0."""
    return tf.repeat(tf.range(restarts, dtype=tf.int64), batch)


def chosen(
    select: str,
    restarts: int,
    logits: Any,
    details: RecurrenceDetails,
    features: Mapping[str, Any],
    verifier: Verifier | None = None,
) -> Any:
    """Returns int32 [batch], the rows that are chosen.

    Args:
      select: "residual", "q", "vote" or "verifier".
      restarts: of each example.
      logits: float32 [restarts * batch, ...], of ``tiled`` features.
      details: of the call.
      features: tiled.
      verifier: makes bool [rows] of features and answers, int32 [rows, length].
    """
    residuals = tf.reduce_sum(details.residuals * details.mask, 1) / tf.maximum(
        tf.reduce_sum(details.mask, 1), 1.0
    )
    # Symbols are answered with; padding, whose logits count as the others', never is.
    answers = tf.argmax(logits, -1, output_type=tf.int32)
    if select == "q":
        scores = details.q_values[:, 0]
    elif select == "vote":
        scores = _votes(answers, features, restarts)
    elif select == "verifier":
        assert verifier is not None
        passes = tf.cast(verifier(features, answers), tf.float32)
        scores = 2.0 * passes - tf.where(passes > 0, 0.0, residuals / (1.0 + residuals))
    else:
        scores = -residuals
    scores = tf.reshape(scores, [restarts, -1])
    batch = tf.shape(scores)[1]
    best = tf.argmax(scores, 0, output_type=tf.int32)
    return best * batch + tf.range(batch)


def _votes(answers: Any, features: Mapping[str, Any], restarts: int) -> Any:
    """Returns float32 [restarts * batch]: over the positions, how many restarts answer the same."""
    if answers.shape.rank == 1:
        each = tf.reshape(answers, [restarts, -1, 1])
    else:
        read = tf.cast(features["inputs"] != PADDING_ID, answers.dtype)
        each = tf.reshape(answers * read, [restarts, -1, tf.shape(answers)[1]])
    same = tf.cast(each[:, None] == each[None], tf.float32)
    return tf.reshape(tf.reduce_sum(same, [0, 3]), [-1])
