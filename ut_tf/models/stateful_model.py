"""What models share whose decoder carries a state of fixed size from position to position: LSTMs
and convolutions.

How it is used: a model names itself and says what its encoder and its decoder are, and is then
called, trained and decoded like every other::

    class LSTMModel(StatefulModel):
        catalogue_name = "lstm"
        def make_encoder(self): ...
        def make_decoder(self): ...

How it works: as in ``sequence_model.py``, a problem's inputs and targets decide whether there is an
encoder, a decoder or a classifier, and both ends are those of ``ends.py``. But where the blocks
there look back at all earlier positions, these decoders carry along all that they know of them: the
cache of incremental decoding is tensors [batch, beam_size, ...] of which each hypothesis has its
own, and the stepper (``search/stepper.py``) sorts and cuts them without the model's help.

An encoder is a Keras layer ``encoder(inputs, keep, training)`` that returns ``Encoded``. A decoder
is a Keras layer ``decoder(inputs, memory, training)`` that returns (states, a list of attention
weights [batch, target_length, length]) and has

- ``read(encoded)``: the memory, a dictionary of tensors with the examples first; those of rank 3
  end with hidden_size. A language model's memory is empty;
- ``prepare()``: the weights for ``step``;
- ``start(memory, batch_size, beam_size)``: its state before the first position, tensors [batch,
  beam_size, ..., channels] with the channels in the last axis; those of rank 3 end with
  hidden_size;
- ``step(x, index, weights, memory, state)``: (states, new state) of one new position x [batch,
  beam_size, hidden_size].
"""

from __future__ import annotations

from typing import Any, ClassVar

import tensorflow as tf

from ut_tf.config.network import NetworkConfig
from ut_tf.config.unused import refuse_needless
from ut_tf.layers.details import RecurrenceDetails
from ut_tf.layers.dropout import Dropout
from ut_tf.layers.embedding import TargetStart
from ut_tf.layers.encoded import Encoded
from ut_tf.layers.linear import affine
from ut_tf.models.encoder_decoder import ModelDetails
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
from ut_tf.problem_spec import ProblemSpec
from ut_tf.search.strategies import Decoded


class StatefulModel(ExportableModel):
    """A model of a problem's inputs and targets; subclasses say what its encoder and its decoder
    are.

    Args:
      network: NetworkConfig.
      spec: ProblemSpec.

    Call arguments:
      features: {"inputs": int32 [batch, length] (tokens) or [batch, rows, max_words] (facts),
        "targets": int32 [batch, target_length]}, without "inputs" for a language model, without
        "targets" for a classifier. Targets are shifted right inside. Other keys are ignored.
      training: whether to drop.
      return_details: whether to return (logits, ModelDetails). Its ponder times are the number of
        layers; the attention weights of the decoder over the encoder, where it has any, are float32
        [attentions, batch, 1, target_length, length].
      return_attention: the same.

    Returns:
      float32 logits, [batch, target_length, target_vocab_size], [batch, classes] or, of words,
      [batch, input_vocab_size].

    Raises:
      UserError: the network asks for what the model has no use for, or the spec for what it cannot
        answer.
    """

    catalogue_name: ClassVar[str] = ""
    norms_inputs: ClassVar[bool] = False
    """Whether a layer norm sees a language model's embedded targets, so that the first one must not
    be zero (``TargetStart``).
    """

    def __init__(self, network: NetworkConfig, spec: ProblemSpec, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.network = NetworkConfig.from_dict(network) if isinstance(network, dict) else network
        self.spec = ProblemSpec.from_dict(spec) if isinstance(spec, dict) else spec
        check_shape(type(self).__name__, self.spec)
        refuse_needless(self.catalogue_name, self.network, self.mistakes())
        self.has_encoder = self.spec.inputs != "none"
        self.has_decoder = self.spec.targets == "tokens"
        self._make_parts()
        self._build_parts()

    def make_encoder(self) -> Any:
        """Returns a new encoder, named "encoder"."""
        raise NotImplementedError

    def make_decoder(self) -> Any:
        """Returns a new decoder, named "decoder"; with a memory where ``has_encoder``."""
        raise NotImplementedError

    def mistakes(self) -> list[str]:
        """Returns a text for everything that this network cannot do with this spec; default:
        nothing.
        """
        return []

    @property
    def supports_incremental_decoding(self) -> bool:
        """Whether ``decode_step`` gives what the whole sequence would."""
        return self.has_decoder

    def call(
        self,
        features: dict[str, Any],
        training: bool = False,
        return_details: bool = False,
        return_attention: bool = False,
    ) -> Any:
        training = bool(training)
        encoded = self._encode(features, training) if self.has_encoder else None
        if not self.has_decoder:
            assert encoded is not None
            details = ModelDetails(self._details(encoded.keep, []), None)
            logits = self._answer(features, encoded, self.classifier)
            return (logits, details) if return_details or return_attention else logits
        targets = tf.cast(features["targets"], tf.int32)
        previous = tf.pad(targets[:, :-1], [[0, 0], [1, 0]])
        inputs = self.target_embedding(previous, training=training)
        if self.target_start is not None:
            inputs = self.target_start(inputs)
        inputs = self.target_dropout(inputs, training=training)
        memory = {} if encoded is None else self.decoder.read(encoded)
        states, attention = self.decoder(inputs, memory=memory, training=training)
        logits = token_logits(states, self.target_embedding, self.output_projection)
        if not (return_details or return_attention):
            return logits
        read = None if encoded is None else self._details(encoded.keep, [])
        return logits, ModelDetails(
            read, self._details(self.target_embedding.mask(targets), attention)
        )

    def start_decoding(
        self, features: dict[str, Any], capacity: Any, beam_size: int = 1
    ) -> dict[str, Any]:
        """Encodes the inputs and returns what ``decode_step`` needs before the first position.

        Args:
          features: {"inputs": ...} as in the call; for a language model {"batch_size": int32 []}.
          capacity: without effect: what is carried along has a fixed size.
          beam_size: hypotheses for each example.

        Returns:
          a nested structure: "constants", the same for all examples and positions; "examples",
            tensors [batch, ...] that stay as they are;
          "state", tensors [batch, beam_size, ...].
        """
        del capacity
        constants = {
            **prepare_ends(self.target_embedding, self.output_projection),
            "decoder": self.decoder.prepare(),
        }
        if self.target_start is not None:
            constants["start"] = self.target_start.prepare()
        if not self.has_encoder:
            return {
                "constants": constants,
                "state": self.decoder.start(
                    {}, tf.cast(features["batch_size"], tf.int32), beam_size
                ),
            }
        memory = self.decoder.read(self._encode(features, False))
        state = self.decoder.start(memory, tf.shape(features["inputs"])[0], beam_size)
        return {"constants": constants, "examples": memory, "state": state}

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
        weights, width = cache["constants"], self.network.hidden_size
        memory, state = (
            tf.nest.map_structure(self._known, cache.get(name, {}))
            for name in ("examples", "state")
        )
        beam_size = tf.nest.flatten(state)[0].shape[1]
        x = self.target_embedding.step(symbols, weights["embedding"])
        if self.target_start is not None:
            x = self.target_start.step(x, step, weights["start"])
        x = tf.reshape(x, [-1, beam_size, width])
        states, state = self.decoder.step(x, step, weights["decoder"], memory, state)
        logits = affine(tf.reshape(states, [-1, width]), weights["logits"])
        return tf.cast(logits, tf.float32), {**cache, "state": state}

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
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> StatefulModel:
        del custom_objects
        return cls(**config)

    def _make_parts(self) -> None:
        network, spec, policy = self.network, self.spec, self.dtype_policy
        input_embedding = make_input_embedding(network, spec, policy)
        if self.has_encoder:
            self.input_embedding = input_embedding
            self.encoder = self.make_encoder()
            self.input_dropout = Dropout(network.dropout, name="input_dropout", dtype=policy)
        if self.has_decoder:
            self.target_embedding = make_target_embedding(network, spec, input_embedding, policy)
            self.decoder = self.make_decoder()
            self.target_dropout = Dropout(network.dropout, name="target_dropout", dtype=policy)
            self.output_projection = make_output_projection(network, spec, policy)
            starts = (
                self.norms_inputs and not self.has_encoder and network.target_start == "learned"
            )
            self.target_start = (
                TargetStart(network, name="target_start", dtype=policy) if starts else None
            )
        else:
            self.classifier = make_classifier(network, spec, policy)

    def _build_parts(self) -> None:
        shape = (None, None, self.network.hidden_size)
        for part in self.layers:
            if not part.built:
                part.build(shape)
        for part in self._flatten_layers(include_self=True):
            part.built = True

    def _encode(self, features: dict[str, Any], training: bool) -> Encoded:
        keep = self.input_embedding.mask(features["inputs"])
        inputs = self.input_dropout(
            self.input_embedding(features["inputs"], training=training), training=training
        )
        encoded: Encoded = self.encoder(inputs, keep=keep, training=training)
        return encoded

    def _answer(self, features: dict[str, Any], encoded: Encoded, head: Any) -> Any:
        if self.spec.targets == "word":
            return head(encoded.states, features["inputs"], encoded.keep)
        reads_last = self.network.summary == "last" and encoded.summary is not None
        read = (
            encoded.summary if reads_last else summary(self.network, encoded.states, encoded.keep)
        )
        return tf.cast(head(read), tf.float32)

    def _details(self, mask: Any, attention: list[Any]) -> RecurrenceDetails:
        times = float(self.network.num_layers) * mask
        weights = tf.stack(attention)[:, :, None] if attention else None
        return RecurrenceDetails(
            times, tf.zeros_like(times), mask, memory_attention_weights=weights
        )

    def _known(self, tensor: Any) -> Any:
        """Returns the tensor with the width that a loop over positions forgets."""
        return (
            tf.ensure_shape(tensor, [*tensor.shape[:2], self.network.hidden_size])
            if tensor.shape.rank == 3
            else tensor
        )
