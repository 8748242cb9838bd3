"""The training loss: cross entropy with smoothed labels, and the ponder cost, as sums with their
counts.

Sums and counts are kept apart, because both are added up over the replicas (and over accumulated
batches) before one is divided by the other: every token of the global batch weighs the same,
however the batch was split.

Label smoothing s gives the right symbol the probability 1 - s and every other of the V symbols s /
(V - 1), as tensor2tensor does. The loss is the plain cross entropy against this distribution, so
its least value is the distribution's entropy and not 0.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from ut_tf.ids import checked_ids, is_compiled_by_xla, unknown_ids
from ut_tf.symbols import PADDING_ID


def smoothed_cross_entropy(logits: Any, targets: Any, label_smoothing: float = 0.0) -> Any:
    """The cross entropy of each target, in nats.

    Args:
      logits: [..., vocabulary], any floating dtype; computed with in float32.
      targets: [...] ids.
      label_smoothing: s, the probability moved from the right symbol to all others.

    Returns:
      float32 [...]; where XLA compiles, NaN of a target that is none of the vocabulary.

    Raises:
      UserError: a target is none of the vocabulary (in a graph an InvalidArgumentError).
    """
    logits = tf.cast(logits, tf.float32)
    vocabulary = logits.shape[-1]
    targets = checked_ids(targets, vocabulary, "targets")
    plain = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits)
    if not label_smoothing or vocabulary < 2:
        return plain
    # The mean over all symbols is the mean of their negative log probabilities: the smoothed
    # distribution is a mixture of the two.
    uniform = tf.reduce_logsumexp(logits, axis=-1) - tf.reduce_mean(logits, axis=-1)
    share = label_smoothing * vocabulary / (vocabulary - 1)
    return (1.0 - share) * plain + share * uniform


def stablemax_cross_entropy(logits: Any, targets: Any) -> Any:
    """The cross entropy of each target under stablemax (arXiv 2501.04697), in nats: p = s(x) / Σ
    s(x) with s(x) = x + 1 where x is positive or 0, and 1 / (1 - x) where it is negative.

    Args:
      logits: [..., vocabulary], any floating dtype; computed with in float64.
      targets: [...] ids.

    Returns:
      float32 [...].

    Raises:
      UserError: a target is none of the vocabulary (in a graph an InvalidArgumentError).
    """
    targets = checked_ids(targets, logits.shape[-1], "targets")
    logits = tf.cast(logits, tf.float64)
    # Each side gets what it can take: the gradient of the other one would be NaN times 0.
    positive, negative = tf.maximum(logits, 0.0), tf.minimum(logits, 0.0)
    scores = tf.where(logits >= 0, positive + 1.0, 1.0 / (1.0 - negative))
    right = tf.gather(scores, targets, batch_dims=len(targets.shape))
    return tf.cast(tf.math.log(tf.reduce_sum(scores, -1)) - tf.math.log(right), tf.float32)


def expected_cross_entropy(
    log_probabilities: Any, targets: Any, label_smoothing: float = 0.0
) -> Any:
    """Σ_n p_n L(y_n) of each target, in nats, from Σ_n p_n log softmax(y_n): PonderNet's
    expected loss.

    Args:
      log_probabilities: float32 [..., vocabulary], an expectation, so that nothing is normalised
        again.
      targets: [...] ids.
      label_smoothing: s, as of ``smoothed_cross_entropy``.

    Returns:
      float32 [...]; errors and NaN as of ``smoothed_cross_entropy``.
    """
    vocabulary = log_probabilities.shape[-1]
    targets = checked_ids(targets, vocabulary, "targets")
    plain = -tf.gather(log_probabilities, targets, batch_dims=len(targets.shape))
    if is_compiled_by_xla():
        plain = tf.where(unknown_ids(targets, vocabulary), float("nan"), plain)
    if not label_smoothing or vocabulary < 2:
        return plain
    share = label_smoothing * vocabulary / (vocabulary - 1)
    return (1.0 - share) * plain - share * tf.reduce_mean(log_probabilities, axis=-1)


def target_weights(features: Mapping[str, Any]) -> Any:
    """The weight of each target: 1 for a symbol or an example, 0 for padding.

    Args:
      features: "targets" [batch, target_length] or [batch], and "weight" [batch], 0 for examples
        that only fill up a batch.

    Returns:
      float32 of the targets' shape.
    """
    targets = features["targets"]
    weight = tf.cast(features["weight"], tf.float32)
    if targets.shape.rank == 1:
        return weight
    return tf.cast(tf.not_equal(targets, PADDING_ID), tf.float32) * weight[:, tf.newaxis]


def ponder_sums(details: Any, weight: Any, max_steps: int) -> tuple[Any, Any, Any]:
    """Adds up what dynamic halting cost, over the encoder and the decoder.

    Args:
      details: ModelDetails; a part of fixed depth (None, or without halting probabilities) is left
        out. Each other part has ponder_times N, remainders R and mask, all [batch, length]. The
        ponder cost of a position is N + R (Graves, arXiv 1603.08983, equation 14), of pondernet the
        divergence from its prior.
      weight: [batch], 0 for examples that only fill up a batch.
      max_steps: upper bound of N.

    Returns:
      ponder costs [parts], summed over the positions; the positions that count [parts]; and the
      histogram of N over both parts, [max_steps + 1]. All float32.
    """
    costs, positions, histogram = [], [], tf.zeros([max_steps + 1])
    for part in _parts(details):
        mask = tf.cast(part.mask, tf.float32) * weight[:, tf.newaxis]
        times = tf.cast(part.ponder_times, tf.float32)
        costs.append(tf.reduce_sum(mask * tf.cast(part.position_costs(), tf.float32)))
        positions.append(tf.reduce_sum(mask))
        same = tf.equal(
            tf.cast(tf.round(times), tf.int32)[..., tf.newaxis], tf.range(max_steps + 1)
        )
        histogram += tf.reduce_sum(tf.cast(same, tf.float32) * mask[..., tf.newaxis], axis=[0, 1])
    return tf.stack(costs), tf.stack(positions), tf.stop_gradient(histogram)


def _parts(details: Any) -> list[Any]:
    return [
        part
        for part in (details.encoder, details.decoder)
        if part is not None and part.halting_probabilities is not None
    ]
