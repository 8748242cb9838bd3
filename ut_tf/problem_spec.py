"""What a model must know of a problem: the kinds of its inputs and targets, and their sizes.

How it is used::

    spec = ProblemSpec(inputs="tokens", targets="class", input_vocab_size=64, target_vocab_size=4)
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal, Self


@dataclass(frozen=True)
class ProblemSpec:
    """What a model must know of a problem.

    Args:
      inputs: "tokens" (ids [length]), "facts" (word ids [rows, max_words], the last row the
        question) or "none" (a language model).
      targets: "tokens" (ids [length]), "class" (one id []) or "word" (the id [] of one of the words
        that stand in the inputs before their first END_ID; 0 where it is none of them, which no
        model can answer).
      input_vocab_size: ids of the inputs, padding and end of sequence included; 0 without inputs.
      target_vocab_size: ids of the targets likewise, or the number of classes; of targets "word"
        the ids of the inputs.
      max_words: words per fact, for inputs of facts.
      shared_vocab: whether inputs and targets have the same ids.
    """

    inputs: Literal["tokens", "facts", "none"]
    targets: Literal["tokens", "class", "word"]
    input_vocab_size: int
    target_vocab_size: int
    max_words: int = 0
    shared_vocab: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Returns a plain dictionary, ready for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Returns the spec written by ``to_dict``."""
        return cls(**values)
