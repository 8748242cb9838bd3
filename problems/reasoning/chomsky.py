"""The tasks of ``chomsky_tasks.py`` as problems: a string, then "_" at each place of the answer.

"0110____" asks for "0110" backward at the four places. Trained on strings of up to 40 symbols, the
places aside, and judged beyond; the paper's lengths are 41 to 500. Difficulty is the number of
symbols in the string, which an automaton reads one after the other.
"""

import random
from collections.abc import Sequence
from typing import ClassVar, Unpack

import numpy as np

from ut_tf.errors import UserError
from ut_tf.problems.reasoning.chomsky_tasks import END, TASKS
from ut_tf.problems.reasoning.codec import Places, places_of
from ut_tf.problems.reasoning.strings import (
    MIDDLE,
    NOTHING,
    Solved,
    Strings,
    StringSizes,
    StringTask,
)

PLACE = "_"
# So many symbols has a string that asks for more than are wanted: "x=1".
_SHORTEST = 3


class Chomsky(StringTask):
    """Strings and the places of their answers, generated without end.

    Args:
      task: a name of ``TASKS``.
      max_size: the longest string of training; lengths are uniform from 1. A string that cannot
        have such a length is a symbol shorter, or as long as it must be.
      name: the problem's name, for messages.
      **sizes: see ``StringSizes``.
    """

    group_by = None
    argument_defaults: ClassVar[StringSizes] = {
        **StringTask.argument_defaults,
        "train_examples": 50_000,
    }

    def __init__(
        self, task: str, max_size: int = 40, *, name: str = "", **sizes: Unpack[StringSizes]
    ) -> None:
        if task not in TASKS:
            raise UserError(f"`task`={task!r}: expected one of {', '.join(TASKS)}.")
        self.task = TASKS[task]
        self.answers = self.task.answers
        added = sorted({*self.answers} - {*self.task.symbols})
        self.symbols = "".join([self.task.symbols, *added, PLACE])
        super().__init__(max_size, name or f"chomsky_{task}", **sizes)
        self.selection_metric = (f"{MIDDLE}/accuracy", "max")

    def draw(self, draws: np.random.Generator, sizes: Strings, width: int, split: str) -> Strings:
        drawn = random.Random(int(draws.integers(2**63)))
        texts = [self.task.draw(drawn, size) for size in sizes.tolist()]
        texts = [text + PLACE * self.task.places(len(text)) for text in texts]
        longest = max(width, _SHORTEST)
        return self._numbers(texts, longest + self.task.places(longest))

    def solve(self, strings: Strings) -> Solved:
        characters = np.array([*self.symbols, " "])[strings]
        asked = ["".join(row).rstrip().rstrip(PLACE) for row in characters.tolist()]
        answers = [" " * len(text) + self.task.answer(text) for text in asked]
        targets = self._numbers(answers, strings.shape[1])
        lengths = np.array([len(text) for text in asked])
        return Solved(targets, np.broadcast_to(lengths[:, None], targets.shape))

    def places(self) -> Places:
        """Each place of the answer."""
        told = f"'{PLACE}' at each place of the answer"
        return places_of(PLACE, self.symbols, told, END if END in self.answers else "")

    def _numbers(self, texts: Sequence[str], width: int) -> Strings:
        """The symbols of texts by number, [texts, width]; NOTHING at blanks and behind the ends."""
        codes = np.frombuffer("".join(text.ljust(width) for text in texts).encode(), np.uint8)
        table = np.full(128, NOTHING)
        table[[ord(symbol) for symbol in self.symbols]] = np.arange(len(self.symbols))
        return table[codes].reshape(-1, width)
