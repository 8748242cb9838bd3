"""Outputs that a model writes for a user's features."""

from collections.abc import Mapping
from typing import Any

from ut_tf.errors import UserError
from ut_tf.models.features import checked_features, packed_features
from ut_tf.search.config import DecodeConfig
from ut_tf.search.strategies import Decoded, decode


def generate(model: Any, features: Any, seed: Any, options: dict[str, Any]) -> Decoded:
    """Writes outputs of an ``EncoderDecoder``.

    Args:
      model: with ``spec`` and what a ``DecoderModel`` offers.
      features: {"inputs": ...} as in the model's call, or these inputs alone; for a language model
        {"batch_size": int32 []}, or {"prefix": int32 [batch, length]}.
      seed: of sampling; int or int32 [2].
      options: fields of ``DecodeConfig``: beam_size, alpha, n_best, extra_length, sampling,
        temperature …

    Returns:
      ``Decoded``: symbols int32 [batch, n_best, length], padded with 0 behind the end symbol, and
      scores float32 [batch, n_best], best first.

    Raises:
      UserError: an option is out of range, or features are missing or hold ids that are none of
        the vocabulary; or the model has no decoder.
    """
    reads = model.spec.inputs != "none"
    if model.spec.targets != "tokens":
        raise UserError(
            f"a model of targets={model.spec.targets!r} writes no sequence: call it for its logits."
        )
    if not isinstance(features, Mapping):
        features = {"inputs": features} if reads else {}
    if reads and "inputs" not in features:
        raise UserError(
            f"this {type(model).__name__} reads inputs, and the `features` have"
            f" {', '.join(features) or 'none'}: give inputs."
        )
    if not reads and not features.keys() & {"batch_size", "prefix"}:
        raise UserError(
            "a language model needs batch_size or prefix among the `features`, which say how many"
            " outputs to write: give one of them."
        )
    features, _ = packed_features(checked_features(features, model.spec), model.spec)
    decoded: Decoded = decode(model, features, DecodeConfig.from_dict(options), seed)
    return decoded
