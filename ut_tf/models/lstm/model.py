"""LSTM baselines (arXiv 1409.3215): encoder and decoder with Luong's or Bahdanau's attention or
none, classifier, language model.

How it is used::

    spec = ProblemSpec("tokens", "tokens", 12, 12, shared_vocab=True)
    model = LSTMModel(LSTMConfig(num_layers=2, lstm_attention="bahdanau"), spec)
    logits = model({"inputs": inputs, "targets": targets})  # [batch, target_length, 12]
"""

from typing import Any, ClassVar

import keras

from ut_tf.models.encoder_decoder import EncoderDecoder
from ut_tf.models.lstm.config import LSTMConfig
from ut_tf.models.lstm.decoder import LSTMDecoder
from ut_tf.models.lstm.encoder import LSTMEncoder


@keras.saving.register_keras_serializable("ut_tf")
class LSTMModel(EncoderDecoder):
    """LSTMs for a problem's inputs and targets; arguments and call are those of ``EncoderDecoder``.

    Parts, in order: token or fact embedding; ``LSTMEncoder``; ``LSTMDecoder`` with
    ``LuongAttention`` above its top layer or ``BahdanauAttention`` in its first one; projection. A
    classifier reads the top layer's state that has read everything (summary="last") or the mean;
    the last word's state points at words of the inputs.
    """

    config_class: ClassVar[type] = LSTMConfig

    def make_encoder(self) -> LSTMEncoder:
        return LSTMEncoder(direction=self.network.lstm_direction, name="encoder", **self._sizes())

    def make_decoder(self) -> LSTMDecoder:
        attention: Any = self.network.lstm_attention if self.has_encoder else "none"
        return LSTMDecoder(attention=attention, name="decoder", **self._sizes())

    def _sizes(self) -> dict[str, Any]:
        """The arguments that encoder and decoder share."""
        return {
            "hidden_size": self.network.hidden_size,
            "num_layers": self.network.num_layers,
            "dropout": self.network.dropout,
            "kernel_init": self.network.kernel_init,
            "dtype": self.dtype_policy.name,
        }

    def mistakes(self) -> list[str]:
        attention, direction = self.network.lstm_attention, self.network.lstm_direction
        mistakes = []
        if attention != "none" and not (self.has_encoder and self.has_decoder):
            mistakes.append(
                f"lstm_attention={attention} joins a decoder to an encoder, and this problem has"
                " only one of them: set it to none"
            )
        if direction != "forward" and not self.has_encoder:
            mistakes.append(
                f"lstm_direction={direction} says how inputs are read, and a language model has"
                " none: set it to forward"
            )
        if direction == "backward" and self.spec.targets == "word":
            mistakes.append(
                "lstm_direction=backward reads the last word first, whose state points at the"
                " answer: set it to forward or both"
            )
        return mistakes
