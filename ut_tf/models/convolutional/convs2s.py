"""ConvS2S: encoder and decoder of gated convolutions, with attention at every layer of the decoder
(arXiv 1705.03122).

How it is used::

    spec = ProblemSpec("tokens", "tokens", 12, 12, shared_vocab=True)
    model = ConvS2S(NetworkConfig(num_layers=4, embedding_scale="none", embedding_stddev=0.1), spec)
    logits = model({"inputs": inputs, "targets": targets})  # [batch, target_length, 12]

How it works: ``models/convolutional/gated_convolutions.py`` has the equations. A classifier reads
the last symbol's state or the mean.
"""

from __future__ import annotations

from typing import ClassVar

import keras

from ut_tf.models.convolutional.gated_convolutions import GatedDecoder, GatedEncoder
from ut_tf.models.stateful_model import StatefulModel


@keras.saving.register_keras_serializable("ut_tf")
class ConvS2S(StatefulModel):
    """Gated convolutions for a problem's inputs and targets; arguments and call as in
    ``StatefulModel``.
    """

    catalogue_name: ClassVar[str] = "convs2s"

    def make_encoder(self) -> GatedEncoder:
        """Returns num_layers gated convolutions."""
        return GatedEncoder(self.network, name="encoder", dtype=self.dtype_policy)

    def make_decoder(self) -> GatedDecoder:
        """Returns num_layers gated convolutions, each with attention where there is an encoder."""
        return GatedDecoder(self.network, self.has_encoder, name="decoder", dtype=self.dtype_policy)
