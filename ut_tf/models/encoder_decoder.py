"""The base of all models: embedding, encoder, decoder, head.

How it is used::

    class LSTMModel(EncoderDecoder):
        config_class = LSTMConfig
        def make_encoder(self): ...  # see interfaces.EncoderPart
        def make_decoder(self): ...  # see interfaces.DecoderPart

The problem's spec decides the shape: with inputs and targets of tokens the model has an encoder and
a decoder; with aligned targets, an encoder and a classifier of each position; with targets of one
class or word, an encoder and a classifier or pointer; without inputs, a decoder alone (a language
model).
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import keras
import tensorflow as tf

from ut_tf.config.base import Config
from ut_tf.config.families import as_config
from ut_tf.errors import UserError
from ut_tf.layers.dropout import Dropout
from ut_tf.layers.linear import affine
from ut_tf.layers.recurrence_details import Observer, RecurrenceDetails
from ut_tf.layers.start_symbol import without_start
from ut_tf.metrics.ponder_time import PonderTime
from ut_tf.models.embeddings import make_input_embedding, make_target_embedding, make_target_start
from ut_tf.models.export_signature import export_signature
from ut_tf.models.features import checked_features, nan_where_unread, packed_features
from ut_tf.models.generation import generate
from ut_tf.models.heads import (
    CLASSIFIER,
    OUTPUT_PROJECTION,
    class_logits,
    make_classifier,
    make_output_projection,
    position_logits,
    prepare_logits,
    token_logits,
)
from ut_tf.models.interfaces import CallOptions, Encoded, ModelDetails, fixed_depth
from ut_tf.models.precision import check_precision
from ut_tf.models.summary import ShownLayer
from ut_tf.models.training_contract import TrainableModel
from ut_tf.problem_spec import ProblemSpec
from ut_tf.search.contract import Cache, DecoderModel
from ut_tf.search.strategies import Decoded


class EncoderDecoder(keras.Model, TrainableModel, DecoderModel):  # type: ignore[misc]
    """A model of a problem's inputs and targets.

    A model is built when it is constructed, so that weights can be loaded at once.

    Args:
      network: configuration, of the model's ``config_class``.
      spec: ProblemSpec.

    Call arguments:
      features: {"inputs": int32 [batch, length] (tokens) or [batch, rows, max_words] (facts),
        "targets": int32 [batch, target_length]}, without "inputs" for a language model, without
        "targets" for a model without a decoder; either of these may get its one tensor alone.
        Ids may have any dtype of whole numbers. Padding, 0, may stand anywhere: positions count
        symbols. Targets are shifted right inside. "update" (int64 [2]: the seed of a run and the
        number of the update) decides what depth is drawn; "carry" is what the recurrence that is
        answered from begins with, but in rows of "fresh" (bool [batch]), and the details then hold
        what it ends with. In training, "drawn_steps" (int32 [2]: steps without and with gradient)
        sets its depth, and with "every_step", whatever its value, the logits are the mean
        log-probabilities after its steps. "to_depth", a
        ``GivenDepth``, replaces the depth of evaluation. "puzzles" (int32 [batch]) decide the
        memory of a model with ``num_puzzles``. Other keys are ignored.
      training: whether to drop, and which depth and offsets hold.
      return_details: whether to return (logits, ModelDetails).
      return_attention: the same, with the attention weights of every step in the details.
      observer: called with a ``StepView`` inside every recurrent step.

    Returns:
      float32 logits, [batch, target_length, target_vocab_size], of aligned targets [batch, length,
      target_vocab_size], [batch, classes] or, of words, [batch, input_vocab_size].

    Raises:
      UserError: the configuration is another model's, or the model cannot answer the spec; in a
        call, an id is none of the vocabulary (in a graph an InvalidArgumentError; where XLA
        compiles, the example's logits are NaN).

    ``model.losses`` holds the weighted ponder cost after a call of a model that ponders, and
    ``fit`` and ``evaluate`` show the mean ponder time as ponder_time.
    """

    config_class: ClassVar[type]
    """The class of the model's configuration."""
    encoder_keeps_positions: ClassVar[bool] = True
    """Whether the encoder's positions are those of its inputs, not rows that it makes of them."""
    encoder_queries_are_positions: ClassVar[bool] = True
    """Whether the encoder's attention weights have a row for each position."""
    num_puzzles: int = 0
    """Puzzles that have a memory of their own, which the feature "puzzles" chooses; 0: none."""

    def __init__(self, network: Config | dict[str, Any], spec: ProblemSpec, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        check_precision(self.dtype_policy)
        self.network: Any = as_config(type(self), network).resolved()
        self.spec = ProblemSpec.from_dict(spec) if isinstance(spec, dict) else spec
        self.has_encoder = self.spec.inputs != "none"
        self.has_decoder = self.spec.targets == "tokens"
        self.check_spec()
        if mistakes := self.mistakes():
            raise UserError(f"{'; '.join(mistakes)}.")
        self.make_parts()
        self.build_parts()
        for part in self._flatten_layers(include_self=True):
            part.built = True
        self._ponder_time = None if self.ponder_weight is None else PonderTime()

    # The parts, for subclasses.

    def make_encoder(self) -> Any:
        """A new ``EncoderPart``, a layer named "encoder"."""
        raise NotImplementedError

    def make_decoder(self) -> Any:
        """A new ``DecoderPart``, a layer named "decoder"; with a memory where ``has_encoder``."""
        raise NotImplementedError

    @property
    def learns_target_start(self) -> bool:
        """Whether a learned vector replaces the zeros of a decoder's first input; default: no."""
        return False

    def check_spec(self) -> None:
        """Raises UserError where a model of this kind cannot answer the problem."""
        if not self.has_encoder and not self.has_decoder:
            raise UserError(
                f"a {type(self).__name__} with inputs='none' and targets={self.spec.targets!r} has"
                " nothing to read: give it inputs."
            )
        if self.spec.inputs == "facts" and self.spec.targets in ("aligned", "word"):
            raise UserError(
                f"a {type(self).__name__} answers at symbols of tokens, not of facts: give"
                f" inputs='tokens' with targets={self.spec.targets!r}."
            )

    def mistakes(self) -> list[str]:
        """Returns a text for each conflict between the model's configuration and the spec; default:
        none.
        """
        return []

    def make_parts(self) -> None:
        """Makes embedding, encoder, decoder and head."""
        network, spec, policy = self.network, self.spec, self.dtype_policy.name
        input_embedding = make_input_embedding(network, spec, policy)
        if self.has_encoder:
            self.input_embedding = input_embedding
            self.encoder = self.make_encoder()
            self.input_dropout = Dropout(network.dropout, name="input_dropout", dtype=policy)
        if not self.has_decoder:
            self.classifier = make_classifier(network, spec, policy)
            return
        self.target_embedding = make_target_embedding(network, spec, input_embedding, policy)
        self.decoder = self.make_decoder()
        self.target_dropout = Dropout(network.dropout, name="target_dropout", dtype=policy)
        self.output_projection = make_output_projection(network, spec, policy)
        self.target_start = make_target_start(network, policy) if self.learns_target_start else None

    def build_parts(self) -> None:
        """Builds the parts that are not built yet, in the order in which they were made."""
        for part in self.layers:
            if not part.built:
                part.build((None, None, self.network.hidden_size))

    def summary(
        self, line_length: int | None = None, *, expand_nested: bool = True, **options: Any
    ) -> None:
        """Prints the model's parts, those of its recurrent step among them, with shapes of outputs
        and numbers of parameters.

        Args:
          line_length: of what is printed.
          expand_nested: whether parts of parts have rows, such as attention and transition.
          options: other arguments of ``keras.Model.summary``.
        """
        states = (None, None, self.network.hidden_size)
        symbols = (None, None, self.spec.target_vocab_size)
        answer = symbols if self.spec.targets == "aligned" else (None, symbols[-1])
        shapes = {
            CLASSIFIER: answer,
            OUTPUT_PROJECTION: symbols,
            "pointer": (None, self.spec.input_vocab_size),
            "halting": (None, None),
            "q_head": (None, 2),
        }
        options = {**options, "line_length": line_length, "expand_nested": expand_nested}
        keras.Model.summary(ShownLayer(self, states, shapes), **options)

    # The call.

    def call(
        self,
        features: dict[str, Any],
        training: bool = False,
        return_details: bool = False,
        return_attention: bool = False,
        observer: Observer | None = None,
    ) -> Any:
        given = checked_features(self.call_features(self._named(features), training), self.spec)
        features, orders = packed_features(given, self.spec)
        options = CallOptions(
            bool(training),
            return_attention,
            observer,
            given.get("update"),
            given.get("carry"),
            given.get("drawn_steps"),
            "every_step" in given,
            given.get("to_depth"),
            given.get("puzzles"),
            given.get("fresh"),
            given.get("restart"),
            given.get("exit_steps"),
        )
        of_encoder, of_decoder = orders.options(options)
        encoded = self.encode(features, of_encoder) if self.has_encoder else None
        decoder_details = None
        if self.has_decoder:
            states, decoder_details = self.decode(features["targets"], encoded, of_decoder)
            logits, by_step = self.answer(self.token_logits, states, decoder_details)
        else:
            assert encoded is not None
            head = lambda states: self.class_logits(features, encoded, states)  # noqa: E731
            logits, by_step = self.answer(head, encoded.states, encoded.details)
        details = ModelDetails(None if encoded is None else encoded.details, decoder_details)
        if self.has_ponder_cost(options.training):
            costs = [part.ponder_cost() for part in details if part is not None]
            self.ponder_loss = self.ponder_weight * tf.add_n(costs)
            self.add_loss(self.ponder_loss)
        if self._ponder_time is not None:
            self._ponder_time.keep(
                (part.ponder_times, part.mask) for part in details if part is not None
            )
        logits = orders.logits(nan_where_unread(logits, given, self.spec), self.spec.targets)
        if not (return_details or return_attention):
            return logits
        kinds = (self.encoder_keeps_positions, self.encoder_queries_are_positions)
        details = orders.details(details, *kinds)
        if by_step is not None:
            scores = tuple(orders.logits(each, self.spec.targets) for each in by_step)
            details = details.with_step_scores(scores)
        return logits, details

    def call_features(self, features: dict[str, Any], training: bool) -> dict[str, Any]:
        """Returns the features of a call, with those that the model adds; default: none."""
        return features

    def _named(self, features: Any) -> dict[str, Any]:
        """The features by name; the only one of a model may come without its name."""
        sides = (("inputs", self.has_encoder), ("targets", self.has_decoder))
        names = [name for name, is_read in sides if is_read]
        if not isinstance(features, Mapping):
            features = {names[0]: features} if len(names) == 1 else {}
        if missing := [name for name in names if name not in features]:
            raise UserError(
                f"a {type(self).__name__} with inputs={self.spec.inputs!r} and"
                f" targets={self.spec.targets!r} lacks the feature"
                f" {' and the feature '.join(map(repr, missing))}: call it with a dictionary of"
                f" {' and '.join(names)}"
                f"{'; to have targets written, call its generate' if self.has_decoder else ''}."
            )
        return dict(features)

    def encode(self, features: dict[str, Any], options: CallOptions) -> Encoded:
        """Embeds and encodes the inputs."""
        mask = self.input_embedding.mask(features["inputs"])
        inputs = self.input_embedding(features["inputs"], training=options.training)
        inputs = self.input_dropout(inputs, training=options.training)
        encoded: Encoded = self.encoder(inputs, padding_mask=mask, training=options.training)
        if encoded.details is None:
            encoded = encoded._replace(details=fixed_depth(self.network.num_layers, encoded.mask))
        return encoded

    def decode(
        self, targets: Any, encoded: Encoded | None, options: CallOptions
    ) -> tuple[Any, RecurrenceDetails | None]:
        """Embeds and decodes the targets, int32 [batch, target_length].

        Returns:
          (states [batch, target_length, hidden_size], RecurrenceDetails).
        """
        inputs = self.embed_targets(targets, options.training)
        memory = {} if encoded is None else self.decoder.read(encoded)
        states, attention = self.decoder(inputs, memory=memory, training=options.training)
        mask = self.target_embedding.mask(targets)
        return states, fixed_depth(self.network.num_layers, mask, attention)

    def embed_targets(self, targets: Any, training: bool) -> Any:
        """The decoder's inputs: targets shifted right and embedded."""
        previous = tf.pad(targets[:, :-1], [[0, 0], [1, 0]])
        inputs = self.target_embedding(previous, training=training)
        if self.target_start is not None:
            inputs = self.target_start(inputs)
        return self.target_dropout(inputs, training=training)

    def token_logits(self, states: Any) -> Any:
        """Float32 [..., target_vocab_size] of the decoder's states [..., hidden_size]."""
        return token_logits(states, self.target_embedding, self.output_projection)

    def class_logits(self, features: dict[str, Any], encoded: Encoded, states: Any) -> Any:
        """Float32 [batch, classes], of words [batch, input_vocab_size], or of aligned targets
        [batch, length, target_vocab_size], of the encoder's states.
        """
        if self.spec.targets == "aligned":
            return self.position_logits(without_start(states, features["inputs"]))
        ids = self.input_ids(features)
        return class_logits(self.classifier, encoded, states, ids, self.network.summary)

    def position_logits(self, states: Any) -> Any:
        """Float32 [..., target_vocab_size] of aligned targets, of the encoder's states [...,
        hidden_size].
        """
        return position_logits(self.classifier, states)

    def input_ids(self, features: dict[str, Any]) -> Any:
        """The ids of the encoder's positions."""
        return features["inputs"]

    # Pondering; see training_contract.py.

    def answer(
        self, head: Callable[[Any], Any], states: Any, details: RecurrenceDetails | None
    ) -> tuple[Any, tuple[Any, ...] | None]:
        """The logits that `head` makes of the states, and the log-probabilities after each step, if
        known; a halting form may take the states of all steps.
        """
        return head(states), None

    def counted_positions(self, features: dict[str, Any]) -> tuple[Any, ...]:
        masks = []
        if self.has_encoder:
            masks.append(self.input_embedding.mask(features["inputs"]))
        if self.has_decoder:
            masks.append(self.target_embedding.mask(features["targets"]))
        return tuple(map(tf.ones_like, masks)) if self.padding_ponders else tuple(masks)

    # Incremental decoding; see search/contract.py.

    @property
    def supports_incremental_decoding(self) -> bool:
        return self.has_decoder

    def start_decoding(self, features: dict[str, Any], capacity: Any, beam_size: int = 1) -> Cache:
        cache: Cache = {"constants": self.prepare_decoding()}
        if not self.has_encoder:
            batch_size = tf.cast(features["batch_size"], tf.int32)
            return {**cache, "state": self.decoder.start({}, batch_size, beam_size)}
        memory = self.decoder.read(self.encode(features, CallOptions()))
        state = self.decoder.start(memory, tf.shape(features["inputs"])[0], beam_size)
        return {**cache, "examples": memory, "state": state}

    def decode_step(self, symbols: Any, step: Any, cache: Cache) -> tuple[Any, Cache]:
        weights, width = cache["constants"], self.network.hidden_size
        memory, state = (
            tf.nest.map_structure(self._with_width, cache.get(name, {}))
            for name in ("examples", "state")
        )
        beam_size = tf.nest.flatten(state)[0].shape[1]
        x = tf.reshape(self.embed_step(symbols, step, weights), [-1, beam_size, width])
        states, state = self.decoder.step(x, step, weights["decoder"], memory, state)
        logits = self.step_logits(tf.reshape(states, [-1, width]), weights)
        return logits, {**cache, "state": state}

    def prepare_decoding(self) -> dict[str, Any]:
        """The weights of ``decode_step``, read and cast once for all positions."""
        start = {} if self.target_start is None else {"start": self.target_start.prepare()}
        return {
            "embedding": self.target_embedding.prepare(),
            "logits": prepare_logits(self.target_embedding, self.output_projection),
            **start,
            "decoder": self.decoder.prepare(),
        }

    def embed_step(self, symbols: Any, step: Any, weights: dict[str, Any]) -> Any:
        """The decoder's inputs [rows, hidden_size] at position `step`, of symbols int32 [rows]."""
        inputs = self.target_embedding.step(symbols, weights["embedding"])
        if self.target_start is None:
            return inputs
        return self.target_start.step(inputs, step, weights["start"])

    def step_logits(self, states: Any, weights: dict[str, Any]) -> Any:
        """Float32 [rows, target_vocab_size] of states [rows, hidden_size]."""
        return tf.cast(affine(states, weights["logits"]), tf.float32)

    def _with_width(self, tensor: Any) -> Any:
        """The tensor with the static width that a loop over positions forgets."""
        if tensor.shape.rank != 3:
            return tensor
        return tf.ensure_shape(tensor, [*tensor.shape[:2], self.network.hidden_size])

    def generate(self, features: Any, seed: Any = None, **options: Any) -> Decoded:
        """Writes outputs for `features`; arguments, result and errors are those of
        ``generation.generate``.
        """
        return generate(self, features, seed, options)

    # Keras.

    @property
    def metrics(self) -> list[Any]:
        """The metrics of ``compile``, and the ponder time of a model that ponders."""
        own = [] if self._ponder_time is None else [self._ponder_time.metric]
        return [*super().metrics, *own]

    def export(
        self,
        filepath: str | Path,
        format: str = "tf_saved_model",
        verbose: bool | None = None,
        input_signature: Any = None,
        **kwargs: Any,
    ) -> None:
        """Exports the call in inference mode, from features to logits.

        Keras takes its default signature from a model's first call. These models are built when
        they are constructed, so the signature follows from the spec instead.

        Args:
          filepath: of the artifact.
          format: as of ``keras.Model.export``.
          verbose: whether to print the endpoints.
          input_signature: of the call; None: the one of ``export_signature``, for any batch size
            and length.
          **kwargs: what else the format takes.
        """
        own = export_signature(self.spec, self.num_puzzles)
        signature = own if input_signature is None else input_signature
        super().export(
            filepath, format=format, verbose=verbose, input_signature=signature, **kwargs
        )

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "network": self.network.to_dict(),
            "spec": self.spec.to_dict(),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> "EncoderDecoder":
        del custom_objects
        return cls(**config)
