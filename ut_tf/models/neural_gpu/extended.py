"""The Extended Neural GPU: a Neural GPU whose decoder sees its own output (arXiv 1610.08613).

How it is used::

    spec = ProblemSpec("tokens", "tokens", 12, 12, shared_vocab=True)
    model = ExtendedNeuralGPU(NeuralGPUConfig(hidden_size=24, num_layers=2), spec)
    logits = model({"inputs": inputs, "targets": targets})  # [batch, target_length, 12]
"""

from typing import Any, ClassVar

import keras

from ut_tf.models.encoder_decoder import EncoderDecoder
from ut_tf.models.neural_gpu.config import NeuralGPUConfig
from ut_tf.models.neural_gpu.image_encoder import ImageEncoder
from ut_tf.models.neural_gpu.image_steps import relaxed_weights, tie
from ut_tf.models.neural_gpu.model import image_options, refuse_without_inputs
from ut_tf.models.neural_gpu.tape_decoder import TapeDecoder


@keras.saving.register_keras_serializable("ut_tf")
class ExtendedNeuralGPU(EncoderDecoder):
    """A Neural GPU with an output tape for a problem's inputs and targets; arguments and call are
    those of ``EncoderDecoder``.

    Parts, in order: token or fact embedding; ``ImageEncoder``, whose image is stretched for a
    decoder; ``TapeDecoder``, which works on from that image beside a tape of what was written;
    projection. A classifier reads the last row of the image.
    """

    config_class: ClassVar[type] = NeuralGPUConfig
    encoder_keeps_positions: ClassVar[bool] = False
    catalogue_name: ClassVar[str] = "extended_neural_gpu"

    def check_spec(self) -> None:
        refuse_without_inputs(self.catalogue_name, self.spec)
        super().check_spec()

    def make_encoder(self) -> ImageEncoder:
        stretch = self.network.source_stretch if self.has_decoder else 1.0
        options = image_options(self.network, self.dtype_policy.name)
        return ImageEncoder(stretch=stretch, name="encoder", **options)

    def make_decoder(self) -> TapeDecoder:
        options = image_options(self.network, self.dtype_policy.name)
        return TapeDecoder(name="decoder", **options)

    def relaxed_weights(self) -> list[Any]:
        return relaxed_weights(self)

    def tie(self, tied: bool = True) -> None:
        tie(self, tied)
