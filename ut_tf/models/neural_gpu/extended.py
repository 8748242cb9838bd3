"""The Extended Neural GPU: a Neural GPU with a decoder that sees what it has written (arXiv
1610.08613).

How it is used::

    spec = ProblemSpec("tokens", "tokens", 12, 12, shared_vocab=True)
    model = ExtendedNeuralGPU(NetworkConfig(hidden_size=24, num_layers=2, source_stretch=1.2), spec)
    logits = model({"inputs": inputs, "targets": targets})  # [batch, target_length, 12]

How it works: ``models/neural_gpu/image.py`` has the equations. A classifier reads the last row of
the image, like a Neural GPU.
"""

from __future__ import annotations

from typing import Any, ClassVar

import keras

from ut_tf.config.network import NetworkConfig
from ut_tf.models.neural_gpu.image import ImageEncoder, TapeDecoder, relaxed_weights, tie
from ut_tf.models.neural_gpu.model import refuse_without_inputs
from ut_tf.models.stateful_model import StatefulModel
from ut_tf.problem_spec import ProblemSpec


@keras.saving.register_keras_serializable("ut_tf")
class ExtendedNeuralGPU(StatefulModel):
    """A Neural GPU with an output tape for a problem's inputs and targets; arguments and call as in
    ``StatefulModel``.
    """

    catalogue_name: ClassVar[str] = "extended_neural_gpu"

    def __init__(self, network: NetworkConfig, spec: ProblemSpec, **kwargs: Any) -> None:
        refuse_without_inputs(self.catalogue_name, spec)
        super().__init__(network, spec, **kwargs)

    def make_encoder(self) -> ImageEncoder:
        """Returns CGRUs over an image that is stretched for a decoder."""
        stretch = self.network.source_stretch if self.has_decoder else 1.0
        return ImageEncoder(self.network, stretch, name="encoder", dtype=self.dtype_policy)

    def make_decoder(self) -> TapeDecoder:
        """Returns CGRUs that work on from the encoder's image, beside a tape of what was
        written.
        """
        return TapeDecoder(self.network, name="decoder", dtype=self.dtype_policy)

    def relaxed_weights(self) -> list[Any]:
        """Returns the parameters of which there are `relaxed_sets`, each [sets, ...]."""
        return relaxed_weights(self)

    def tie(self, tied: bool = True) -> None:
        """Lets the mean of all sets of parameters take the place of each, from now on; not tied:
        they part again, from there.
        """
        tie(self, tied)
