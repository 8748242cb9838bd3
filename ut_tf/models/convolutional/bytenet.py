"""ByteNet: a decoder of dilated convolutions on top of an encoder's representation, position by
position (arXiv 1610.10099).

How it is used::

    spec = ProblemSpec("tokens", "tokens", 12, 12, shared_vocab=True)
    model = ByteNet(NetworkConfig(num_layers=10, source_stretch=1.2), spec)
    logits = model({"inputs": inputs, "targets": targets})  # [batch, target_length, 12]

How it works: ``models/convolutional/dilated_convolutions.py`` has the equations. A classifier reads
the last symbol's state or the mean.
"""

from __future__ import annotations

from typing import ClassVar

import keras

from ut_tf.models.convolutional.dilated_convolutions import DilatedDecoder, DilatedEncoder
from ut_tf.models.stateful_model import StatefulModel


@keras.saving.register_keras_serializable("ut_tf")
class ByteNet(StatefulModel):
    """Dilated convolutions for a problem's inputs and targets; arguments and call as in
    ``StatefulModel``.
    """

    catalogue_name: ClassVar[str] = "bytenet"
    norms_inputs: ClassVar[bool] = True

    def make_encoder(self) -> DilatedEncoder:
        """Returns num_layers dilated convolutions, over a source stretched for a decoder."""
        stretch = self.network.source_stretch if self.has_decoder else 1.0
        return DilatedEncoder(self.network, stretch, name="encoder", dtype=self.dtype_policy)

    def make_decoder(self) -> DilatedDecoder:
        """Returns num_layers dilated convolutions that see no later position."""
        return DilatedDecoder(
            self.network, self.has_encoder, name="decoder", dtype=self.dtype_policy
        )
