"""Memory Transformers (arXiv 2006.11527): learned vectors stand in front of the sequence.

::

    spec = ProblemSpec("tokens", "tokens", 12, 12, shared_vocab=True)
    model = MemTransformer(MemoryTransformerConfig(num_layers=6, memory_size=10), spec)
    logits = model({"inputs": inputs, "targets": targets})  # [batch, target_length, 12]

The encoder is a ``MemoryStack`` or a ``BottleneckStack``. The decoder is a Transformer's, which
attends over memory and symbols of the encoder. A classifier or a pointer looks at the symbols
alone. A language model has its memory in front of the targets, where every symbol sees all of it.
"""

from typing import Any, ClassVar

import keras
import tensorflow as tf

from ut_tf.errors import UserError
from ut_tf.layers.key_value_cache import next_cache_position
from ut_tf.models.attention_model import AttentionModel
from ut_tf.models.interfaces import CallOptions, Encoded
from ut_tf.models.memory_transformer.config import MemoryTransformerConfig
from ut_tf.models.memory_transformer.memory import prepend, prepend_identity
from ut_tf.models.memory_transformer.parts import make_bottleneck_stack, make_memory_stack
from ut_tf.models.parts_from_config import make_layer_stack


@keras.saving.register_keras_serializable("ut_tf")
class MemTransformer(AttentionModel):
    """A Transformer with memory for a problem's inputs and targets; arguments and call as in
    ``AttentionModel``.
    """

    config_class: ClassVar[type] = MemoryTransformerConfig

    def make_stack(self, causal: bool, with_memory: bool, name: str) -> Any:
        """A stack with memory for an encoder or a language model, and without for a decoder, which
        reads the encoder's.
        """
        options = {"name": name, "dtype": self.dtype_policy}
        if with_memory:
            network = self.network
            return make_layer_stack(network, network.num_layers, causal, with_memory, **options)
        return make_memory_stack(
            self.network, causal, returns_memory=self.has_decoder and not causal, **options
        )

    @property
    def cache_offset(self) -> int:
        return 0 if self.has_encoder else self.decoder.memory.size(training=False)

    def start_decoding(
        self, features: dict[str, Any], capacity: Any, beam_size: int = 1
    ) -> dict[str, Any]:
        cache = super().start_decoding(features, capacity, beam_size)
        if self.has_encoder:
            return cache
        network, weights = self.network, cache["constants"]["decoder"]
        rows = tf.cast(features["batch_size"], tf.int32) * beam_size
        head_size = network.width_of_head

        def append(number: Any, visible: Any, blocks: Any) -> tuple[Any, Any, Any]:
            cache_position, visible = next_cache_position(
                visible, number, network.num_heads, head_size, self.compute_dtype
            )
            return (
                number + 1,
                visible,
                self.decoder.append_memory(number, rows, weights, blocks, cache_position),
            )

        start = (tf.constant(0), cache["visible"], cache["blocks"])
        _, visible, blocks = tf.while_loop(
            lambda number, *_: number < self.cache_offset, append, start
        )
        return {**cache, "visible": visible, "blocks": blocks}

    def encode(self, features: dict[str, Any], options: CallOptions) -> Encoded:
        return _with_memory(self, super().encode(features, options), options)


@keras.saving.register_keras_serializable("ut_tf")
class MemBottleneckTransformer(AttentionModel):
    """A Transformer whose encoder's symbols see each other through the memory only; arguments and
    call as in ``AttentionModel``.

    Raises:
      UserError: the network asks, without a decoder, for a relative bias, or the problem for a
        language model.
    """

    config_class: ClassVar[type] = MemoryTransformerConfig
    encoder_queries_are_positions: ClassVar[bool] = False

    def make_stack(self, causal: bool, with_memory: bool, name: str) -> Any:
        """A stack with a bottleneck for an encoder, and a Transformer's for a decoder."""
        options = {"name": name, "dtype": self.dtype_policy}
        if with_memory:
            network = self.network
            return make_layer_stack(network, network.num_layers, causal, with_memory, **options)
        if causal:
            raise UserError(
                "the model mem_bottleneck_transformer writes all of a sequence into its memory"
                " before a symbol reads it, so a symbol of a language model would see those behind"
                " it: use `model`=mem_transformer."
            )
        if self.network.relative_bias and not self.has_decoder:
            raise UserError(
                "symbols of a mem_bottleneck_transformer do not attend to each other, and memory"
                f" has no position, so relative_bias={self.network.relative_bias} has no place in"
                " its encoder: set it to 0, or use `model`=mem_transformer."
            )
        return make_bottleneck_stack(self.network, returns_memory=self.has_decoder, **options)

    def encode(self, features: dict[str, Any], options: CallOptions) -> Encoded:
        return _with_memory(self, super().encode(features, options), options)


def _with_memory(model: AttentionModel, encoded: Encoded, options: CallOptions) -> Encoded:
    """The encoded states with a decoder's mask and rotation of memory and symbols, as long as they
    are.
    """
    if not model.has_decoder:
        return encoded
    size = model.encoder.memory.size(options.training)
    rotation = prepend_identity(encoded.extra.rotation, size)
    return encoded._replace(
        mask=prepend(encoded.mask, size, 1.0, 1), extra=encoded.extra._replace(rotation=rotation)
    )
