"""The options of decoding, checked when they are made.

Example::

    # every mistake in the text is listed at once
    config = DecodeConfig.from_text("beam_size=4,alpha=0.6,extra_length=50")
    config = DecodeConfig(sampling=True, temperature=0.8, n_best=5)
    decoded = decode(model, features, config)  # ut_tf.search.strategies

All lengths count the end symbol: an output of two words and the end is 3 long.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from ut_tf.config.base import Config
from ut_tf.config.fields import option
from ut_tf.config.overrides import coerce

AUTO = "auto"
# Lengths are int32, and sums of them.
_MOST = 10**9
# What tensor2tensor calls some of the options: its users type these first.
_TENSOR2TENSOR_NAMES = {
    "num_samples": "n_best, with sampling=true; to decode only some lines, shorten the file",
    "sampling_method": "sampling=true",
    "sampling_temp": "temperature",
    "sampling_keep_top_k": "top_k",
    "force_decode_length": "force_length",
    "return_beams": "n_best, as many as beam_size",
}


@dataclass(frozen=True)
class DecodeConfig(Config):
    """The options of a search; impossible ones raise a UserError that lists them all."""

    heading: ClassVar[str] = "decoding options"
    noun: ClassVar[str] = "option"

    # The search.
    beam_size: int = option(4, at_least=1, at_most=_MOST)
    """Hypotheses kept at every symbol; 1: greedy, the most probable symbol each time."""
    alpha: float = option(0.6, at_least=0, at_most=10)
    """Length penalty of beam search: a score is log-probability / ((5 + length) / 6)^alpha (arXiv
    1609.08144); 0: no penalty.
    """
    n_best: int = option(1, at_least=1, at_most=_MOST)
    """Outputs for each input, best first: at most beam_size of a beam search, one of greedy
    decoding, any number of samples.
    """

    # Lengths, the end symbol included.
    extra_length: int = option(50, at_least=0, at_most=_MOST)
    """An output is at most as long as its input and this many symbols."""
    max_length: int = option(0, at_least=0, at_most=_MOST)
    """Where above 0: outputs have at most this many symbols, however long the input; 0:
    extra_length decides.
    """
    min_length: int = option(0, at_least=0, at_most=_MOST)
    """Outputs have at least this many symbols."""
    force_length: int = option(0, at_least=0, at_most=_MOST)
    """Where above 0: every output has exactly this many symbols, the last of which is the end; the
    other bounds do not count then. Where a prefix is as long or longer, its first so many symbols
    are the output, without the end."""

    # Sampling.
    sampling: bool = option(False)
    """Draws every symbol from the model's distribution instead of searching for the most probable
    output.
    """
    temperature: float = option(
        1.0,
        must_be=(
            "above 0 (for the most probable symbols use beam_size=1)",
            lambda temperature: temperature > 0,
        ),
    )
    """Logits are divided by it before a symbol is drawn: below 1 probable symbols become more
    probable.
    """
    top_k: int = option(0, at_least=0, at_most=_MOST)
    """Symbols are drawn from the k most probable ones only; 0: from all."""
    top_p: float = option(1.0, above=0, at_most=1)
    """Symbols are drawn from the fewest most probable ones that have this probability together; 1:
    from all.
    """

    # What is done with files.
    batch_size: int = option(32, at_least=1, at_most=_MOST)
    """Examples decoded at once."""
    max_input_length: int = option(1000, at_least=1, at_most=_MOST)
    """Symbols of an input that are read, the end symbol included; what a longer one has beyond them
    is left out, with a warning.
    """
    write_beam_scores: bool = option(False)
    """Whether ut-decoder writes the score of an output beside it."""

    # What came after version 0.4 stands behind: options may be given by position.
    compute_type: Literal["float", "int8"] = option("float")
    """float: matrix products as the model has them. int8: products of the decoder's large matrices
    in int8, faster on processors that have such products (avx512_vnni, avx_vnni); the scores change
    a little.
    """
    wide_ends: bool = option(False)
    """Beam search keeps an output that ends if it is among the 2 * beam_size best continuations
    (tensor2tensor), instead of the beam_size best.
    """
    strategy: str = option(AUTO, names_of="strategies", besides=(AUTO,))
    """The search strategy: greedy, beam, sampling, or a registered name; auto: sampling if
    `sampling` is set, otherwise greedy for beam_size=1 and beam for more.
    """
    draft_steps: int = option(0, at_least=0, at_most=_MOST)
    """Greedy decoding drafts symbols with so many recurrent steps of a Universal Transformer and
    verifies several of them at once with all its steps, which writes the same; 0: no drafts.
    """

    @property
    def strategy_name(self) -> str:
        """The registered name of the search strategy: ``strategy``, or the one that auto stands
        for.
        """
        if self.strategy != AUTO:
            return self.strategy
        if self.sampling:
            return "sampling"
        return "greedy" if self.beam_size == 1 else "beam"

    @property
    def longest(self) -> int:
        """The symbols that every output has at most, however long its input; 0: extra_length
        decides.
        """
        return self.force_length or self.max_length

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The default options with the fields set that `text`, "name=value,name=value", names; as
        ``override``.
        """
        return cls().override(text)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The options that ``to_dict`` wrote, or only some of them; raises as ``override``."""
        return cls().change(**values)

    def hint(self, name: str) -> str:
        """Returns a hint at the meaning of an unknown name, in brackets; may be empty."""
        if name in _TENSOR2TENSOR_NAMES:
            return f" (here it is {_TENSOR2TENSOR_NAMES[name]})"
        return super().hint(name)

    def mistakes(self) -> list[str]:
        """Lengths must not contradict each other, and a built-in strategy reads only some options;
        one of user code may read them all.
        """
        mistakes = super().mistakes()
        if self.max_length and not self.force_length and self.min_length > self.max_length:
            mistakes.append(
                f"min_length={self.min_length} is more than max_length={self.max_length}"
            )
        name = self.strategy_name
        if self.draft_steps and name in ("beam", "sampling"):
            mistakes.append(
                f"draft_steps={self.draft_steps} is for greedy decoding: set beam_size=1, or"
                " leave it out"
            )
        if name not in ("greedy", "beam"):
            return mistakes
        if name == self.strategy == "greedy" and self.n_best > 1:
            mistakes.append(f"n_best={self.n_best}: strategy=greedy writes one output")
        elif self.n_best > self.beam_size:
            mistakes.append(
                f"n_best={self.n_best} is more than beam_size={self.beam_size}: raise beam_size, or"
                " sample"
            )
        if self.sampling:
            mistakes.append(f"sampling=true contradicts strategy={name}: leave one of them out")
        elif self.temperature != 1.0 or self.top_k or self.top_p != 1.0:
            mistakes.append(
                "temperature, top_k and top_p belong to sampling: set sampling=true, or leave them"
                " out"
            )
        return mistakes

    def _with(self, values: Mapping[str, Any], mistakes: list[str], parse: bool) -> Self:
        """Reads tensor2tensor's return_beams=true as n_best = beam_size."""
        values = dict(values)
        try:
            whole_beam = coerce(values.pop("return_beams", False), bool, parse)
        except ValueError as error:
            mistakes.append(f"return_beams: expected {error}")
            whole_beam = False
        if whole_beam:
            values.setdefault("n_best", values.get("beam_size", self.beam_size))
        return super()._with(values, mistakes, parse)
