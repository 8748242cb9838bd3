"""The groups of fields of the models that attend: their block, their positions, and both with all
else that these models share.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ut_tf.config.base import Config
from ut_tf.config.fields import having, option, unless
from ut_tf.config.groups import EmbeddingConfig, NormConfig, SizeConfig, TargetStartConfig
from ut_tf.config.training import TrainingConfig

_SPREADING = ("mixed", "randomised")
_INNER_RATES = ("attention_dropout", "relu_dropout")


@dataclass(frozen=True, kw_only=True)
class BlockConfig(NormConfig, SizeConfig):
    """Multi-head attention and the transition behind it."""

    title: ClassVar[str] = "The block"

    num_heads: int = option(4, at_least=1)
    """Attention heads; divides hidden_size, unless head_size is set."""
    head_size: int = option(0, at_least=0, is_structure=True)
    """Width of a head's queries, keys and values (0: hidden_size / num_heads)."""
    filter_size: int = option(512, at_least=1)
    """Width of the transition's inner layer."""
    norm: Literal["post", "pre", "sandwich", "peri"] = option("post")
    """post: a norm after each residual sum (the paper). pre: before each sublayer, once more after
    the recurrence (tensor2tensor). sandwich: before each sublayer and after each sum (Huginn).
    peri: before and after each sublayer, and once more after the recurrence (Ouro).
    """
    norm_type: Literal["layer", "rms", "rms_plain"] = option("layer")
    """Norms of blocks: layer norms, or root mean squares, with a trained scale or without one (TRM,
    HRM).
    """
    residual_scale: float = option(1.0, above=0)
    """Factor on what attention and transition add to a state."""
    transition: str = option("fc", names_of="transitions")
    """fc: two affine maps with a ReLU between; shift: fc of a position and the one before; sepconv:
    separable convolutions (tensor2tensor's kernels 3 and 5; causal in the decoder); sepconv2d: over
    3 x 3 cells of a square board; swiglu: gated, without biases (TRM, HRM, Huginn).
    """
    attention_bias: bool = option(False)
    """Whether the attention's projections have a bias."""
    qk_norm: bool = option(False)
    """Whether queries and keys of each head are divided by their root mean square."""
    qk_bias: bool = option(False)
    """Whether the projections of queries and keys alone have a bias (Huginn)."""
    attention_scale: Literal["constant", "log_length"] = option("constant")
    """Factor on the attention logits beside 1/sqrt(d): none, or max(1, ln(keys) /
    ln(attention_scale_length)).
    """
    attention_scale_length: int = option(
        40, at_least=2, only_with=having("attention_scale", "log_length")
    )
    """The number of keys up to which log_length leaves the logits alone."""
    query_key_init: Literal["independent", "equal"] = option("independent")
    """equal: the key kernel starts as a copy of the query kernel, so that attention starts out by
    likeness of contents and positions.
    """
    relative_bias: int = option(0, at_least=0, is_structure=True)
    """Reach of a learned bias per head and relative position in self-attention (0: none); farther
    positions share the last value.
    """
    relative_self_bias: float = option(0.0)
    """Initial bias of a position's attention to itself (with relative_bias); -5: it looks elsewhere
    first.
    """
    relative_slope: float = option(0.0, at_least=0, only_with=unless("relative_bias", 0))
    """How much the initial bias falls with each position back (with relative_bias), the same in all
    heads; later positions begin like the farthest. After ALiBi (arXiv 2108.12409).
    """
    attention_dropout: float | None = option(None, at_least=0, below=1, formerly=0.1)
    """On the attention weights; None: dropout."""
    relu_dropout: float | None = option(None, at_least=0, below=1, formerly=0.1)
    """Inside the transition; None: dropout."""

    def following(self) -> dict[str, Any]:
        """The rates of dropout inside the block."""
        # A model of one's own may have a block and no other dropout.
        rate = getattr(self, "dropout", 0.1)
        return {**super().following(), **dict.fromkeys(_INNER_RATES, rate)}

    def notes_on(self, given: Collection[str]) -> list[str]:
        """A sentence where dropout was set to 0 and a named set keeps some."""
        notes = super().notes_on(given)
        kept = [name for name in _INNER_RATES if getattr(self, name) and name not in given]
        if kept and "dropout" in given and getattr(self, "dropout", None) == 0:
            values = " and ".join(f"{name}={getattr(self, name)}" for name in kept)
            zeros = ",".join(f"{name}=0" for name in kept)
            notes.append(f"dropout=0 leaves the set's {values}: add {zeros} for no dropout at all")
        return notes

    def mistakes(self) -> list[str]:
        """Heads must divide the width."""
        mistakes = super().mistakes()
        if not self.head_size and self.hidden_size % self.num_heads:
            mistakes.append(
                f"hidden_size={self.hidden_size} is not a multiple of num_heads={self.num_heads}:"
                " change one of them, or set head_size"
            )
        if self.qk_bias and self.attention_bias:
            mistakes.append(
                "attention_bias=True gives queries and keys the bias of qk_bias=True: choose one"
            )
        return mistakes

    @property
    def width_of_head(self) -> int:
        """Width of a head's queries, keys and values."""
        return self.head_size or self.hidden_size // self.num_heads


@dataclass(frozen=True, kw_only=True)
class PositionConfig(Config):
    """Positions, as numbers that are added or turned by."""

    title: ClassVar[str] = "Positions"

    position: str = option("paper", names_of="positions", asks_nothing=("none",))
    """paper: interleaved sinusoids from 1; tensor2tensor: [sines | cosines] from 0; learned (a
    table); rotary: queries and keys turned.
    """
    rotary_base: float = option(10000.0, above=1, only_with=having("position", "rotary"))
    """The slowest pair of numbers turns by about 1/rotary_base from a position to the next."""
    learned_positions: int = option(512, at_least=1, only_with=having("position", "learned"))
    """Positions that position=learned has; longer sequences are refused."""
    position_from: Literal["start", "end", "both"] = option("start")
    """The encoder's positions count from its first symbol, back from its last one, or (rotary) by
    start in half of the heads, else end.
    """
    end_position: int = option(1, at_least=0)
    """Position of the last symbol where they count from the end; 0: it is an end symbol, and the
    one before it has position 1.
    """
    position_separator: int = option(0, at_least=0, is_structure=True)
    """Id of a symbol of the inputs behind which their positions begin again (0: none), such as the
    sign between two summands.
    """
    position_digits: int = option(0, at_least=0, is_structure=True)
    """How many ids of the inputs, from 2 on, are digits (0: none). Each digit's position is its
    place in its numeral, from 1 at the last digit, and every other symbol is at 0 (arXiv
    2405.17399).
    """
    position_offset: Literal["none", "random", "mixed", "randomised"] = option("none")
    """In training: each example's own random offset; mixed: also spread out at random in most
    examples; randomised: a random subset.
    """
    max_position_offset: int = option(
        0, at_least=0, only_with=having("position_offset", "random", *_SPREADING)
    )
    """The largest random offset; under mixed and randomised, the largest position."""
    eval_position_offset: int = option(0, in_use=True)
    """The offset at evaluation: the middle of the trained range is better known to the model than
    its edge.
    """
    eval_position_stride: int = option(1, at_least=1, in_use=True)
    """At evaluation positions grow by so much from symbol to symbol, after training with spread
    positions (mixed, randomised).
    """
    target_position: Literal["start", "continue", "backward"] = option("start")
    """The decoder counts from the start like the inputs, goes on after their last symbol, or
    counts down from that symbol.
    """
    input_start_symbol: bool = option(False)
    """Whether a learned symbol stands before the inputs, at position 0 (the sign to stop, for a
    decoder that counts down).
    """
    target_space_embedding: bool = option(False)
    """Whether a learned vector is added to every embedded input (tensor2tensor's embedding of the
    target space).
    """

    def mistakes(self) -> list[str]:
        """How positions are counted, spread and begun again must fit together."""
        mistakes = super().mistakes()
        if self.position_offset != "none" and self.max_position_offset == 0:
            mistakes.append(
                f"position_offset={self.position_offset} needs max_position_offset above 0"
            )
        if self.position_from == "both" and self.position != "rotary":
            mistakes.append(f"position_from=both needs position=rotary, not {self.position}")
        if self.eval_position_stride != 1 and self.position_offset not in _SPREADING:
            mistakes.append(
                f"eval_position_stride={self.eval_position_stride} needs position_offset=mixed or"
                " randomised"
            )
        if self.position_separator and (self.position == "none" or self.position_from == "end"):
            mistakes.append(
                f"position_separator={self.position_separator} lets positions begin again that"
                f" count from the start, which position={self.position} with"
                f" position_from={self.position_from} has none of: set it to 0, or position_from to"
                " start or both"
            )
        if self.position_digits and (
            self.position == "none" or self.position_from != "start" or self.position_separator
        ):
            mistakes.append(
                f"position_digits={self.position_digits} gives digits their places in place of"
                f" positions that count from the start, which position={self.position} with"
                f" position_from={self.position_from} and position_separator="
                f"{self.position_separator} are not: set position_digits to 0, or position_from to"
                " start and position_separator to 0"
            )
        return mistakes

    def mistakes_with(self, training: TrainingConfig) -> list[str]:
        """Positions must reach as far as the longest examples of training."""
        mistakes = super().mistakes_with(training)
        needed, spread = 2 * training.max_length + 3, self.position_offset in _SPREADING
        if spread and self.max_position_offset < needed:
            mistakes.append(
                f"position_offset={self.position_offset} spreads up to 2 * max_length + 3 ="
                f" {needed} positions over max_position_offset={self.max_position_offset}: raise"
                " max_position_offset or lower max_length"
            )
        reached = self.max_position_offset if spread else self._largest(training.max_length)
        if self.position == "learned" and self.learned_positions < reached:
            mistakes.append(
                f"position=learned has learned_positions={self.learned_positions} embeddings, and"
                f" training reaches position {reached}: raise learned_positions or lower max_length"
                " or max_position_offset"
            )
        return mistakes

    def _largest(self, max_length: int) -> int:
        """The largest position in training where positions are not spread out."""
        inputs, targets = max_length, max_length
        if self.position_from == "end":
            inputs += self.end_position - (0 if self.input_start_symbol else 1)
        if self.target_position == "continue":
            targets += max_length
        offsets = {"none": self.eval_position_offset, "random": self.max_position_offset}
        return max(inputs, targets) + offsets.get(self.position_offset, 0)


@dataclass(frozen=True, kw_only=True)
class AttentionModelConfig(TargetStartConfig, PositionConfig, EmbeddingConfig, BlockConfig):
    """The fields that Universal Transformers, Transformers and those with memory share."""

    def mistakes(self) -> list[str]:
        """Rotary positions turn pairs of numbers."""
        mistakes = super().mistakes()
        size = self.width_of_head
        divided = self.head_size or self.hidden_size % self.num_heads == 0
        if self.position == "rotary" and size % 2 and divided:
            mistakes.append(f"position=rotary needs an even size per head, not {size}")
        return mistakes
