"""The configuration of both Neural GPUs.

How it is used::

    NeuralGPUConfig(hidden_size=24, num_layers=2, source_stretch=1.0)
"""

from dataclasses import dataclass
from typing import ClassVar

from ut_tf.config.fields import option
from ut_tf.config.groups import (
    ConvolutionConfig,
    EmbeddingConfig,
    LayersConfig,
    SizeConfig,
    StretchConfig,
)
from ut_tf.config.training import TrainingConfig


@dataclass(frozen=True, kw_only=True)
class NeuralGPUConfig(StretchConfig, ConvolutionConfig, LayersConfig, EmbeddingConfig, SizeConfig):
    """Gated convolutions over an image, with or without an output tape (arXiv 1511.08228,
    1610.08613).
    """

    title: ClassVar[str] = "Neural GPUs"

    image_width: int = option(4, at_least=1)
    """Columns of the image; the inputs stand in the first. Each cell has hidden_size maps."""
    gate_cutoff: float = option(1.2, at_least=1)
    """c: gates are c * sigmoid - (c - 1) / 2, cut to [0, 1], so that they can close and open fully;
    1: a plain sigmoid.
    """
    relaxed_sets: int = option(1, at_least=1, is_structure=True)
    """Sets of parameters that the steps take in turn; above 1 training pulls them together, until
    their mean takes their place.
    """

    def mistakes_with(self, training: TrainingConfig) -> list[str]:
        """Relaxed sets become one when a curriculum ends."""
        mistakes = super().mistakes_with(training)
        if self.relaxed_sets > 1 and training.curriculum == "none":
            mistakes.append(
                f"relaxed_sets={self.relaxed_sets} become one set when a curriculum has ended: use"
                " curriculum=length, or relaxed_sets=1"
            )
        return mistakes
