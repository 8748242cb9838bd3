"""The spec of a problem for a model: the kinds of its inputs and targets, and their sizes.

How it is used::

    spec = ProblemSpec(inputs="tokens", targets="class", input_vocab_size=64, target_vocab_size=4)
"""

import dataclasses
import typing
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal, Self

from ut_tf.errors import UserError, did_you_mean

_KINDS = {
    "inputs": Literal["tokens", "facts", "none"],
    "targets": Literal["tokens", "aligned", "class", "word"],
}


@dataclass(frozen=True)
class ProblemSpec:
    """What a model must know of a problem.

    Args:
      inputs: "tokens" (ids [length]), "facts" (word ids [rows, max_words], the last row the
        question) or "none" (a language model).
      targets: "tokens" (ids [length], which a decoder writes), "aligned" (ids [length], one at each
        symbol of the inputs, answered all at once), "class" (one id []) or "word" (the id [] of one
        of the words that stand in the inputs before their first END_ID; 0 where it is none of them,
        which no model can answer).
      input_vocab_size: ids of the inputs, padding and end of sequence included; 0 without inputs.
      target_vocab_size: ids of the targets likewise, or the number of classes; of targets "word"
        the ids of the inputs.
      max_words: words per fact, for inputs of facts.
      shared_vocab: whether inputs and targets have the same ids.

    Raises:
      UserError: lists every field that cannot be.
    """

    inputs: Literal["tokens", "facts", "none"]
    targets: Literal["tokens", "aligned", "class", "word"]
    input_vocab_size: int
    target_vocab_size: int
    max_words: int = 0
    shared_vocab: bool = False

    def __post_init__(self) -> None:
        mistakes = []
        for name in ("inputs", "targets"):
            value, options = getattr(self, name), typing.get_args(_KINDS[name])
            if value not in options:
                hint = did_you_mean(str(value), options)
                mistakes.append(f"{name}={value!r}: expected one of {', '.join(options)}{hint}")
        # Padding and the end of a sequence have ids, too.
        least = {"input_vocab_size": 2 * (self.inputs != "none"), "max_words": 0}
        least["target_vocab_size"] = {"class": 1, "word": 0}.get(self.targets, 2)
        for name, lowest in least.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < lowest:
                mistakes.append(f"{name}={value!r}: expected a whole number from {lowest}")
        shares = self.shared_vocab and self.inputs == self.targets == "tokens"
        if shares and self.input_vocab_size != self.target_vocab_size:
            sizes = f"{self.input_vocab_size} and {self.target_vocab_size}"
            mistakes.append(f"shared_vocab=True needs equal vocabulary sizes, not {sizes}")
        if mistakes:
            raise UserError(f"ProblemSpec: {'; '.join(mistakes)}.")

    @property
    def has_one_answer(self) -> bool:
        """Whether an example's target is one id, and not a sequence of them."""
        return self.targets in ("class", "word")

    def to_dict(self) -> dict[str, Any]:
        """A plain dictionary, ready for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The spec written by ``to_dict``."""
        # Runs and models of development versions have it.
        return cls(**{name: value for name, value in values.items() if name != "leaf_symbol"})
