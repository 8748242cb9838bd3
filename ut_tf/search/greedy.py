"""Greedy decoding: the most probable symbol at each position."""

from typing import Any

from ut_tf.search.bounds import Bounds
from ut_tf.search.loop import State
from ut_tf.search.speculation import speculate
from ut_tf.search.strategy import Features, Seeds, Strategy, Written
from ut_tf.search.writing import greedy_choice, write


class Greedy(Strategy):
    """One output of each example. A subclass may choose the symbols otherwise."""

    @property
    def hypotheses(self) -> int:
        return 1

    @property
    def drafts(self) -> bool:
        # What is drafted is the most probable symbol.
        return type(self).choose is Greedy.choose

    def choose(self, logits: Any, index: Any, state: State) -> Any:
        """The symbols of one position, int32 [batch, 1]: a ``Choice``."""
        return greedy_choice(logits, index, state)

    def search(self, stepper: Any, features: Features, bounds: Bounds, seeds: Seeds) -> Written:
        if self.config.draft_steps:
            return speculate(stepper, features, bounds)[0]
        return write(stepper, features, bounds, self.choose)
