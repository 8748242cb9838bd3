"""LSTM baselines: encoder and decoder (arXiv 1409.3215), with Luong's or Bahdanau's attention;
classifier; language model.

How it is used::

    spec = ProblemSpec("tokens", "tokens", 12, 12, shared_vocab=True)
    model = LSTMModel(NetworkConfig(num_layers=2, lstm_attention="bahdanau"), spec)
    logits = model({"inputs": inputs, "targets": targets})  # [batch, target_length, 12]

How it works: ``models/lstm/layers.py`` has the equations. A classifier reads the top layer's state
that has read everything (summary=last) or the mean; words of the inputs are pointed at by the last
word's state.
"""

from __future__ import annotations

from typing import ClassVar

import keras

from ut_tf.models.lstm.layers import LSTMDecoder, LSTMEncoder
from ut_tf.models.stateful_model import StatefulModel


@keras.saving.register_keras_serializable("ut_tf")
class LSTMModel(StatefulModel):
    """LSTMs for a problem's inputs and targets; arguments and call as in ``StatefulModel``."""

    catalogue_name: ClassVar[str] = "lstm"

    def make_encoder(self) -> LSTMEncoder:
        """Returns num_layers LSTMs in lstm_direction."""
        return LSTMEncoder(self.network, name="encoder", dtype=self.dtype_policy)

    def make_decoder(self) -> LSTMDecoder:
        """Returns num_layers LSTMs with lstm_attention."""
        return LSTMDecoder(self.network, self.has_encoder, name="decoder", dtype=self.dtype_policy)

    def mistakes(self) -> list[str]:
        """Returns what lstm_attention and lstm_direction cannot do for this problem."""
        attention, direction, spec = (
            self.network.lstm_attention,
            self.network.lstm_direction,
            self.spec,
        )
        found = []
        if attention != "none" and (spec.inputs == "none" or spec.targets != "tokens"):
            found.append(
                f"lstm_attention={attention} joins a decoder to an encoder, and this problem has"
                " only one of them: set it to none"
            )
        if direction != "forward" and spec.inputs == "none":
            found.append(
                f"lstm_direction={direction} says how inputs are read, and a language model has"
                " none: set it to forward"
            )
        if direction == "backward" and spec.targets == "word":
            found.append(
                "lstm_direction=backward reads the last word first, whose state points at the"
                " answer: set it to forward or both"
            )
        return found
