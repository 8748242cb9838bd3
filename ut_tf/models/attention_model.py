"""The base of models whose encoder and decoder are stacks of attention blocks.

How it is used::

    class Transformer(AttentionModel):
        config_class = TransformerConfig
        def make_stack(self, causal, with_memory, name): ...

``layers/contracts.py`` says what a stack is.
"""

from typing import Any

import keras
import tensorflow as tf

from ut_tf.layers.attention_weights import padding_bias
from ut_tf.layers.contracts import PositionInputs, Stack, StackInputs
from ut_tf.layers.key_value_cache import next_cache_position
from ut_tf.layers.positions import Positions
from ut_tf.layers.recurrence_details import RecurrenceDetails
from ut_tf.models.attention_decoding import empty_cache, reordered, resized
from ut_tf.models.attention_positions import AttentionPositions, InputPositions
from ut_tf.models.encoder_decoder import EncoderDecoder
from ut_tf.models.interfaces import CallOptions, Encoded
from ut_tf.models.parts_from_config import make_part, make_position_encoding
from ut_tf.search.contract import Cache
from ut_tf.symbols import FIRST_SYMBOL_ID


def _answering(options: CallOptions) -> dict[str, Any]:
    """Returns the fields of ``StackInputs`` that only the stack which is answered from gets."""
    names = ("carry", "depth", "every_step", "fresh")
    return {name: getattr(options, name) for name in names}


class AttentionModel(EncoderDecoder):
    """An ``EncoderDecoder`` of stacks of attention blocks, which see all earlier positions.

    Arguments and call are those of ``EncoderDecoder``. Besides its parts the model has positions on
    both sides, optionally a learned start symbol and a vector of the target space in the encoder,
    and a cache of keys and values.
    """

    feedback: Any = None
    """``Linear`` of the probabilities that each position answers with after a step, or None."""

    def make_stack(self, causal: bool, with_memory: bool, name: str) -> Stack:
        """Makes the ``contracts.Stack`` of the encoder or the decoder.

        Args:
          causal: whether positions see only earlier ones (a decoder).
          with_memory: whether its blocks attend over an encoder's states.
          name: of the layer.
        """
        raise NotImplementedError

    def make_encoder(self) -> Any:
        return self.make_stack(causal=False, with_memory=False, name="encoder")

    def make_decoder(self) -> Any:
        return self.make_stack(causal=True, with_memory=self.has_encoder, name="decoder")

    def example_steps(self, lengths: Any, training: bool) -> Any | None:
        """Returns int32 [batch], the depth of each example that follows from its length (float32
        [batch]), or None; default: None.
        """
        return None

    def example_keys(self, ids: Any, options: CallOptions) -> Any:
        """Returns int64 [batch], numbers of examples by their ids, from which states are drawn;
        default: None.
        """

    @property
    def cache_offset(self) -> int:
        """Entries of the decoder's cache before the first symbol's (a memory's)."""
        return 0

    @property
    def learns_target_start(self) -> bool:
        """Whether a learned vector starts the decoder: only where no position is added to its first
        input.
        """
        learned = self.network.target_start == "learned"
        return learned and not self.position_encoding.adds_to_states

    def mistakes(self) -> list[str]:
        inputs, mistakes = self.spec.inputs, super().mistakes()
        for name, what in (
            ("position_separator", "is the id of a symbol"),
            ("position_digits", "counts ids"),
        ):
            value = getattr(self.network, name)
            if value and inputs != "tokens":
                mistakes.append(
                    f"{name}={value} {what} among the inputs, and this problem has"
                    f" inputs={inputs!r}: set it to 0"
                )
        digits, symbols = self.network.position_digits, self.spec.input_vocab_size - FIRST_SYMBOL_ID
        if inputs == "tokens" and digits > symbols:
            mistakes.append(
                f"position_digits={digits} is more than the {symbols} symbols of this problem's"
                " inputs: set it to the number of those that are digits, or to 0"
            )
        return mistakes

    def make_parts(self) -> None:
        network = self.network
        self.position_encoding = make_position_encoding(network)
        super().make_parts()
        self.positions = make_part(Positions, network, name="positions", dtype="float32")
        self.position_table = self.position_encoding.table
        self._position_inputs = AttentionPositions(network, self.positions, self.position_encoding)

    def build_parts(self) -> None:
        shape = (None, None, self.network.hidden_size)
        self.target_space = self.start_symbol = None
        if self.position_table is not None:
            self.position_table.build(shape)
        if self.has_encoder:
            self.input_embedding.build((None, None))
            self.encoder.build(shape)
            if self.network.input_start_symbol:
                # As large as an embedded symbol: embeddings have the standard deviation d^-0.5 and
                # are scaled by sqrt(d).
                self.start_symbol = self._vector("start_symbol", 1.0)
            if self.network.target_space_embedding:
                self.target_space = self._vector("target_space", self.network.hidden_size**-0.5)
        super().build_parts()

    def _vector(self, name: str, stddev: float) -> Any:
        initializer = keras.initializers.RandomNormal(stddev=stddev)
        return self.add_weight(
            shape=(self.network.hidden_size,), initializer=initializer, name=name, autocast=False
        )

    # Encoder and decoder.

    def encode(self, features: dict[str, Any], options: CallOptions) -> Encoded:
        ids, training = features["inputs"], options.training
        symbols = self.input_embedding.mask(ids)
        lengths, mask = tf.reduce_sum(symbols, 1), self._started(symbols)
        inputs = self._with_start_symbol(self.input_embedding(ids, training=training))
        if self.target_space is not None:
            inputs += tf.cast(self.target_space, inputs.dtype)
        # Positions may count on from the last input symbol through the targets, and from 0 through
        # one behind.
        assigned = self.positions(
            batch_size=tf.shape(ids)[0],
            size=tf.shape(mask)[1] + self._target_length(features) + 2,
            training=training,
        )
        tokens = None if self.spec.inputs == "facts" else self.input_ids(features)
        signal, context = self._position_inputs.encoder_context(assigned, mask, lengths, tokens)
        steps = self.example_steps(lengths, training)
        head = self.position_logits if self.spec.targets == "aligned" else None
        states, details = self.encoder(
            self.input_dropout(inputs, training=training),
            given=StackInputs(
                mask,
                signal,
                context,
                steps,
                options.return_attention,
                options.observer,
                head,
                options.update,
                puzzles=options.puzzles,
                keys=self.example_keys(ids, options),
                feedback=self.feedback,
                exit_steps=options.exit_steps,
                **({} if self.has_decoder else _answering(options)),
                to_depth=options.to_depth,
            ),
            training=training,
        )
        extra = InputPositions(lengths, assigned, context.rotation, steps)
        return Encoded(states, mask, extra=extra, details=details)

    def decode(
        self, targets: Any, encoded: Encoded | None, options: CallOptions
    ) -> tuple[Any, RecurrenceDetails | None]:
        inputs = self.embed_targets(targets, options.training)
        return self.decode_embedded(inputs, targets, encoded, options)

    def decode_embedded(
        self, inputs: Any, targets: Any, encoded: Encoded | None, options: CallOptions
    ) -> tuple[Any, RecurrenceDetails | None]:
        """Decodes inputs [batch, target_length, hidden_size], which stand for those of the targets;
        result as of ``decode``.
        """
        mask = self.target_embedding.mask(targets)
        if encoded is None:
            size = tf.shape(targets)
            assigned = self.positions(
                batch_size=size[0], size=size[1] + 2, training=options.training
            )
            signal, context = self._position_inputs.decoder_context(assigned, mask, None)
        else:
            read: InputPositions = encoded.extra
            signal, context = self._position_inputs.decoder_context(
                read.assigned, mask, read.lengths
            )
            keys, values = self.decoder.project_memory(encoded.states, read.rotation)
            context = context._replace(
                memory_keys=keys,
                memory_values=values,
                memory_bias=padding_bias(encoded.mask),
                memory_rotation=context.rotation,
                memory_scale=self._position_inputs.memory_scale(encoded.mask),
            )
        given = StackInputs(
            mask,
            signal,
            context,
            None if encoded is None else encoded.extra.steps,
            options.return_attention,
            options.observer,
            self.token_logits,
            options.update,
            keys=self.example_keys(targets[:, :0], options),
            **_answering(options),
            to_depth=options.to_depth,
        )
        result: tuple[Any, RecurrenceDetails] = self.decoder(
            inputs, given=given, training=options.training
        )
        return result

    def input_ids(self, features: dict[str, Any]) -> Any:
        ids = features["inputs"]
        return ids if self.start_symbol is None else tf.pad(ids, [[0, 0], [1, 0]])

    def counted_positions(self, features: dict[str, Any]) -> tuple[Any, ...]:
        masks = super().counted_positions(features)
        return (self._started(masks[0]), *masks[1:]) if self.has_encoder else masks

    def _started(self, mask: Any) -> Any:
        """The mask [batch, length] with the start symbol's position before it, if there is one."""
        if self.start_symbol is None:
            return mask
        return tf.concat([tf.ones_like(mask[:, :1]), mask], 1)

    def _with_start_symbol(self, states: Any) -> Any:
        if self.start_symbol is None:
            return states
        symbol = tf.cast(self.start_symbol, states.dtype)[None, None] * tf.ones_like(states[:, :1])
        return tf.concat([symbol, states], 1)

    def _target_length(self, features: dict[str, Any]) -> Any:
        known = self.has_decoder and "targets" in features
        return tf.shape(features["targets"])[1] if known else 0

    # Incremental decoding.

    def start_decoding(self, features: dict[str, Any], capacity: Any, beam_size: int = 1) -> Cache:
        if self.has_encoder:
            batch_size = tf.shape(features["inputs"])[0]
        else:
            batch_size = tf.cast(features["batch_size"], tf.int32)
        cache = {
            "constants": self.prepare_decoding(),
            **empty_cache(self.decoder, batch_size, capacity + self.cache_offset, beam_size),
        }
        if not self.has_encoder:
            return cache
        encoded = self.encode({"inputs": features["inputs"]}, CallOptions())
        keys, values = self.decoder.project_memory(encoded.states, encoded.extra.rotation)
        memory = {"keys": keys, "values": values, "bias": padding_bias(encoded.mask)}
        scale = self._position_inputs.memory_scale(encoded.mask)
        if scale is not None:
            memory["scale"] = scale
        return {**cache, "examples": {"memory": memory, "lengths": encoded.extra.lengths}}

    def decode_step(self, symbols: Any, step: Any, cache: Cache) -> tuple[Any, Cache]:
        weights = cache["constants"]
        cache_position, visible = next_cache_position(
            cache["visible"],
            step + self.cache_offset,
            self.network.num_heads,
            self.network.width_of_head,
            self.compute_dtype,
        )
        signal, context = self._position_inputs.step_context(
            step, cache_position.beam_size, cache.get("examples", {}), weights.get("positions")
        )
        inputs = self.embed_step(symbols, step, weights)
        given = PositionInputs(
            cache_position,
            signal,
            context,
            lambda states: self.step_logits(states, weights),
            self.example_keys(symbols[:, None][:, :0], CallOptions()),
        )
        states, blocks = self.decoder.step(inputs, weights["decoder"], cache["blocks"], given)
        new = {**cache, "visible": visible, "blocks": blocks}
        return self.step_logits(states, weights), new

    def reorder_cache(self, cache: Cache, parents: Any) -> Cache:
        return reordered(cache, parents)

    def resize_cache(self, cache: Cache, kept: Any, capacity: Any) -> Cache:
        return resized(cache, kept, capacity + self.cache_offset)

    def prepare_decoding(self) -> dict[str, Any]:
        return {**super().prepare_decoding(), **self._position_inputs.prepare_table()}
