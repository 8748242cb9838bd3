"""A model that decodes with the large matrices of its decoder in int8.

::

    decoder = decoder_in(model, "int8")    # the model itself, if it has to stay in float
    decode(decoder, features, config)

Inputs are encoded in float. The weights are those that the model has when the decoder is made.
"""

from typing import Any

import tensorflow as tf

from ut_tf.errors import UserError, marked
from ut_tf.layers.int8 import has_exact_sums, with_int8_kernels
from ut_tf.notices import warn
from ut_tf.search.contract import CONSTANTS, Cache, DecoderModel

_INEXACT = "this processor has no int8 products with exact sums (avx512_vnni, avx_vnni)"


def decoder_in(model: Any, compute_type: str) -> Any:
    """The decoder of a model in a ``DecodeConfig.compute_type``; with a warning the model itself,
    where nothing is decoded or the processor has no int8 products.

    Raises:
      UserError: the model computes whole prefixes, whose weights stay in float.
    """
    if compute_type != "int8":
        return model
    if model.spec.targets != "tokens":
        warn("compute_type=int8: this model decodes nothing, so it computes in float.")
        return model
    if not model.supports_incremental_decoding:
        raise UserError(
            f"compute_type=int8: this {type(model).__name__} cannot decode incrementally, so its"
            " products stay in float: use compute_type=float."
        )
    if not sums_are_exact_here():
        warn(f"compute_type=int8: {_INEXACT}, so decoding computes in float.")
        return model
    return Int8Decoder(model)


def sums_are_exact_here() -> bool:
    """Whether this processor has int8 products with exact sums."""
    with tf.init_scope():
        return bool(has_exact_sums())


class Int8Decoder(DecoderModel):
    """A decoder model with its weights in int8. In a graph it checks the processor that runs it,
    which may be another than the one that exported it.

    Args:
      model: a built model with ``prepare_decoding``.
      least_size: elements of the smallest matrix that is rounded; None: as is fast.
    """

    def __init__(self, model: Any, least_size: int | None = None) -> None:
        self.model = model
        options = {} if least_size is None else {"least_size": least_size}
        self.weights = with_int8_kernels(model.prepare_decoding(), **options)

    def __call__(self, features: dict[str, Any], training: bool = False) -> Any:
        """Logits of the whole sequences, in float."""
        return self.model(features, training=training)

    @property
    def supports_incremental_decoding(self) -> bool:
        return True

    def start_decoding(self, features: dict[str, Any], capacity: Any, beam_size: int = 1) -> Cache:
        sentence = f"compute_type=int8: {_INEXACT}: export with compute_type=float to run here."
        check = tf.debugging.Assert(has_exact_sums(), [marked(sentence)])
        with tf.control_dependencies([] if check is None else [check]):
            features = tf.nest.map_structure(tf.identity, features)
        cache: Cache = self.model.start_decoding(features, capacity, beam_size)
        return {**cache, CONSTANTS: self.weights}

    def decode_step(self, symbols: Any, step: Any, cache: Cache) -> tuple[Any, Cache]:
        result: tuple[Any, Cache] = self.model.decode_step(symbols, step, cache)
        return result

    def reorder_cache(self, cache: Cache, parents: Any) -> Cache:
        reordered: Cache = self.model.reorder_cache(cache, parents)
        return reordered

    def resize_cache(self, cache: Cache, kept: Any, capacity: Any) -> Cache:
        resized: Cache = self.model.resize_cache(cache, kept, capacity)
        return resized
