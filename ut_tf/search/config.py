"""The options of decoding, checked when they are made.

Example::

    # every mistake in the text is listed at once
    config = DecodeConfig.from_text("beam_size=4,alpha=0.6,extra_length=50")
    config = DecodeConfig(sampling=True, temperature=0.8, n_best=5)
    decoded = decode(model, features, config)  # ut_tf.search.strategies

All lengths count the end symbol: an output of two words and the end is 3 long.
"""

from __future__ import annotations

import dataclasses
import typing
from typing import Any, Self

from ut_tf import registry
from ut_tf.config.overrides import coerce, parse_assignments
from ut_tf.errors import UserError, near_names

AUTO = "auto"


@dataclasses.dataclass(frozen=True)
class DecodeConfig:
    """The options of a search; impossible ones raise a UserError that lists them all."""

    # The search.
    beam_size: int = 4
    """Hypotheses kept at every symbol; 1: greedy, the most probable symbol each time."""
    alpha: float = 0.6
    """Length penalty of beam search: a score is log-probability / ((5 + length) / 6)^alpha (arXiv
    1609.08144); 0: no penalty.
    """
    n_best: int = 1
    """Outputs for each input, best first: at most beam_size of a beam search, one of greedy
    decoding, any number of samples.
    """
    wide_ends: bool = False
    """Beam search keeps an output that ends if it is among the 2 * beam_size best continuations
    (tensor2tensor), instead of the beam_size best.
    """
    strategy: str = AUTO
    """The search strategy: greedy, beam, sampling, or a registered name; auto: sampling if
    `sampling` is set, otherwise greedy for beam_size=1 and beam for more.
    """

    # Lengths, the end symbol included.
    extra_length: int = 50
    """An output is at most as long as its input and this many symbols."""
    max_length: int = 0
    """Where above 0: outputs have at most this many symbols, however long the input; 0:
    extra_length decides.
    """
    min_length: int = 0
    """Outputs have at least this many symbols."""
    force_length: int = 0
    """Where above 0: every output has exactly this many symbols, the last of which is the end; the
    other bounds do not count then. Where a prefix is as long or longer, its first so many symbols
    are the output, without the end."""

    # Sampling.
    sampling: bool = False
    """Draws every symbol from the model's distribution instead of searching for the most probable
    output.
    """
    temperature: float = 1.0
    """Logits are divided by it before a symbol is drawn: below 1 probable symbols become more
    probable.
    """
    top_k: int = 0
    """Symbols are drawn from the k most probable ones only; 0: from all."""
    top_p: float = 1.0
    """Symbols are drawn from the fewest most probable ones that have this probability together; 1:
    from all.
    """

    # What is done with files.
    batch_size: int = 32
    """Examples decoded at once."""
    max_input_length: int = 1000
    """Symbols of an input that are read, the end symbol included; what a longer one has beyond them
    is left out, with a warning.
    """
    compute_type: str = "float"
    """float: matrix products as the model has them. int8: products of the decoder's large matrices
    in int8, faster on processors that have such products (avx512_vnni, avx_vnni); the scores change
    a little.
    """
    write_beam_scores: bool = False
    """Whether ut-decoder writes the score of an output beside it."""

    def __post_init__(self) -> None:
        mistakes: list[str] = []
        for name, kind in typing.get_type_hints(type(self)).items():
            object.__setattr__(
                self, name, _coerced(name, getattr(self, name), kind, mistakes, parse=False)
            )
        _raise_all(mistakes or _impossible(self))

    @property
    def strategy_name(self) -> str:
        """The registered name of the search strategy: ``strategy``, or what auto stands for."""
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
        """The default options with the fields set that `text`, "name=value,name=value",
        names.

        tensor2tensor's return_beams=true is read as n_best = beam_size.

        Raises:
          UserError: lists every unknown name and every value that its field cannot hold.
        """
        return cls().override(text)

    def override(self, text: str) -> Self:
        """These options with the fields set that `text` names; raises as ``from_text``."""
        assigned, mistakes = parse_assignments(text)
        kinds = typing.get_type_hints(type(self))
        return_beams = _coerced(
            "return_beams", assigned.pop("return_beams", "false"), bool, mistakes
        )
        changes = {}
        for name, value in assigned.items():
            if name in kinds:
                changes[name] = _coerced(name, value, kinds[name], mistakes)
            else:
                mistakes.append(_unknown(name, kinds))
        _raise_all(mistakes)
        if return_beams and "n_best" not in changes:
            changes["n_best"] = changes.get("beam_size", self.beam_size)
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """A plain dictionary, ready for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The options written by ``to_dict``, or only some of them.

        Raises:
          UserError: lists every unknown name, or every value that its field cannot hold.
        """
        kinds = typing.get_type_hints(cls)
        _raise_all([_unknown(name, kinds) for name in values if name not in kinds])
        return cls(**values)


# What tensor2tensor calls some of the options: its users type these first.
_TENSOR2TENSOR_NAMES = {
    "num_samples": "n_best, with sampling=true; to decode only some lines, shorten the file",
    "sampling_method": "sampling=true",
    "sampling_temp": "temperature",
    "sampling_keep_top_k": "top_k",
    "force_decode_length": "force_length",
    "return_beams": "n_best, as many as beam_size",
}


def _unknown(name: str, known: Any) -> str:
    if name in _TENSOR2TENSOR_NAMES:
        return f"unknown option {name!r} (here it is {_TENSOR2TENSOR_NAMES[name]})"
    near = near_names(name, known)
    return f"unknown option {name!r}" + (f" (did you mean {' or '.join(near)}?)" if near else "")


def _coerced(name: str, value: Any, kind: Any, mistakes: list[str], parse: bool = True) -> Any:
    try:
        return _text(value) if kind is str else coerce(value, kind, parse)
    except ValueError as error:
        mistakes.append(f"{name}={value}: expected {error}")
        return None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("a name")
    return value


COMPUTE_TYPES = ("float", "int8")

_AT_LEAST = {
    **dict.fromkeys(("beam_size", "n_best", "batch_size", "max_input_length"), 1),
    **dict.fromkeys(
        ("alpha", "extra_length", "max_length", "min_length", "force_length", "top_k"), 0
    ),
}


# Lengths are int32, and sums of them; a length penalty is a float32 power.
_MOST = 10**9
_MOST_ALPHA = 10.0


def _impossible(config: DecodeConfig) -> list[str]:
    values = vars(config)
    mistakes = [
        f"{name}={values[name]}: expected at least {bound}"
        for name, bound in _AT_LEAST.items()
        if values[name] < bound
    ]
    mistakes += [
        f"{name}={value}: expected at most {_MOST}"
        for name, value in values.items()
        if isinstance(value, int) and value > _MOST
    ]
    if config.alpha > _MOST_ALPHA:
        mistakes.append(f"alpha={config.alpha}: expected at most {_MOST_ALPHA}")
    if config.temperature <= 0:
        mistakes.append(
            f"temperature={config.temperature}: expected above 0 (for the most probable symbols use"
            " beam_size=1)"
        )
    if not 0 < config.top_p <= 1:
        mistakes.append(f"top_p={config.top_p}: expected above 0 and at most 1")
    if config.compute_type not in COMPUTE_TYPES:
        mistakes.append(
            f"compute_type={config.compute_type}: expected {' or '.join(COMPUTE_TYPES)}"
        )
    if mistakes:
        return mistakes
    if config.max_length and not config.force_length and config.min_length > config.max_length:
        mistakes.append(
            f"min_length={config.min_length} is more than max_length={config.max_length}"
        )
    return mistakes + _strategy_mistakes(config)


def _strategy_mistakes(config: DecodeConfig) -> list[str]:
    """A sentence for each option that another built-in strategy reads; one of user code may read
    them all.
    """
    name = config.strategy_name
    known = [AUTO, *registry.strategies.names()]
    if name not in known:
        near = near_names(name, known)
        hint = f" (did you mean {' or '.join(near)}?)" if near else ""
        return [f"strategy={name}: expected one of {', '.join(known)}{hint}"]
    mistakes = []
    if name == "greedy" and config.strategy == name and config.n_best > 1:
        mistakes.append(f"n_best={config.n_best}: strategy=greedy writes one output")
    elif name in ("greedy", "beam") and config.n_best > config.beam_size:
        mistakes.append(
            f"n_best={config.n_best} is more than beam_size={config.beam_size}: raise beam_size, or"
            " sample"
        )
    if name in ("greedy", "beam"):
        if config.sampling:
            mistakes.append(f"sampling=true contradicts strategy={name}: leave one of them out")
        elif config.temperature != 1.0 or config.top_k or config.top_p != 1.0:
            mistakes.append(
                "temperature, top_k and top_p belong to sampling: set sampling=true, or leave them"
                " out"
            )
    return mistakes


def _raise_all(mistakes: list[str]) -> None:
    if mistakes:
        raise UserError("decoding options: " + "; ".join(mistakes) + ".")
