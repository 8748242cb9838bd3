"""The heads of a model, made from its configuration: they turn states into logits.

A decoder's head is a projection, or with ``shared_embedding`` the product with the target
embedding's table. A model without a decoder has a classifier, of an example or of each position, or
a pointer at words of the inputs.
"""

from typing import Any

import tensorflow as tf

from ut_tf.layers.embedding import TokenEmbedding
from ut_tf.layers.linear import Linear
from ut_tf.layers.pointer import WordPointer
from ut_tf.models.interfaces import Encoded
from ut_tf.problem_spec import ProblemSpec

OUTPUT_PROJECTION = "output_projection"
CLASSIFIER = "classifier"
LOGITS_LAYERS = (OUTPUT_PROJECTION, CLASSIFIER)
"""The names of the layers whose outputs are logits, beside a shared embedding and a pointer."""


def make_output_projection(config: Any, spec: ProblemSpec, policy: str) -> Linear | None:
    """The projection of a decoder's states; None where the target embedding's table is used."""
    if config.shared_embedding:
        return None
    return Linear(
        spec.target_vocab_size, False, config.kernel_init, name=OUTPUT_PROJECTION, dtype=policy
    )


def make_classifier(config: Any, spec: ProblemSpec, policy: str) -> Linear | WordPointer:
    """The head of a model without a decoder: over classes or a position's ids, or over words of the
    inputs.
    """
    if spec.targets == "word":
        return WordPointer(
            config.hidden_size,
            spec.input_vocab_size,
            config.kernel_init,
            name="pointer",
            dtype=policy,
        )
    return Linear(spec.target_vocab_size, True, config.kernel_init, name=CLASSIFIER, dtype=policy)


def last_state(states: Any, mask: Any) -> Any:
    """The state of each example's last symbol: float32 [batch, hidden_size] of states [batch,
    length, hidden_size] and mask [batch, length].
    """
    last = tf.cast(tf.maximum(tf.reduce_sum(mask, 1) - 1.0, 0.0), tf.int32)
    return tf.gather(tf.cast(states, tf.float32), last, batch_dims=1)


def mean_state(states: Any, mask: Any) -> Any:
    """The mean over the positions that are not padding; arguments and result are those of
    ``last_state``.
    """
    total = tf.reduce_sum(tf.cast(states, tf.float32) * mask[..., None], 1)
    return total / tf.maximum(tf.reduce_sum(mask, 1), 1.0)[:, None]


def class_logits(
    classifier: Linear | WordPointer, encoded: Encoded, states: Any, ids: Any, summary: str
) -> Any:
    """The logits of a model without a decoder.

    Args:
      classifier: from ``make_classifier``.
      encoded: the encoder's result.
      states: [batch, length, hidden_size], the encoder's, after some step.
      ids: int32 [batch, length], the words that a pointer may answer with.
      summary: "last" or "mean": what a classifier reads of the states.

    Returns:
      float32 [batch, classes], or of words [batch, vocab_size].
    """
    if isinstance(classifier, WordPointer):
        return classifier(states, ids, encoded.mask)
    if summary == "mean":
        read = mean_state(states, encoded.mask)
    else:
        read = last_state(states, encoded.mask) if encoded.summary is None else encoded.summary
    return tf.cast(classifier(read), tf.float32)


def position_logits(classifier: Linear, states: Any) -> Any:
    """Float32 [..., target_vocab_size] of the states [..., hidden_size] of positions that are each
    answered for themselves.
    """
    return tf.cast(classifier(states), tf.float32)


def token_logits(
    states: Any, target_embedding: TokenEmbedding, output_projection: Linear | None
) -> Any:
    """Float32 [..., target_vocab_size] of a decoder's states [..., hidden_size]."""
    if output_projection is None:
        return target_embedding.logits(states)
    return tf.cast(output_projection(states), tf.float32)


def prepare_logits(
    target_embedding: TokenEmbedding, output_projection: Linear | None
) -> dict[str, Any]:
    """The weights with which ``affine`` makes logits in incremental decoding."""
    if output_projection is None:
        return target_embedding.prepare_logits()
    return output_projection.prepare()
