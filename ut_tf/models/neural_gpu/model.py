"""The Neural GPU: gated convolutions over a mental image, repeated as often as the input is long
(arXiv 1511.08228).

How it is used::

    spec = ProblemSpec("tokens", "tokens", 12, 12, shared_vocab=True)
    model = NeuralGPU(NetworkConfig(hidden_size=24, num_layers=2, source_stretch=1.0), spec)
    logits = model({"inputs": inputs, "targets": targets})  # [batch, target_length, 12]

How it works: ``models/neural_gpu/image.py`` has the equations. All symbols of the output are
computed at once, from the inputs alone: the symbol at position k is that of row k, and the targets
say nothing but how many are asked for. An output cannot be longer than the image, ⌈source_stretch ·
n⌉ rows for n symbols with the end; behind it every symbol is equally probable. Since the symbols do
not depend on each other, a search computes the image when it starts and reads one row of it at each
position; the most probable output is greedy decoding's.
"""

from __future__ import annotations

from typing import Any, ClassVar

import keras
import tensorflow as tf

from ut_tf.config.network import NetworkConfig
from ut_tf.errors import UserError
from ut_tf.layers.details import RecurrenceDetails
from ut_tf.layers.dropout import Dropout
from ut_tf.layers.encoded import Encoded
from ut_tf.layers.linear import Linear
from ut_tf.models.encoder_decoder import ModelDetails
from ut_tf.models.heads import make_classifier, make_input_embedding
from ut_tf.models.neural_gpu.image import ImageEncoder, relaxed_weights, tie
from ut_tf.models.stateful_model import StatefulModel
from ut_tf.problem_spec import ProblemSpec


def refuse_without_inputs(model: str, spec: ProblemSpec | dict[str, Any]) -> None:
    """Raises a UserError for a language model: an image is made of inputs, and works as long as
    they are.
    """
    if (spec["inputs"] if isinstance(spec, dict) else spec.inputs) == "none":
        raise UserError(
            f"the model {model} works on an image of its inputs, and this problem has none: use"
            " another model."
        )


@keras.saving.register_keras_serializable("ut_tf")
class NeuralGPU(StatefulModel):
    """A Neural GPU for a problem's inputs and targets; unlike other ``StatefulModel``s it has no
    decoder, and reads no targets.

    Args:
      network: NetworkConfig; hidden_size is the number of maps, num_layers that of the CGRUs in a
        step.
      spec: ProblemSpec.

    Call arguments:
      features: {"inputs": int32 [batch, length] (tokens) or [batch, rows, max_words] (facts),
        "targets": int32 [batch, target_length]}, without "targets" for a classifier; of the targets
        only their length is read. Other keys are ignored.
      training: whether to drop.
      return_details: whether to return (logits, ModelDetails). Its ponder times are the number of
        steps, one for each row.
      return_attention: the same; there is no attention.

    Returns:
      float32 logits, [batch, target_length, target_vocab_size], [batch, classes] or, of words,
      [batch, input_vocab_size].

    Raises:
      UserError: the network asks for what the model has no use for, or the spec for what it cannot
        answer.
    """

    catalogue_name: ClassVar[str] = "neural_gpu"

    def __init__(self, network: NetworkConfig, spec: ProblemSpec, **kwargs: Any) -> None:
        refuse_without_inputs(self.catalogue_name, spec)
        super().__init__(network, spec, **kwargs)

    def make_encoder(self) -> ImageEncoder:
        """Returns CGRUs over an image that is as long as the output may be."""
        return ImageEncoder(
            self.network,
            self.network.source_stretch if self.has_decoder else 1.0,
            name="encoder",
            dtype=self.dtype_policy,
        )

    def call(
        self,
        features: dict[str, Any],
        training: bool = False,
        return_details: bool = False,
        return_attention: bool = False,
    ) -> Any:
        encoded = self._encode(features, bool(training))
        logits = (
            self._rows(encoded, tf.shape(features["targets"])[1])
            if self.has_decoder
            else self._answer(features, encoded, self.head)
        )
        if not (return_details or return_attention):
            return logits
        mask = encoded.keep
        times = tf.reduce_sum(mask, 1, keepdims=True) * mask
        return logits, ModelDetails(RecurrenceDetails(times, tf.zeros_like(times), mask), None)

    def start_decoding(
        self, features: dict[str, Any], capacity: Any, beam_size: int = 1
    ) -> dict[str, Any]:
        """Computes the whole output and returns what ``decode_step`` needs.

        Args:
          features: {"inputs": ...} as in the call.
          capacity: without effect.
          beam_size: hypotheses for each example.

        Returns:
          "examples", the logits of all rows and of one behind them, [batch, rows + 1,
          target_vocab_size]; "asked" [batch, beam_size], how many symbols each hypothesis has.
        """
        del capacity
        encoded = self._encode(features, False)
        rows = tf.shape(encoded.states)[1]
        asked = tf.zeros(tf.stack([tf.shape(encoded.states)[0], beam_size]), tf.int32)
        asked.set_shape([None, beam_size])
        return {"examples": {"logits": self._rows(encoded, rows + 1)}, "asked": asked}

    def decode_step(
        self, symbols: Any, step: Any, cache: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """Reads one position for every hypothesis.

        Args:
          symbols: int32 [batch * beam_size], without effect.
          step: int32 [], the position, from 0.
          cache: from ``start_decoding`` or an earlier step.

        Returns:
          (float32 logits [batch * beam_size, target_vocab_size], the new cache).
        """
        del symbols
        logits, asked = cache["examples"]["logits"], cache["asked"]
        row = tf.ensure_shape(
            logits[:, tf.minimum(step, tf.shape(logits)[1] - 1)],
            [None, self.spec.target_vocab_size],
        )
        return tf.repeat(row, asked.shape[1], 0), {**cache, "asked": asked + 1}

    def relaxed_weights(self) -> list[Any]:
        """Returns the parameters of which there are `relaxed_sets`, each [sets, ...]."""
        return relaxed_weights(self)

    def tie(self, tied: bool = True) -> None:
        """Lets the mean of all sets of parameters take the place of each, from now on; not tied:
        they part again, from there.
        """
        tie(self, tied)

    def _make_parts(self) -> None:
        network, spec, policy = self.network, self.spec, self.dtype_policy
        self.input_embedding = make_input_embedding(network, spec, policy)
        self.input_dropout = Dropout(network.dropout, name="input_dropout", dtype=policy)
        self.encoder = self.make_encoder()
        if self.has_decoder:
            # Symbols that are written are not read again: there is no embedding to share.
            self.head = Linear(
                spec.target_vocab_size,
                False,
                network.kernel_init,
                name="output_projection",
                dtype=policy,
            )
        else:
            self.head = make_classifier(network, spec, policy)

    def _rows(self, encoded: Encoded, count: Any) -> Any:
        """Returns float32 logits [batch, count, target_vocab_size] of the first rows; behind an
        example's last row they are all 0.
        """
        missing = tf.maximum(count - tf.shape(encoded.states)[1], 0)
        # The image is zero beyond an example's rows, and the projection has no bias.
        states = tf.pad(encoded.states * encoded.keep[..., None], [[0, 0], [0, missing], [0, 0]])[
            :, :count
        ]
        return tf.cast(self.head(states), tf.float32)
