"""The configuration of the end-to-end memory network.

How it is used::

    MemN2NConfig(hidden_size=50, num_steps=3, memory_size=50)
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from ut_tf.config.fields import option
from ut_tf.config.groups import MemoryConfig, SizeConfig, StepsConfig


@dataclass(frozen=True, kw_only=True)
class MemN2NConfig(MemoryConfig, StepsConfig, SizeConfig):
    """An end-to-end memory network: num_steps hops over memory_size facts (arXiv 1503.08895)."""

    title: ClassVar[str] = "Memory networks"

    hop_tying: Literal["adjacent", "layerwise"] = option("adjacent")
    """A hop's output embedding is the next hop's input embedding, or all hops share both and a
    linear map joins them.
    """
    linear_start: int = option(0, at_least=0)
    """Updates after which the softmax over the facts is put in; before, each hop adds up all facts,
    weighted by plain dot products (Section 4.2). 0: it is there from the first.
    """
    memory_noise: float = option(0.0, at_least=0, below=1)
    """Probability that an empty fact stands behind a fact in training: older ones look older by one
    (Section 4.2: a tenth).
    """

    def mistakes(self) -> list[str]:
        """There are no weights for older facts or further hops than in training."""
        mistakes = super().mistakes()
        if self.eval_memory_size > self.memory_size:
            mistakes.append(
                f"eval_memory_size={self.eval_memory_size} is more than"
                f" memory_size={self.memory_size}, and memn2n has learned no temporal encoding for"
                " older facts: lower it"
            )
        if self.hop_tying == "adjacent" and (self.eval_num_steps or 0) > self.num_steps:
            mistakes.append(
                f"eval_num_steps={self.eval_num_steps} is more than num_steps={self.num_steps}, and"
                " with hop_tying=adjacent each hop of memn2n has an embedding of its own: use"
                " layerwise"
            )
        return mistakes
