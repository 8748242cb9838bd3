"""The fields that several models share, in groups: a model's configuration inherits from the groups
it has.

How it is used::

    @dataclass(frozen=True, kw_only=True)
    class LSTMConfig(LayersConfig, EmbeddingConfig, SizeConfig):
        lstm_attention: Literal["none", "luong", "bahdanau"] = option("none")

The fields of the last base come first, as do its mistakes. ``attention.py`` has the groups of the
models that attend.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ut_tf.config.base import Config
from ut_tf.config.fields import option


@dataclass(frozen=True, kw_only=True)
class SizeConfig(Config):
    """The fields that every model has."""

    title: ClassVar[str] = "Sizes and initial weights"

    hidden_size: int = option(
        128,
        at_least=1,
        must_be=(
            "an even number (positions are sines and cosines, and some layers halve it)",
            lambda size: size % 2 == 0,
        ),
    )
    """d: width of every state."""
    embedding_stddev: float | None = option(None, at_least=0)
    """Standard deviation of the embedding's initial values; None: hidden_size ** -0.5."""
    kernel_init: Literal["unit_scaling", "glorot"] = option("glorot")
    """Initial kernels: uniform unit scaling with gain 1 (tensor2tensor) or Glorot uniform."""

    def following(self) -> dict[str, Any]:
        """The standard deviation of the embedding's initial values."""
        return {**super().following(), "embedding_stddev": self.hidden_size**-0.5}


@dataclass(frozen=True, kw_only=True)
class EmbeddingConfig(Config):
    """How inputs and targets become states, and states answers."""

    title: ClassVar[str] = "Input and output"

    embedding_scale: Literal["sqrt", "none"] = option("sqrt")
    """sqrt: token embeddings are multiplied by sqrt(hidden_size)."""
    shared_embedding: bool = option(True)
    """Whether inputs, targets and the output projection share one matrix (where their vocabularies
    are shared).
    """
    word_mask_mean: float = option(1.0)
    """Mean of the initial multiplicative word masks of facts."""
    word_mask_stddev: float = option(0.0, at_least=0)
    """Standard deviation of the initial multiplicative word masks of facts."""
    summary: Literal["last", "mean"] = option("last")
    """What a classifier reads: the last symbol's state (bAbI: the question's) or the mean over the
    positions that are not padding.
    """
    dropout: float = option(0.1, at_least=0, below=1)
    """On the embedded input and on each sublayer's output."""
    word_dropout: float = option(0.0, at_least=0, below=1)
    """Share of the words, of inputs and of decoder inputs, that are left out in training."""


@dataclass(frozen=True, kw_only=True)
class StepsConfig(Config):
    """Recurrent depth."""

    title: ClassVar[str] = "Recurrent depth"

    num_steps: int = option(4, at_least=1)
    """Recurrent steps T where depth is fixed (memn2n: hops); with dynamic halting only the default
    of act_max_steps.
    """
    eval_num_steps: int | None = option(None, at_least=1, in_use=True)
    """Steps at evaluation; None: as in training."""

    def following(self) -> dict[str, Any]:
        """The steps at evaluation."""
        return {**super().following(), "eval_num_steps": self.num_steps}


@dataclass(frozen=True, kw_only=True)
class LayersConfig(Config):
    """Depth in layers."""

    title: ClassVar[str] = "Layers"

    num_layers: int = option(6, at_least=1)
    """Layers on either side, each with weights of its own (Neural GPUs: in each step)."""


@dataclass(frozen=True, kw_only=True)
class NormConfig(Config):
    """Layer normalization."""

    title: ClassVar[str] = "Layer normalization"

    norm_epsilon: float = option(1e-6, above=0)
    """Added to the variance in every layer norm."""


@dataclass(frozen=True, kw_only=True)
class ConvolutionConfig(Config):
    """Convolutions over positions."""

    title: ClassVar[str] = "Convolutions"

    conv_kernel: int = option(
        3,
        at_least=1,
        must_be=("an odd number (as many positions on either side)", lambda size: size % 2 == 1),
    )
    """Positions that a convolution of convs2s or bytenet sees; of Neural GPUs rows and columns;
    odd.
    """


@dataclass(frozen=True, kw_only=True)
class StretchConfig(Config):
    """A source representation whose length follows from the inputs'."""

    title: ClassVar[str] = "Source representation"

    source_stretch: float = option(1.2, at_least=1)
    """Positions of bytenet's source representation, rows of a Neural GPU's image, per input symbol;
    a longer output has none beyond.
    """


@dataclass(frozen=True, kw_only=True)
class TargetStartConfig(Config):
    """The input of a decoder before its first symbol."""

    title: ClassVar[str] = "The decoder's first input"

    target_start: Literal["learned", "zeros"] = option("learned", absent="zeros", is_detail=True)
    """Input of a decoder's first position where no position is added to it (rotary, none): a
    learned vector, or zeros (until 0.4).
    """


@dataclass(frozen=True, kw_only=True)
class MemoryConfig(Config):
    """Memory."""

    title: ClassVar[str] = "Memory"

    memory_size: int = option(10, at_least=1)
    """Learned vectors in front of the sequence (mem_transformer, mem_bottleneck_transformer); of
    memn2n the latest facts that it reads.
    """
    eval_memory_size: int = option(0, at_least=0, in_use=True)
    """The same at evaluation; 0: as in training. Vectors beyond the trained ones repeat them in
    order (not of memn2n).
    """
