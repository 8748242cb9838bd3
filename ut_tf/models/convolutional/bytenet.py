"""ByteNet: a decoder of dilated convolutions on top of an encoder's representation, position by
position (arXiv 1610.10099).

How it is used::

    spec = ProblemSpec("tokens", "tokens", 12, 12, shared_vocab=True)
    model = ByteNet(ByteNetConfig(num_layers=10, source_stretch=1.2), spec)
    logits = model({"inputs": inputs, "targets": targets})  # [batch, target_length, 12]
"""

from typing import Any, ClassVar

import keras

from ut_tf.models.convolutional.config import ByteNetConfig
from ut_tf.models.convolutional.dilated_convolutions import DilatedDecoder, DilatedEncoder
from ut_tf.models.encoder_decoder import EncoderDecoder


@keras.saving.register_keras_serializable("ut_tf")
class ByteNet(EncoderDecoder):
    """Dilated convolutions for a problem's inputs and targets; arguments and call are those of
    ``EncoderDecoder``.

    Parts, in order: token or fact embedding; ``DilatedEncoder``, whose representation is stretched
    for a decoder; ``DilatedDecoder`` above it; projection. A classifier reads the last symbol's
    state or the mean.
    """

    config_class: ClassVar[type] = ByteNetConfig
    encoder_keeps_positions: ClassVar[bool] = False

    def make_encoder(self) -> DilatedEncoder:
        stretch = self.network.source_stretch if self.has_decoder else 1.0
        return DilatedEncoder(stretch=stretch, name="encoder", **self._sizes())

    def make_decoder(self) -> DilatedDecoder:
        return DilatedDecoder(with_memory=self.has_encoder, name="decoder", **self._sizes())

    @property
    def learns_target_start(self) -> bool:
        """In a language model, whose layer norms would see zeros at the first position."""
        return not self.has_encoder and self.network.target_start == "learned"

    def _sizes(self) -> dict[str, Any]:
        """The arguments that encoder and decoder share."""
        network = self.network
        return {
            "hidden_size": network.hidden_size,
            "num_layers": network.num_layers,
            "kernel_size": network.conv_kernel,
            "max_dilation": network.max_dilation,
            "dropout": network.dropout,
            "norm_epsilon": network.norm_epsilon,
            "kernel_init": network.kernel_init,
            "dtype": self.dtype_policy.name,
        }
