"""The Neural GPU: gated convolutions over a mental image, repeated as often as the input is long
(arXiv 1511.08228).

How it is used::

    spec = ProblemSpec("tokens", "tokens", 12, 12, shared_vocab=True)
    model = NeuralGPU(NeuralGPUConfig(hidden_size=24, num_layers=2, source_stretch=1.0), spec)
    logits = model({"inputs": inputs, "targets": targets})  # [batch, target_length, 12]
"""

from typing import Any, ClassVar

import keras
import tensorflow as tf

from ut_tf.errors import UserError
from ut_tf.layers.dropout import Dropout
from ut_tf.layers.linear import Linear
from ut_tf.layers.recurrence_details import RecurrenceDetails
from ut_tf.models.embeddings import make_input_embedding
from ut_tf.models.encoder_decoder import EncoderDecoder
from ut_tf.models.heads import OUTPUT_PROJECTION, class_logits, make_classifier
from ut_tf.models.interfaces import CallOptions, Encoded
from ut_tf.models.neural_gpu.config import NeuralGPUConfig
from ut_tf.models.neural_gpu.image_encoder import ImageEncoder
from ut_tf.models.neural_gpu.image_steps import relaxed_weights, tie
from ut_tf.problem_spec import ProblemSpec
from ut_tf.search.contract import Cache


def refuse_without_inputs(model: str, spec: ProblemSpec) -> None:
    """Raises a UserError for a language model: an image is made of inputs, and works as long as
    they are.
    """
    if spec.inputs == "none":
        raise UserError(
            f"the model {model} works on an image of its inputs, and this problem has none: use"
            " another model."
        )


def image_options(network: Any, policy: str) -> dict[str, Any]:
    """The arguments that ``ImageEncoder`` and ``TapeDecoder`` share, from the configuration."""
    return {
        "hidden_size": network.hidden_size,
        "num_layers": network.num_layers,
        "image_width": network.image_width,
        "conv_kernel": network.conv_kernel,
        "gate_cutoff": network.gate_cutoff,
        "relaxed_sets": network.relaxed_sets,
        "dropout": network.dropout,
        "kernel_init": network.kernel_init,
        "dtype": policy,
    }


@keras.saving.register_keras_serializable("ut_tf")
class NeuralGPU(EncoderDecoder):
    """A Neural GPU for a problem's inputs and targets; arguments and call are those of
    ``EncoderDecoder``.

    Parts, in order: token or fact embedding; ``ImageEncoder``; a projection of the image's rows, or
    a classifier of the last one. There is no decoder: all symbols of the output are computed at
    once, from the inputs alone. The symbol at position k is that of row k, and of the targets only
    their length is read. An output cannot be longer than the image, ⌈source_stretch · n⌉ rows for n
    symbols with the end; behind it every symbol is equally probable.

    Since the symbols do not depend on each other, a search computes the image when it starts and
    reads one row at each position; the most probable output is greedy decoding's.
    """

    config_class: ClassVar[type] = NeuralGPUConfig
    encoder_keeps_positions: ClassVar[bool] = False
    catalogue_name: ClassVar[str] = "neural_gpu"

    def check_spec(self) -> None:
        refuse_without_inputs(self.catalogue_name, self.spec)
        super().check_spec()

    def make_parts(self) -> None:
        network, spec, policy = self.network, self.spec, self.dtype_policy.name
        self.input_embedding = make_input_embedding(network, spec, policy)
        self.input_dropout = Dropout(network.dropout, name="input_dropout", dtype=policy)
        self.encoder = self.make_encoder()
        if self.has_decoder:
            # Symbols that are written are not read again: there is no embedding to share.
            self.head = Linear(
                spec.target_vocab_size,
                False,
                network.kernel_init,
                name=OUTPUT_PROJECTION,
                dtype=policy,
            )
        else:
            self.head = make_classifier(network, spec, policy)

    def make_encoder(self) -> ImageEncoder:
        stretch = self.network.source_stretch if self.has_decoder else 1.0
        options = image_options(self.network, self.dtype_policy.name)
        return ImageEncoder(stretch=stretch, name="encoder", **options)

    def decode(
        self, targets: Any, encoded: Encoded | None, options: CallOptions
    ) -> tuple[Any, RecurrenceDetails | None]:
        assert encoded is not None
        return _rows(encoded, tf.shape(targets)[1]), None

    def token_logits(self, states: Any) -> Any:
        return tf.cast(self.head(states), tf.float32)

    def class_logits(self, features: dict[str, Any], encoded: Encoded, states: Any) -> Any:
        if self.spec.targets == "aligned":
            return self.token_logits(states)
        return class_logits(
            self.head, encoded, states, self.input_ids(features), self.network.summary
        )

    def counted_positions(self, features: dict[str, Any]) -> tuple[Any, ...]:
        return (self.input_embedding.mask(features["inputs"]),)

    def start_decoding(self, features: dict[str, Any], capacity: Any, beam_size: int = 1) -> Cache:
        """Computes the whole output.

        Returns:
          "examples", the logits of all rows and of one behind them, [batch, rows + 1,
          target_vocab_size]; "read" [batch, beam_size], how many symbols each hypothesis has.
        """
        encoded = self.encode(features, CallOptions())
        size = tf.shape(encoded.states)
        read = tf.zeros(tf.stack([size[0], beam_size]), tf.int32)
        read.set_shape([None, beam_size])
        logits = self.token_logits(_rows(encoded, size[1] + 1))
        return {"examples": {"logits": logits}, "read": read}

    def decode_step(self, symbols: Any, step: Any, cache: Cache) -> tuple[Any, Cache]:
        """Reads one row for every hypothesis, whatever the symbols before it."""
        logits, read = cache["examples"]["logits"], cache["read"]
        row = tf.ensure_shape(
            logits[:, tf.minimum(step, tf.shape(logits)[1] - 1)],
            [None, self.spec.target_vocab_size],
        )
        return tf.repeat(row, read.shape[1], 0), {**cache, "read": read + 1}

    def relaxed_weights(self) -> list[Any]:
        return relaxed_weights(self)

    def tie(self, tied: bool = True) -> None:
        tie(self, tied)


def _rows(encoded: Encoded, count: Any) -> Any:
    """Returns the states of the first `count` rows, [batch, count, maps]. They are zeros behind an
    example's last row, so that a projection without bias gives logits of 0 there.
    """
    missing = tf.maximum(count - tf.shape(encoded.states)[1], 0)
    states = encoded.states * encoded.mask[..., None]
    return tf.pad(states, [[0, 0], [0, missing], [0, 0]])[:, :count]
