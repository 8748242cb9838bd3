"""The configurations of the convolutional models, ConvS2S and ByteNet.

How it is used::

    ConvS2SConfig(num_layers=4, embedding_scale="none", embedding_stddev=0.1)
    ByteNetConfig(num_layers=10, source_stretch=1.2)
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from ut_tf.config.fields import option
from ut_tf.config.groups import (
    ConvolutionConfig,
    EmbeddingConfig,
    LayersConfig,
    NormConfig,
    SizeConfig,
    StretchConfig,
    TargetStartConfig,
)


@dataclass(frozen=True, kw_only=True)
class ConvS2SConfig(ConvolutionConfig, LayersConfig, EmbeddingConfig, SizeConfig):
    """Gated convolutions with attention at every layer (arXiv 1705.03122)."""

    title: ClassVar[str] = "ConvS2S"

    position: Literal["paper", "none"] = option("paper")
    """paper: a learned embedding per position, as in ConvS2S' paper; none."""
    learned_positions: int = option(512, at_least=1)
    """Positions with an embedding of their own; those beyond share the last."""


@dataclass(frozen=True, kw_only=True)
class ByteNetConfig(
    StretchConfig,
    ConvolutionConfig,
    LayersConfig,
    TargetStartConfig,
    EmbeddingConfig,
    NormConfig,
    SizeConfig,
):
    """Dilated convolutions over a representation as long as the source (arXiv 1610.10099)."""

    title: ClassVar[str] = "ByteNet"

    max_dilation: int = option(
        16, at_least=1, must_be=("a power of two", lambda dilation: dilation & (dilation - 1) == 0)
    )
    """Positions seen lie 1, 2, 4, … up to so far apart from block to block, then 1 again; a power
    of two.
    """
