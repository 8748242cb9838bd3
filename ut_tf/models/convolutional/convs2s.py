"""ConvS2S: encoder and decoder of gated convolutions, with attention at every layer of the decoder
(arXiv 1705.03122).

How it is used::

    spec = ProblemSpec("tokens", "tokens", 12, 12, shared_vocab=True)
    model = ConvS2S(ConvS2SConfig(num_layers=4, embedding_scale="none", embedding_stddev=0.1), spec)
    logits = model({"inputs": inputs, "targets": targets})  # [batch, target_length, 12]
"""

from typing import Any, ClassVar

import keras

from ut_tf.models.convolutional.config import ConvS2SConfig
from ut_tf.models.convolutional.gated_convolutions import GatedDecoder, GatedEncoder
from ut_tf.models.encoder_decoder import EncoderDecoder


@keras.saving.register_keras_serializable("ut_tf")
class ConvS2S(EncoderDecoder):
    """Gated convolutions for a problem's inputs and targets; arguments and call are those of
    ``EncoderDecoder``.

    Parts, in order: token or fact embedding; ``GatedEncoder``, which adds learned positions;
    ``GatedDecoder``, which does too and attends over the encoder's states at every layer;
    projection. A classifier reads the last symbol's state or the mean.
    """

    config_class: ClassVar[type] = ConvS2SConfig

    def make_encoder(self) -> GatedEncoder:
        return GatedEncoder(name="encoder", **self._sizes())

    def make_decoder(self) -> GatedDecoder:
        return GatedDecoder(with_memory=self.has_encoder, name="decoder", **self._sizes())

    def _sizes(self) -> dict[str, Any]:
        """The arguments that encoder and decoder share."""
        network = self.network
        return {
            "hidden_size": network.hidden_size,
            "num_layers": network.num_layers,
            "kernel_size": network.conv_kernel,
            "num_positions": 0 if network.position == "none" else network.learned_positions,
            "scale": network.embedding_scale,
            "stddev": network.embedding_stddev,
            "dropout": network.dropout,
            "kernel_init": network.kernel_init,
            "dtype": self.dtype_policy.name,
        }
