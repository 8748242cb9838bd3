"""Both ends of a model: what embeds inputs and targets, what makes logits of states, and how
outputs are written.

How it is used, by a model with `network`, `spec` and a decoder or a classifier of its own::

    check_shape("LSTMModel", spec)
    # tokens or facts; None for a language model
    self.input_embedding = make_input_embedding(network, spec, policy)
    self.target_embedding = make_target_embedding(network, spec, self.input_embedding, policy)
    # None: logits by the target embedding
    self.output_projection = make_output_projection(network, spec, policy)
    # instead of these two, without a decoder
    self.classifier = make_classifier(network, spec, policy)

How it works: inputs and targets share one matrix, and the logits are products with it, where
``shared_embedding`` says so and their vocabularies are the same. What is None in one model and a
layer in another is decided here, for all models alike.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ut_tf.config.network import NetworkConfig
from ut_tf.errors import UserError
from ut_tf.layers.embedding import FactEmbedding, TokenEmbedding
from ut_tf.layers.linear import Linear
from ut_tf.layers.pointer import WordPointer
from ut_tf.problem_spec import ProblemSpec
from ut_tf.search.config import DecodeConfig
from ut_tf.search.strategies import Decoded, decode


def check_shape(model: str, spec: ProblemSpec) -> None:
    """Raises a UserError where no model of this kind can answer; `model` names it."""
    if spec.inputs == "none" and spec.targets != "tokens":
        raise UserError(
            f"a {model} with inputs='none' and targets={spec.targets!r} has nothing to read: give"
            " it inputs."
        )
    if spec.inputs == "facts" and spec.targets == "word":
        raise UserError(
            f"a {model} points at words of tokens, not of facts: give inputs='tokens' with"
            " targets='word'."
        )


def _shares(network: NetworkConfig, spec: ProblemSpec) -> bool:
    return network.shared_embedding and spec.shared_vocab and spec.inputs == "tokens"


def make_input_embedding(network: NetworkConfig, spec: ProblemSpec, policy: Any) -> Any:
    """Returns the embedder of the inputs, or None for a language model."""
    if spec.inputs == "facts":
        return FactEmbedding(
            spec.input_vocab_size, spec.max_words, network, name="input_embedding", dtype=policy
        )
    if spec.inputs == "tokens":
        name = (
            "shared_embedding"
            if _shares(network, spec) and spec.targets == "tokens"
            else "input_embedding"
        )
        return TokenEmbedding(spec.input_vocab_size, network, name=name, dtype=policy)
    return None


def make_target_embedding(
    network: NetworkConfig, spec: ProblemSpec, input_embedding: Any, policy: Any
) -> TokenEmbedding:
    """Returns the embedder of the targets, which is that of the inputs where they share it."""
    if _shares(network, spec):
        shared: TokenEmbedding = input_embedding
        return shared
    return TokenEmbedding(spec.target_vocab_size, network, name="target_embedding", dtype=policy)


def make_output_projection(network: NetworkConfig, spec: ProblemSpec, policy: Any) -> Linear | None:
    """Returns what makes logits of a decoder's states, or None where the target embedding's matrix
    does.
    """
    if network.shared_embedding:
        return None
    return Linear(
        spec.target_vocab_size, False, network.kernel_init, name="output_projection", dtype=policy
    )


def make_classifier(network: NetworkConfig, spec: ProblemSpec, policy: Any) -> Linear | WordPointer:
    """Returns the head of a model without a decoder: over classes, or over the words of
    the inputs.
    """
    if spec.targets == "word":
        return WordPointer(
            network.hidden_size,
            spec.input_vocab_size,
            network.kernel_init,
            name="pointer",
            dtype=policy,
        )
    return Linear(
        spec.target_vocab_size, True, network.kernel_init, name="classifier", dtype=policy
    )


def summary(network: NetworkConfig, states: Any, mask: Any) -> Any:
    """Returns what a classifier reads, float32 [batch, hidden_size], of states [batch, length,
    hidden_size], mask [batch, length].
    """
    states = tf.cast(states, tf.float32)
    if network.summary == "mean":
        return (
            tf.reduce_sum(states * mask[..., None], 1)
            / tf.maximum(tf.reduce_sum(mask, 1), 1.0)[:, None]
        )
    last = tf.cast(tf.maximum(tf.reduce_sum(mask, 1) - 1.0, 0.0), tf.int32)
    return tf.gather(states, last, batch_dims=1)


def token_logits(
    states: Any, target_embedding: TokenEmbedding, output_projection: Linear | None
) -> Any:
    """Returns float32 [..., target_vocab_size] of a decoder's states [..., hidden_size]."""
    if output_projection is None:
        return target_embedding.logits(states)
    return tf.cast(output_projection(states), tf.float32)


def prepare_ends(
    target_embedding: TokenEmbedding, output_projection: Linear | None
) -> dict[str, Any]:
    """Returns the weights "embedding", for ``TokenEmbedding.step``, and "logits", for ``affine``,
    of incremental decoding.
    """
    logits = (
        target_embedding.prepare_logits()
        if output_projection is None
        else output_projection.prepare()
    )
    return {"embedding": target_embedding.prepare(), "logits": logits}


def write_outputs(
    model: Any, features: dict[str, Any], seed: Any, options: dict[str, Any]
) -> Decoded:
    """Writes outputs for `features`.

    Args:
      model: with ``spec`` and what ``decode`` asks of it.
      features: {"inputs": ...} as in the model's call; for a language model {"batch_size": int32
        []}, or {"prefix": int32 [batch, length]}.
      seed: of sampling; int or int32 [2].
      options: fields of ``DecodeConfig``: beam_size, alpha, n_best, extra_length, sampling,
        temperature …

    Returns:
      ``Decoded``: symbols int32 [batch, n_best, length], padded with 0 behind the end symbol, and
        scores float32 [batch, n_best], best
      first.

    Raises:
      UserError: an option cannot be, or features are missing; or the model is a classifier, which
        writes nothing.
    """
    reads = model.spec.inputs != "none"
    if model.spec.targets != "tokens":
        raise UserError(
            "a classifier writes no sequence: call the model for the logits of its classes."
        )
    if reads and "inputs" not in features:
        raise UserError(
            f"this {type(model).__name__} reads inputs, and the features have"
            f" {', '.join(features) or 'none'}: give inputs."
        )
    if not reads and not features.keys() & {"batch_size", "prefix"}:
        raise UserError(
            "a language model needs batch_size or prefix, which say how many outputs to write."
        )
    written: Decoded = decode(model, features, DecodeConfig.from_dict(options), seed)
    return written
