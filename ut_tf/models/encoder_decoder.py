"""What sequence models share: embedder, a stack of blocks on either side, head; encoder-decoder,
encoder-only and decoder-only.

How it is used: a model says what its stacks are made of, and is then called, trained and decoded
like every other::

    class UniversalTransformer(SequenceModel):
        def make_stack(self, causal, with_memory, name): ...

What a problem says of its inputs and targets decides the shape of the whole: inputs tokens or
facts, targets tokens: encoder and decoder. Targets one class, or a word of the inputs: encoder and
a classifier, or a pointer. No inputs: a language model. A model is built when it is constructed, so
that weights can be loaded at once.

A stack is a Keras layer ``stack(inputs, symbol_mask, positions, context, steps, training,
return_attention, observer)`` that returns (states, RecurrenceDetails) and has ``project_memory``,
``prepare``, ``empty_caches`` and ``step`` for its place in a decoder, as ``Recurrence`` and
``LayerStack`` do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import keras
import tensorflow as tf

from ut_tf.config.network import NetworkConfig
from ut_tf.config.unused import refuse_needless
from ut_tf.errors import UserError
from ut_tf.layers.attention import causal_bias, length_scale, padding_bias
from ut_tf.layers.block import BlockContext, PositionContext
from ut_tf.layers.cache import MASKED, extended, next_cache_position, nothing_visible
from ut_tf.layers.coordinates import head_rotations
from ut_tf.layers.details import Observer, RecurrenceDetails
from ut_tf.layers.dropout import Dropout
from ut_tf.layers.embedding import TargetStart
from ut_tf.layers.linear import affine
from ut_tf.layers.positions import Positions, PositionTable
from ut_tf.models.exportable_model import ExportableModel
from ut_tf.models.heads import (
    check_shape,
    make_classifier,
    make_input_embedding,
    make_output_projection,
    make_target_embedding,
    prepare_ends,
    summary,
    token_logits,
    write_outputs,
)
from ut_tf.models.universal_transformer.halting.halting import ponder_weight
from ut_tf.models.universal_transformer.halting.pondernet import expected_scores
from ut_tf.problem_spec import ProblemSpec
from ut_tf.search.strategies import Decoded


class ModelDetails(NamedTuple):
    """What the encoder's and the decoder's stack did; None where the model has none."""

    encoder: RecurrenceDetails | None
    decoder: RecurrenceDetails | None


class _Encoded(NamedTuple):
    """An encoder's result.

    Fields:
      states: [batch, length, hidden_size], the start symbol's among them where there is one.
      mask: float32 [batch, length].
      lengths: float32 [batch], symbols of the inputs without the start symbol.
      assigned: positions, from ``Positions``.
      rotation: of the inputs' positions, or None.
      steps: int32 [batch], depth where it follows from the length, or None.
      details: RecurrenceDetails.
    """

    states: Any
    mask: Any
    lengths: Any
    assigned: Any
    rotation: tuple[Any, Any] | None
    steps: Any
    details: RecurrenceDetails


class SequenceModel(ExportableModel):
    """A model of a problem's inputs and targets; subclasses say by ``make_stack`` what its encoder
    and decoder are.

    Args:
      network: NetworkConfig.
      spec: ProblemSpec.

    Call arguments:
      features: {"inputs": int32 [batch, length] (tokens) or [batch, rows, max_words] (facts),
        "targets": int32 [batch, target_length]}, without "inputs" for a language model, without
        "targets" for a classifier. Targets are shifted right inside. Other keys are ignored.
      training: whether to drop, and which depth and offsets hold.
      return_details: whether to return (logits, ModelDetails).
      return_attention: the same, with the attention weights of every step in the details.
      observer: called inside every recurrent step with a ``recurrence.StepView``.

    Returns:
      float32 logits, [batch, target_length, target_vocab_size], [batch, classes] or, of words,
      [batch, input_vocab_size]; padding ones where the targets are padded. Under
      halting="pondernet", in training: the expected log-probabilities Σ_n p_n log softmax(y_n) over
      the steps, whose cross entropy, not normalised again, is PonderNet's expected loss.

    Raises:
      UserError: the network asks for what the model has no use for, or the spec for what it cannot
        answer.

    ``model.losses`` holds the weighted ponder cost after a call under dynamic halting (of pondernet
    in training only).
    """

    catalogue_name: ClassVar[str] = ""
    """The registered name, where ``needless_fields.py`` knows what the model has no use for."""

    def __init__(self, network: NetworkConfig, spec: ProblemSpec, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.network = NetworkConfig.from_dict(network) if isinstance(network, dict) else network
        self.spec = ProblemSpec.from_dict(spec) if isinstance(spec, dict) else spec
        check_shape(type(self).__name__, self.spec)
        refuse_needless(self.catalogue_name, self.network)
        if self.network.position_separator and self.spec.inputs != "tokens":
            raise UserError(
                f"position_separator={self.network.position_separator} is the id of a symbol among"
                f" the inputs, and this problem has inputs={self.spec.inputs!r}: set it to 0."
            )
        self.has_encoder = self.spec.inputs != "none"
        self.has_decoder = self.spec.targets == "tokens"
        self._make_parts()
        self._build_parts()

    def make_stack(self, causal: bool, with_memory: bool, name: str) -> Any:
        """Returns a new stack for the encoder or the decoder.

        Args:
          causal: whether positions see only earlier ones (a decoder).
          with_memory: whether its blocks attend over an encoder's states.
          name: of the layer.
        """
        raise NotImplementedError

    def example_steps(self, lengths: Any, training: bool) -> Any | None:
        """Returns int32 [batch], the depth of each example where it follows from its length
        (float32 [batch]); default: None.
        """
        del lengths, training
        return None

    @property
    def supports_incremental_decoding(self) -> bool:
        """Whether ``decode_step`` gives what the whole sequence would."""
        return self.has_decoder

    @property
    def cache_offset(self) -> int:
        """How many entries of the decoder's histories stand before the first symbol's (a
        memory's).
        """
        return 0

    def counted_positions(self, features: dict[str, Any]) -> tuple[Any, ...]:
        """Returns the positions that count in the ponder cost, without computing the model.

        Args:
          features: as in the call.

        Returns:
          float32 [batch, length] of the encoder (with its start symbol) and float32 [batch,
          target_length] of the decoder, of those
          that the model has: the masks of their details.
        """
        masks = []
        if self.has_encoder:
            mask = self.input_embedding.mask(features["inputs"])
            masks.append(
                mask
                if self.start_symbol is None
                else tf.concat([tf.ones_like(mask[:, :1]), mask], 1)
            )
        if self.has_decoder:
            masks.append(self.target_embedding.mask(features["targets"]))
        return (
            tuple(tf.ones_like(mask) for mask in masks)
            if self.network.padding_ponders
            else tuple(masks)
        )

    def call(
        self,
        features: dict[str, Any],
        training: bool = False,
        return_details: bool = False,
        return_attention: bool = False,
        observer: Observer | None = None,
    ) -> Any:
        options = {
            "training": bool(training),
            "return_attention": return_attention,
            "observer": observer,
        }
        target_length = tf.shape(features["targets"])[1] if self.has_decoder else 0
        encoded = self._encode(features, target_length, options) if self.has_encoder else None
        if self.has_decoder:
            states, decoder_details = self._decode(features, encoded, options)
            head = functools.partial(
                token_logits,
                target_embedding=self.target_embedding,
                output_projection=self.output_projection,
            )
            logits = _answered(head, states, decoder_details)
        else:
            assert encoded is not None
            decoder_details = None
            head = functools.partial(
                self._word_logits if self.spec.targets == "word" else self._class_logits,
                features,
                encoded,
            )
            logits = _answered(head, encoded.states, encoded.details)
        details = ModelDetails(encoded.details if encoded is not None else None, decoder_details)
        # PonderNet's cost is known only where all steps are run.
        if self.network.halting != "none" and (
            options["training"] or self.network.halting != "pondernet"
        ):
            costs = [part.ponder_cost() for part in details if part is not None]
            self.add_loss(ponder_weight(self.network) * tf.add_n(costs))
        return (logits, details) if return_details or return_attention else logits

    def start_decoding(
        self, features: dict[str, Any], capacity: Any, beam_size: int = 1
    ) -> dict[str, Any]:
        """Encodes the inputs and returns what ``decode_step`` needs before the first position.

        Args:
          features: {"inputs": ...} as in the call; for a language model {"batch_size": int32 []}.
          capacity: int32 [], positions that there is room for; ``resize_cache`` makes more.
          beam_size: hypotheses for each example.

        Returns:
          a nested structure: "constants", the same for all examples and positions; "examples",
            tensors [batch, ...] that stay as they are;
          the rest changes at every position, also with the examples on the first axis.
        """
        batch_size = (
            tf.shape(features["inputs"])[0]
            if self.has_encoder
            else tf.cast(features["batch_size"], tf.int32)
        )
        capacity += self.cache_offset
        cache = {
            "constants": self._prepare_decoding(),
            "visible": nothing_visible(batch_size, capacity, beam_size),
            "blocks": self.decoder.empty_caches(batch_size, capacity, beam_size),
        }
        if not self.has_encoder:
            return cache
        encoded = self._encode(
            features, 0, {"training": False, "return_attention": False, "observer": None}
        )
        keys, values = self.decoder.project_memory(encoded.states, encoded.rotation)
        memory = {"keys": keys, "values": values, "bias": padding_bias(encoded.mask)}
        scale = self._logit_scale(tf.reduce_sum(encoded.mask, 1)[:, None, None, None])
        cache["examples"] = {
            "memory": memory if scale is None else {**memory, "scale": scale},
            "lengths": encoded.lengths,
        }
        return cache

    def decode_step(
        self, symbols: Any, step: Any, cache: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """Decodes one position of every hypothesis.

        Args:
          symbols: int32 [batch * beam_size], the decoder's input at this position: the symbol
            before it, 0 at the start.
          step: int32 [], the position, from 0.
          cache: from ``start_decoding`` or an earlier step.

        Returns:
          (float32 logits [batch * beam_size, target_vocab_size], the new cache).
        """
        weights, examples = cache["constants"], cache.get("examples", {})
        head_size = self.network.hidden_size // self.network.num_heads
        cache_position, visible = next_cache_position(
            cache["visible"],
            step + self.cache_offset,
            self.network.num_heads,
            head_size,
            self.compute_dtype,
        )
        order = tf.cast(step, tf.float32)
        positions = self.positions.targets(
            self.positions(batch_size=1, size=1), order[None, None], examples.get("lengths")
        )
        context = PositionContext(
            self._rotation(positions, positions),
            self._logit_scale((order + 1.0)[None, None, None, None]),
            examples.get("memory"),
        )
        # Positions that follow from the inputs differ between examples, not between an example's
        # hypotheses.
        positions = (
            positions[:, 0]
            if cache_position.beam_size == 1 or positions.shape[0] == 1
            else tf.repeat(positions[:, 0], cache_position.beam_size, 0)
        )
        if self.position_table is not None:
            positions = self.position_table.look_up(positions, weights["positions"])
        inputs = self.target_embedding.step(symbols, weights["embedding"])
        if self.target_start is not None:
            inputs = self.target_start.step(inputs, step, weights["start"])
        states, blocks = self.decoder.step(
            inputs, weights["decoder"], cache["blocks"], cache_position, positions, context
        )
        return tf.cast(affine(states, weights["logits"]), tf.float32), {
            **cache,
            "visible": visible,
            "blocks": blocks,
        }

    def reorder_cache(self, cache: dict[str, Any], parents: Any) -> dict[str, Any]:
        """Returns the cache in which each hypothesis goes on from another one: `parents`, int32
        [batch, beam_size].
        """

        def follow(tensor: Any) -> Any:
            return tf.gather(tensor, parents, batch_dims=1)

        # Keys and values stay where they are: ``visible`` says whose they are.
        blocks = [
            {**block, "transition": tf.nest.map_structure(follow, block["transition"])}
            for block in cache["blocks"]
        ]
        return {**cache, "visible": follow(cache["visible"]), "blocks": blocks}

    def resize_cache(self, cache: dict[str, Any], kept: Any, capacity: Any) -> dict[str, Any]:
        """Returns the cache of some of its examples, with room for more positions.

        Args:
          cache: from ``decode_step`` or ``start_decoding``.
          kept: int32 [kept], the examples that are decoded further.
          capacity: int32 [], positions that there must be room for; at least as many as now.
        """
        capacity += self.cache_offset
        changing = {
            name: tf.nest.map_structure(lambda x: tf.gather(x, kept), cache[name])
            for name in cache
            if name != "constants"
        }
        blocks = [
            {
                **block,
                "attention": {
                    name: extended(entries, capacity, 0)
                    for name, entries in block["attention"].items()
                },
            }
            for block in changing["blocks"]
        ]
        return {
            **cache,
            **changing,
            "visible": extended(changing["visible"], capacity, MASKED),
            "blocks": blocks,
        }

    def generate(self, features: dict[str, Any], seed: Any = None, **options: Any) -> Decoded:
        """Writes outputs for `features`; arguments, result and errors as in
        ``ends.write_outputs``.
        """
        return write_outputs(self, features, seed, options)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "network": self.network.to_dict(),
            "spec": self.spec.to_dict(),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> SequenceModel:
        del custom_objects
        return cls(**config)

    # How it works: parts, positions, encoder, decoder.

    def _make_parts(self) -> None:
        network, spec, policy = self.network, self.spec, self.dtype_policy
        input_embedding = make_input_embedding(network, spec, policy)
        if self.has_encoder:
            self.input_embedding = input_embedding
            self.encoder = self.make_stack(causal=False, with_memory=False, name="encoder")
            self.input_dropout = Dropout(network.dropout, name="input_dropout", dtype=policy)
        if self.has_decoder:
            self.target_embedding = make_target_embedding(network, spec, input_embedding, policy)
            self.decoder = self.make_stack(
                causal=True, with_memory=self.has_encoder, name="decoder"
            )
            self.target_dropout = Dropout(network.dropout, name="target_dropout", dtype=policy)
            self.output_projection = make_output_projection(network, spec, policy)
            starts = network.target_start == "learned" and network.position in ("rotary", "none")
            self.target_start = (
                TargetStart(network, name="target_start", dtype=policy) if starts else None
            )
        else:
            self.classifier = make_classifier(network, spec, policy)
        self.positions = Positions(network, name="positions", dtype="float32")
        learned = network.position == "learned"
        self.position_table = (
            PositionTable(network, name="position_table", dtype="float32") if learned else None
        )

    def _build_parts(self) -> None:
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
        if not self.has_decoder:
            self.classifier.build(shape)
        else:
            if not self.target_embedding.built:
                self.target_embedding.build((None, None))
            self.decoder.build(shape)
            if self.output_projection is not None:
                self.output_projection.build(shape)
            if self.target_start is not None:
                self.target_start.build(shape)
        for part in self._flatten_layers(include_self=True):
            part.built = True

    def _vector(self, name: str, stddev: float) -> Any:
        initializer = keras.initializers.RandomNormal(stddev=stddev)
        return self.add_weight(
            shape=(self.network.hidden_size,), initializer=initializer, name=name, autocast=False
        )

    def _encode(
        self, features: dict[str, Any], target_length: Any, options: dict[str, Any]
    ) -> _Encoded:
        ids, training = features["inputs"], options["training"]
        mask = self.input_embedding.mask(ids)
        lengths = tf.reduce_sum(mask, 1)
        states, mask = self._with_start_symbol(self.input_embedding(ids, training=training), mask)
        if self.target_space is not None:
            states += tf.cast(self.target_space, states.dtype)
        length = tf.shape(mask)[1]
        # Positions may count on from the last input symbol through the targets, and from 0 through
        # one behind.
        assigned = self.positions(
            batch_size=tf.shape(ids)[0], size=length + target_length + 2, training=training
        )
        ids = (
            None
            if self.spec.inputs == "facts"
            else ids
            if self.start_symbol is None
            else tf.pad(ids, [[0, 0], [1, 0]])
        )
        positions = self.positions.inputs(assigned, length, lengths, ids=ids)
        rotation = self._rotation(
            positions, self.positions.inputs(assigned, length, lengths, backward=True)
        )
        context = BlockContext(
            bias=padding_bias(mask),
            keep=mask,
            rotation=rotation,
            logit_scale=self._logit_scale(tf.reduce_sum(mask, 1)[:, None, None, None]),
        )
        steps = self.example_steps(lengths, training)
        states = self.input_dropout(states, training=training)
        positions = self._looked_up(positions, mask)
        states, details = self.encoder(
            states,
            symbol_mask=mask,
            positions=positions,
            context=context,
            steps=steps,
            **options,
        )
        return _Encoded(states, mask, lengths, assigned, rotation, steps, details)

    def _with_start_symbol(self, states: Any, mask: Any) -> tuple[Any, Any]:
        if self.start_symbol is None:
            return states, mask
        symbol = tf.cast(self.start_symbol, states.dtype)[None, None] * tf.ones_like(states[:, :1])
        return tf.concat([symbol, states], 1), tf.concat([tf.ones_like(mask[:, :1]), mask], 1)

    def _decode(
        self, features: dict[str, Any], encoded: _Encoded | None, options: dict[str, Any]
    ) -> tuple[Any, RecurrenceDetails]:
        targets, training = features["targets"], options["training"]
        length = tf.shape(targets)[1]
        previous = tf.pad(targets[:, :-1], [[0, 0], [1, 0]])
        inputs = self.target_embedding(previous, training=training)
        if self.target_start is not None:
            inputs = self.target_start(inputs)
        inputs = self.target_dropout(inputs, training=training)
        order = tf.range(length, dtype=tf.float32)
        if encoded is None:
            assigned = self.positions(
                batch_size=tf.shape(targets)[0], size=length + 2, training=training
            )
            positions, memory, steps = (
                self.positions.targets(assigned, order[None], None),
                None,
                None,
            )
        else:
            keys, values = self.decoder.project_memory(encoded.states, encoded.rotation)
            memory = {
                "keys": keys,
                "values": values,
                "mask": encoded.mask,
                "lengths": encoded.lengths,
            }
            positions, steps = (
                self.positions.targets(encoded.assigned, order[None], encoded.lengths),
                encoded.steps,
            )
        context = self._decoder_context(positions, order + 1.0, memory)._replace(
            bias=causal_bias(length)
        )
        mask = self.target_embedding.mask(targets)
        result: tuple[Any, RecurrenceDetails] = self.decoder(
            inputs,
            symbol_mask=mask,
            positions=self._looked_up(positions, mask),
            context=context,
            steps=steps,
            **options,
        )
        return result

    def _decoder_context(
        self, positions: Any, visible: Any, memory: dict[str, Any] | None
    ) -> BlockContext:
        rotation = self._rotation(positions, positions)
        own = BlockContext(
            rotation=rotation, logit_scale=self._logit_scale(visible[None, None, :, None])
        )
        if memory is None:
            return own
        return own._replace(
            memory_keys=memory["keys"],
            memory_values=memory["values"],
            memory_bias=padding_bias(memory["mask"]),
            memory_rotation=rotation,
            memory_scale=self._logit_scale(tf.reduce_sum(memory["mask"], 1)[:, None, None, None]),
        )

    def _prepare_decoding(self) -> dict[str, Any]:
        table = {} if self.position_table is None else {"positions": self.position_table.prepare()}
        start = {} if self.target_start is None else {"start": self.target_start.prepare()}
        return {
            **prepare_ends(self.target_embedding, self.output_projection),
            **table,
            **start,
            "decoder": self.decoder.prepare(),
        }

    def _looked_up(self, positions: Any, mask: Any) -> Any:
        """Returns positions [batch or 1, length], or what a table has learned of those that `mask`
        [batch, length] counts.
        """
        return (
            positions
            if self.position_table is None
            else self.position_table(positions, counted=mask)
        )

    def _class_logits(self, features: dict[str, Any], encoded: _Encoded, states: Any) -> Any:
        del features
        return tf.cast(self.classifier(summary(self.network, states, encoded.mask)), tf.float32)

    def _word_logits(self, features: dict[str, Any], encoded: _Encoded, states: Any) -> Any:
        ids = (
            features["inputs"]
            if self.start_symbol is None
            else tf.pad(features["inputs"], [[0, 0], [1, 0]])
        )
        return self.classifier(states, ids, encoded.mask)

    def _rotation(self, positions: Any, backward: Any) -> tuple[Any, Any] | None:
        return head_rotations(self.network, positions, backward)

    def _logit_scale(self, visible: Any) -> Any | None:
        return (
            length_scale(visible, self.network.attention_scale_length)
            if self.network.attention_scale == "log_length"
            else None
        )


def _answered(head: Callable[[Any], Any], states: Any, details: RecurrenceDetails) -> Any:
    """Returns the logits that `head` makes of the states, or of those of all steps where the
    details keep them (pondernet).
    """
    if details.step_states is None:
        return head(states)
    return expected_scores(details.log_shares, details.step_states, head)
